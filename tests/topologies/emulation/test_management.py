"""Names and addresses on the management network; the network itself is in tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation import management
from topologies.emulation.errors import EmulationError
from topologies.loader import load_text

FABRIC = multi_plane_clos("lab", hosts=4, planes=2, t0=2, t1=2)


def named(text: str) -> dict[str, str]:
    """What glibc makes of a hosts file: the first line that has a name gives its address."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            found.setdefault(name, address)
    return found


def test_every_host_has_a_unique_ipv4_address() -> None:
    addresses = [management.address(nic) for nic in FABRIC.nics]
    assert len(set(addresses)) == len(FABRIC.nics)
    assert all(address in management.NETWORK for address in addresses)


def test_a_host_has_a_name_on_the_management_network_and_in_each_plane() -> None:
    names = named(management.names(FABRIC, management=True))
    third = FABRIC.nic("h3")
    assert names["h3"] == str(management.address(third))
    assert names["h3-mgmt"] == names["h3"]
    assert names["h3-p1"] == str(addressing.kernel_address(FABRIC, third, 1))


def test_without_the_management_network_names_resolve_to_the_first_connected_plane() -> None:
    fabric = load_text("{name: lab, planes: 2, hosts: 4, t0: 2, t1: 2, links: {h3@p0: missing}}")
    names = named(management.names(fabric, management=False))
    assert names["h1"] == str(addressing.kernel_address(fabric, fabric.nic("h1"), 0))
    assert names["h3"] == names["h3-p1"] == str(addressing.kernel_address(fabric, fabric.nic("h3"), 1))
    assert "h3-p0" not in names


def test_the_machines_own_names_come_after_the_hosts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = tmp_path / "hosts"
    machine.write_text("127.0.0.1 localhost\n192.0.2.7 h1 store\n")
    monkeypatch.setattr(management, "_HOSTS_FILE", machine)
    names = named(management.names(FABRIC, management=True))
    assert names["h1"] == str(management.address(FABRIC.nic("h1")))
    assert (names["store"], names["localhost"]) == ("192.0.2.7", "127.0.0.1")


def test_more_hosts_than_a_bridge_has_ports_are_refused() -> None:
    large = multi_plane_clos("large", hosts=1024, planes=1, t0=4, t1=2)
    with pytest.raises(EmulationError, match=r"at most 1023 hosts, and fabric large has 1024.*--no-management"):
        management.ManagementNetwork(large)
