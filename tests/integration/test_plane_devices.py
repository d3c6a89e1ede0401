"""A device for each plane, with Debian's tools: what they see, and that each keeps to its plane, faults included."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import IPv6Address
from pathlib import Path

import pytest

pytest.importorskip("mininet")

from mrc_host import verbs
from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration import perftest
from tests.integration.names import own
from tests.integration.nic_traffic import Reading, Traffic
from tests.integration.perftest import cut, pair, start, table_of
from tests.waiting import until
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation import host_environment

pytestmark = [*perftest.MARKS, perftest.needs_perftest]

NAME = own("rails")
MRC = Path(sys.executable).with_name("mrc")
PLANES = host_environment.PLANE_DEVICES
WATCHER = """
import sys
from pyverbs.device import Context
context = Context(name=sys.argv[1])
print("open", flush=True)
while True:
    print({9: "PORT_ACTIVE", 10: "PORT_ERR"}[context.get_async_event().event_type], flush=True)
"""
DARK = "-u 9 -n 2000"  # an ACK timeout of 0.5 ms, so that a silent peer is an error soon


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    with running(multi_plane_clos(NAME, planes=2, t0=2, t1=2, hosts=4, rate_bps=100_000_000)) as world:
        yield world


def printed(world: EmulatedWorld, host: str, *command: str, **environment: str) -> str:
    with start(world, host, *command, **environment) as process:
        text, _ = process.communicate()
    assert process.returncode == 0, text
    return text


def states(world: EmulatedWorld, host: str) -> dict[str, str]:
    text = printed(world, host, "ibv_devinfo", **PLANES)
    return dict(re.findall(r"hca_id:\s+(\S+)\n(?:.*\n)*?\s+state:\s+PORT_(\w+)", text))


def test_tools_list_a_device_for_each_plane_if_asked_to(world: EmulatedWorld) -> None:
    devices = r"^\s+(mrc0\S*)\s+([0-9a-f]{16})$"
    assert [name for name, _ in re.findall(devices, printed(world, "h2", "ibv_devices"), re.M)] == ["mrc0"]
    found = re.findall(devices, printed(world, "h2", "ibv_devices", **PLANES), re.M)
    assert [name for name, _ in found] == ["mrc0", "mrc0_p0", "mrc0_p1"]
    assert len({guid for _, guid in found}) == 3
    assert states(world, "h2") == {"mrc0": "ACTIVE", "mrc0_p0": "ACTIVE", "mrc0_p1": "ACTIVE"}


def test_a_nic_whose_agent_is_gone_has_no_planes(world: EmulatedWorld) -> None:
    text = printed(world, "h2", "ibv_devices", MRC_AGENT="/nowhere", **PLANES)
    assert re.findall(r"mrc0\S*", text) == ["mrc0"]


def test_mrc_exec_gives_programs_these_devices_on_request(world: EmulatedWorld) -> None:
    words = [MRC, "exec", "--devices-per-plane", NAME, "h2", "--", "ibv_devinfo", "-d", "mrc0_p1"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hca_id") == 1


def test_the_gid_of_a_device_is_the_address_of_the_hosts_interface_in_its_plane(world: EmulatedWorld) -> None:
    nic = world.fabric.nic("h2")
    for plane in range(2):
        text = printed(world, "h2", "ibv_devinfo", "-v", "-d", f"mrc0_p{plane}", **PLANES)
        (gid, *_) = re.findall(r"GID\[\s*0\]:\s+([0-9a-f:]+)", text)
        assert IPv6Address(gid) == addressing.kernel_address(world.fabric, nic, plane)


@pytest.mark.parametrize("kind", ["mrc", "rc", "uet"])
@pytest.mark.parametrize("plane", [0, 1])
def test_bytes_keep_to_the_plane_of_the_device(world: EmulatedWorld, kind: str, plane: int) -> None:
    with verbs.open(world.emulation.socket("h3")) as context:
        before = Reading.take(context)
        with pair(world, f"ib_write_bw -d mrc0_p{plane} -s 65536 -n 40", MRC_QP_TYPE=kind, **PLANES) as ends:
            assert table_of(*ends)
        received = Traffic(before, Reading.take(context)).by_plane("rx_bytes")
    assert received[plane] > 40 * 65536
    assert received[1 - plane] < 65536  # what NICs tell each other about their ports


def test_both_devices_work_at_once(world: EmulatedWorld) -> None:
    with (
        pair(world, "ib_write_bw -d mrc0_p0 -s 65536 -n 100", port=18531, **PLANES) as one,
        pair(world, "ib_write_bw -d mrc0_p1 -s 65536 -n 100", port=18532, **PLANES) as other,
    ):
        assert table_of(*one)
        assert table_of(*other)


@pytest.mark.parametrize("name", ["mrc0_p2", "mrc1"])
def test_a_device_that_does_not_exist_is_not_found(world: EmulatedWorld, name: str) -> None:
    with start(world, "h1", "ib_write_bw", "-d", name, **PLANES) as process:
        text, _ = process.communicate()
    assert process.returncode != 0
    assert "not found" in text


def test_without_the_variable_there_is_no_device_of_a_plane(world: EmulatedWorld) -> None:
    with start(world, "h1", "ib_write_bw", "-d", "mrc0_p1") as process:
        text, _ = process.communicate()
    assert process.returncode != 0
    assert "not found" in text


@pytest.mark.parametrize("link", ["h1@p1", "h3@p1"])
def test_a_cut_link_ends_a_program_on_its_plane_and_no_other(world: EmulatedWorld, link: str) -> None:
    host = link.split("@")[0]
    with (
        pair(world, f"ib_write_bw -d mrc0_p1 -s 65536 {DARK}", port=18533, **PLANES) as bound,
        pair(world, "ib_write_bw -d mrc0 -s 65536 -D 3", port=18534, **PLANES) as free,
    ):
        until(lambda: perftest.queue_pairs(world, "h3") == 2, "both to connect")
        with cut(world, link):
            until(lambda: states(world, host)["mrc0_p1"] == "DOWN", "the NIC to see it")
            assert states(world, host) == {"mrc0": "ACTIVE", "mrc0_p0": "ACTIVE", "mrc0_p1": "DOWN"}
            text = bound[0].communicate()[0]
            assert "transport retry counter exceeded" in text or "status 12" in text, text
            bound[1].send_signal(signal.SIGKILL)
        assert table_of(*free)
    until(lambda: states(world, host)["mrc0_p1"] == "ACTIVE", "the NIC to see the link again")
    with pair(world, "ib_write_bw -d mrc0_p1 -s 65536 -n 20", port=18535, **PLANES) as ends:
        assert table_of(*ends)


@pytest.mark.skipif(
    subprocess.run(["/usr/bin/python3", "-c", "import pyverbs"], capture_output=True).returncode != 0,
    reason="apt-get install python3-pyverbs",
)
def test_each_device_has_the_events_of_its_planes(world: EmulatedWorld) -> None:
    with ExitStack() as stack:
        watchers = {}
        for name in ("mrc0", "mrc0_p0", "mrc0_p1"):
            process = stack.enter_context(start(world, "h2", "/usr/bin/python3", "-c", WATCHER, name, **PLANES))
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            watchers[name] = process.stdout
        with cut(world, "h2@p1"):
            assert watchers["mrc0_p1"].readline() == "PORT_ERR\n"
            with cut(world, "h2@p0"):
                assert watchers["mrc0_p0"].readline() == watchers["mrc0"].readline() == "PORT_ERR\n"
            assert watchers["mrc0_p0"].readline() == watchers["mrc0"].readline() == "PORT_ACTIVE\n"
        assert watchers["mrc0_p1"].readline() == "PORT_ACTIVE\n"


@pytest.mark.parametrize(("client", "server"), [("mrc0_p1", "mrc0"), ("mrc0", "mrc0_p1")])
def test_with_the_nics_own_device_at_one_end_both_keep_to_the_plane(
    world: EmulatedWorld, client: str, server: str
) -> None:
    with verbs.open(world.emulation.socket("h3")) as context:
        before = Reading.take(context)
        with pair(
            world, f"ib_write_bw -s 65536 -n 40 -d {client}", other=f"ib_write_bw -s 65536 -n 40 -d {server}", **PLANES
        ) as ends:
            assert table_of(*ends)
        received = Traffic(before, Reading.take(context)).by_plane("rx_bytes")
    assert received[1] > 40 * 65536
    assert received[0] < 65536


def test_devices_of_different_planes_are_not_connected(world: EmulatedWorld) -> None:
    with pair(world, "ib_write_bw -d mrc0_p0", other="ib_write_bw -d mrc0_p1", **PLANES) as (client, server):
        text = client.communicate()[0]
        server.kill()
    assert client.returncode != 0
    assert "the peer's device is in plane 1, and mrc0_p0 is not: use the same plane on both ends." in text
