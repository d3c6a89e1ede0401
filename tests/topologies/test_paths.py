from __future__ import annotations

import pytest

from mrc_host.agent.config_file import dump_config, parse_config
from tests.topologies.shapes import SHAPES, build
from tests.topologies.walk import Walker, shift
from topologies import addressing, paths
from topologies.fabric import LinkEnd, Tier


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_entropy_value_reaches_the_peer_over_its_path(shape: dict[str, int]) -> None:
    fabric = build(shape)
    walker = Walker(fabric)
    for source in fabric.nics:
        config = paths.nic_config(fabric, source)
        for target in config.destinations:
            peer = fabric.nic(target.name)
            same_t0 = peer.t0 == source.t0
            taken = set()
            for ev in target.evs:
                plane, uplink = target.template.plane(ev), target.template.uplink(ev)
                start = fabric.peer(LinkEnd(source.name, plane))
                assert start is not None
                address = int.from_bytes(target.template.address(ev), "big")
                nodes, end, final = walker.usid_path(start, address)
                own_t0, t1, peer_t0 = f"t0-{source.t0}@p{plane}", f"t1-{uplink}@p{plane}", f"t0-{peer.t0}@p{plane}"
                assert nodes == ([own_t0] if same_t0 else [own_t0, t1, peer_t0])
                assert end == LinkEnd(peer.name, plane)
                own = addressing.locator(fabric, addressing.nic_usid(peer, plane))
                assert final == own << 80, "only the NIC's own uSID is left"
                taken.add(tuple(nodes))
            assert len(taken) == len(target.evs) == fabric.planes * (1 if same_t0 else fabric.t1_count)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_probe_paths_lead_to_a_switch_and_back_to_the_sender(shape: dict[str, int]) -> None:
    fabric = build(shape)
    walker = Walker(fabric)
    nic = fabric.nics[-1]
    for plane in range(fabric.planes):
        start = fabric.peer(LinkEnd(nic.name, plane))
        assert start is not None
        own_t0 = f"t0-{nic.t0}@p{plane}"
        ev = addressing.entropy_value(plane, 0)
        template = paths.probe_template(fabric, nic, Tier.T0)
        nodes, end, _ = walker.usid_path(start, int.from_bytes(template.address(ev), "big"))
        assert (nodes, end) == ([own_t0], LinkEnd(nic.name, plane))
        for uplink in range(fabric.t1_count):
            template = paths.probe_template(fabric, nic, Tier.T1)
            ev = addressing.entropy_value(plane, uplink)
            nodes, end, _ = walker.usid_path(start, int.from_bytes(template.address(ev), "big"))
            assert (nodes, end) == ([own_t0, f"t1-{uplink}@p{plane}", own_t0], LinkEnd(nic.name, plane))


def test_nic_config_lists_ports_and_all_peers() -> None:
    fabric = build(SHAPES[0])
    config = paths.nic_config(fabric, fabric.nic("h3"))
    assert [port.plane for port in config.ports] == [0, 1]
    assert [port.interface for port in config.ports] == ["h3-eth0", "h3-eth1"]
    assert {target.name for target in config.destinations} == {"h1", "h2", "h4"}
    for port in config.ports:
        gateway = fabric.peer(LinkEnd("h3", port.plane))
        assert gateway is not None
        assert port.gateway_mac == addressing.mac(fabric, gateway)
        assert port.mac == addressing.mac(fabric, LinkEnd("h3", port.plane))
        assert port.usid == addressing.nic_usid(fabric.nic("h3"), port.plane)


def test_the_agents_configuration_file_is_equivalent() -> None:
    fabric = build(SHAPES[-1])
    config = paths.nic_config(fabric, fabric.nic("h5"))
    assert parse_config(dump_config(config)) == config


def test_shifting_zero_fills() -> None:
    assert shift(0xFC00_0000_2001_4002_2003_6004_0000_0000) == 0xFC00_0000_4002_2003_6004_0000_0000_0000
