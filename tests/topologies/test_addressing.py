from __future__ import annotations

from ipaddress import IPv6Address

import pytest

from tests.topologies.shapes import SHAPES, build
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkEnd
from topologies.fabric_checks import MAX_PORTS


def test_usids_have_the_documented_layout() -> None:
    assert addressing.usid(addressing.KIND_T0, 0, 0) == 0x2000
    assert addressing.usid(addressing.KIND_T1, 3, 5) == 0x4000 | 3 << 10 | 5
    assert addressing.usid(addressing.KIND_NIC, 7, 1023) == 0x6000 | 7 << 10 | 1023
    assert addressing.entropy_value(5, 17) == 5 << 10 | 17


def test_nic_and_kernel_addresses_differ_and_share_the_t0_prefix() -> None:
    fabric = multi_plane_clos()
    nic = fabric.nic("h4")
    assert addressing.nic_address(fabric, nic) == IPv6Address("fd00:6d:7263:1::2")
    assert addressing.kernel_address(fabric, nic, 1) == IPv6Address("fd00:6d:7263:1:1:1::2")
    for plane in range(fabric.planes):
        assert addressing.kernel_address(fabric, nic, plane) in addressing.t0_prefix(fabric, nic.t0)
        assert addressing.kernel_address(fabric, nic, plane) in addressing.kernel_prefix(fabric, nic.t0, plane)
    assert addressing.nic_address(fabric, nic) not in addressing.kernel_prefix(fabric, nic.t0, 0)


def test_addresses_macs_and_interfaces_are_unique_in_the_largest_shape() -> None:
    fabric = build(SHAPES[-1])
    ends = [end for link in fabric.links for end in (link.lower, link.upper)]
    macs = {addressing.mac(fabric, end) for end in ends}
    assert len(macs) == len(ends)
    assert all(len(mac) == 6 and mac[0] & 0x03 == 0x02 for mac in macs), "locally administered, unicast"
    names = {addressing.interface_name(fabric, end) for end in ends}
    assert len(names) == len(ends)
    addresses = {addressing.nic_address(fabric, nic) for nic in fabric.nics}
    addresses |= {addressing.kernel_address(fabric, n, p) for n in fabric.nics for p in range(fabric.planes)}
    assert len(addresses) == len(fabric.nics) * (1 + fabric.planes)


def test_interface_names_fit_the_kernel_as_long_as_ports_or_switches_have_two_digits() -> None:
    fabric = multi_plane_clos("x" * 32, planes=1, t0=1, t1=0, hosts=MAX_PORTS)
    last = LinkEnd("t0-99@p7", MAX_PORTS)
    assert addressing.interface_name(fabric, last).endswith(f"-t0-99p7-{MAX_PORTS}")
    for end in (last, LinkEnd(f"t1-{MAX_PORTS - 3}@p7", 99), LinkEnd(f"h{MAX_PORTS}", 7)):
        assert len(addressing.interface_name(fabric, end)) <= 15


def test_interface_names_of_two_fabrics_differ() -> None:
    names = [f"fabric-{number}" for number in range(40)]
    assert len({addressing.tag(name) for name in names}) == 40
    assert len({addressing.interface_group(name) for name in names}) == 40
    assert all(addressing.tag(name)[0].isalpha() for name in names)


def test_a_destination_address_holds_six_usids() -> None:
    fabric = multi_plane_clos()
    assert addressing.usid_address(fabric, 1, 2, 3, 4, 5, 6) == 0xFC00_0000_0001_0002_0003_0004_0005_0006
    with pytest.raises(ValueError, match="at most 6 uSIDs, not 7"):
        addressing.usid_address(fabric, *range(7))
