"""What links have carried, read from a file like /proc/net/dev."""

from pathlib import Path

from topologies import addressing
from topologies.clos import multi_plane_clos
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
