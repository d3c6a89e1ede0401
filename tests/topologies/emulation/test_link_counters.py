"""What links have carried, read from a file like /proc/net/dev."""

import ctypes
from pathlib import Path

import pytest

from mrc_common.wire_counters import WireCounters
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation import run_directory
from topologies.emulation.link_counters import LinkTraffic, Traffic, read

HEAD = """Inter-|   Receive                                        |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:  100       1    0    0    0     0          0         0   100       1    0    0    0     0       0          0
"""
REST = "0 0 0 0 0 0"


def test_counters_of_both_directions_are_read_at_the_t0(tmp_path: Path) -> None:
    fabric = multi_plane_clos(planes=1, t0=2, t1=1, hosts=2)
    devices = tmp_path / "dev"
    rows = "".join(
        f"{addressing.interface_name(fabric, link.switch_end)}: {1000 + n} {n} {REST} {2000 + n} {100 + n} {REST}\n"
        for n, link in enumerate(fabric.links)
        if link.name != "h2@p0"
    )
    devices.write_text(HEAD + rows)
    found = read(fabric, devices)
    assert set(found) == {link.name for link in fabric.links}
    number = {link.name: n for n, link in enumerate(fabric.links)}
    n = number["h1@p0"]  # what the T0 received came up from the NIC
    assert found["h1@p0"] == LinkTraffic(Traffic(n, 1000 + n), Traffic(100 + n, 2000 + n))
    n = number["t0-0:t1-0@p0"]  # and what it sent went up to the T1
    assert found["t0-0:t1-0@p0"] == LinkTraffic(Traffic(100 + n, 2000 + n), Traffic(n, 1000 + n))
    assert found["h2@p0"] == LinkTraffic(), "an interface that this machine does not have"


def test_the_kernels_own_counter_file_is_parsed() -> None:
    fabric = multi_plane_clos(planes=1, t0=1, t1=0, hosts=2, name="nowhere")
    assert set(read(fabric).values()) == {LinkTraffic()}


def test_what_passed_the_kernel_by_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = multi_plane_clos("ringed", planes=1, t0=1, t1=0, hosts=2)
    run = run_directory.RunDirectory(fabric.name, tmp_path)
    run.create()
    monkeypatch.setattr("topologies.emulation.link_counters.RunDirectory", lambda _name: run)
    name = addressing.interface_name(fabric, fabric.link("h1@p0").switch_end)
    counters = WireCounters(run.wire_counters("switches"), [name])
    (ctypes.c_uint64 * 5).from_address(counters.address(name))[:] = (5, 5000, 7, 7000, 0)
    devices = tmp_path / "dev"
    devices.write_text(f"{HEAD}{name}: 100 1 {REST} 200 2 {REST}\n")
    found = read(fabric, devices)
    assert found["h1@p0"] == LinkTraffic(Traffic(6, 5100), Traffic(9, 7200))
    assert found["h2@p0"] == LinkTraffic()
