from __future__ import annotations

import dataclasses
import gc
from typing import Any

import pytest

from tests.topologies.shapes import SHAPES, build
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import LinkEnd, LinkKind, Tier


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_fabric_has_the_requested_sizes(shape: dict[str, int]) -> None:
    fabric = build(shape)
    planes, t0, t1, hosts = (shape[key] for key in ("planes", "t0", "t1", "hosts"))
    assert (fabric.planes, fabric.t0_count, fabric.t1_count, len(fabric.nics)) == (planes, t0, t1, hosts)
    assert len(fabric.switches) == planes * (t0 + t1)
    assert len(fabric.links) == planes * (hosts + t0 * t1)
    assert len({switch.device_id for switch in fabric.switches}) == len(fabric.switches)


def test_wiring_of_the_demo_fabric() -> None:
    fabric = multi_plane_clos("demo", planes=2, t0=2, t1=4, hosts=4)
    assert [(nic.name, nic.t0, nic.downlink) for nic in fabric.nics] == [
        ("h1", 0, 0),
        ("h2", 0, 1),
        ("h3", 1, 0),
        ("h4", 1, 1),
    ]
    assert fabric.peer(LinkEnd("h4", 1)) == LinkEnd("t0-1@p1", 2)
    assert fabric.peer(LinkEnd("t0-1@p1", 6)) == LinkEnd("t1-3@p1", 2)
    assert [switch.name for switch in fabric.tier(Tier.T1, 1)] == ["t1-0@p1", "t1-1@p1", "t1-2@p1", "t1-3@p1"]
    assert [nic.name for nic in fabric.nics_of(1)] == ["h3", "h4"]


def test_rates_per_tier() -> None:
    fabric = multi_plane_clos(rate_bps=40_000_000, uplink_rate_bps=20_000_000)
    assert {link.rate_bps for link in fabric.links if link.kind is LinkKind.NIC_T0} == {40_000_000}
    assert {link.rate_bps for link in fabric.links if link.kind is LinkKind.T0_T1} == {20_000_000}


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"planes": 0}, "planes is 0, but must be 1 to 8"),
        ({"planes": 9}, "planes is 9, but must be 1 to 8"),
        ({"t0": 0}, "t0 is 0, but must be 1 to 1024"),
        ({"t1": 1025}, "t1 is 1025, but must be 0 to 1024"),
        ({"hosts": 0}, "hosts is 0, but must be 1 to 1048576"),
        ({"t1": 0}, "2 T0s per plane need at least one T1 to join them"),
        ({"hosts": 5}, "5 hosts cannot be spread evenly over 2 T0 groups: give a multiple of 2"),
        ({"t0": 1, "t1": 509, "hosts": 2}, "switch t0-0@p0 has 511 ports, but a P4 switch has 509 at most"),
        ({"t0": 1, "t1": 0, "hosts": 1025}, "number of hosts in a rack is 1025, but must be between 1 and 1024"),
        ({"t0": 256, "hosts": 65792}, "there are 65792 hosts, but 65535 NICs can have a MAC address"),
        ({"rate_bps": 100}, "rate of link h1@p0 is 100 b/s"),
        ({"mtu": 1000}, "mtu is 1000, but must be between 1280 and 65471"),
        ({"usid_block": 1 << 32}, "usid_block is"),
        ({"address_prefix": -1}, "address_prefix is"),
    ],
)
def test_impossible_sizes_are_refused(numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(FabricError) as raised:
        multi_plane_clos(**numbers)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["", "Demo", "9lives", "a b", "../etc", "x" * 33, "demo/1", "é"])
def test_names_unusable_as_directories_are_refused(name: str) -> None:
    with pytest.raises(FabricError, match="must be 1 to 32 lower-case letters"):
        multi_plane_clos(name)


def test_a_fabric_without_packets_has_more_ports_on_a_switch_than_p4_has():
    fabric = multi_plane_clos(planes=1, t0=512, t1=1, hosts=512, packets=False)
    assert len(fabric.switch("t1-0@p0").ports) == 512
    with pytest.raises(FabricError, match="switch t1-0@p0 has 512 ports, but a P4 switch has 509 at most"):
        dataclasses.replace(fabric, packets=True)


def test_a_fabric_is_built_without_garbage_collection_which_then_goes_on():
    multi_plane_clos()
    assert gc.isenabled()
    with pytest.raises(FabricError):
        multi_plane_clos(hosts=0)
    assert gc.isenabled()
