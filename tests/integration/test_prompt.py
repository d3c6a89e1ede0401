"""The prompt on a terminal, on one fabric: every command, Tab, Ctrl-C, Ctrl-D, and crashes meanwhile."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.utils import RawPcapNgReader

from mrc_common.c_build import object_cache
from mrc_lab.cli.main import run
from mrc_lab.prompt.command_help import COMMANDS
from tests.integration.names import own
from tests.integration.terminal import CTRL_C, CTRL_D, TAB, Terminal
from tests.integration.traces import Traces
from tests.waiting import until
from topologies.emulation import cleanup, process_watch
from topologies.emulation.run_directory import RunDirectory

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

NAME = own("ptty")
SIZES = ("--hosts", "4", "--t0", "2", "--t1", "2", "--planes", "2", "--rate", "20M")
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    cleanup.clean(NAME, force=True)
    # Without the history of whoever runs the tests, but with the switch that has been compiled for others.
    cache = str(object_cache.default_cache().parent)
    environment = {"HOME": str(tmp_path_factory.mktemp("home")), "XDG_CACHE_HOME": cache, "DISPLAY": ""}
    with Terminal("shell", "--name", NAME, *SIZES, environment=environment) as found:
        found.until("mrc> ")
        yield found
        found.type(CTRL_D)
        assert found.ended() == 0
    assert Traces(NAME).left() == []


# What each command has to print; Mininet's commands are among them
COMMANDS_AND_ANSWERS = {
    "write h1 h3 512K": "paths in use: ",
    "allreduce 64K -n 1 -w 0": "busbw",
    "qps h1": "h3:",
    "evs h1": "good",
    "paths h1 h3": "t1-1@p1",
    "tables t0-0@p0": "usid_next",
    "counters h1": "rx_write_requests",
    "counters h1 --json": '"rx_write_requests"',
    "tables t1-0@p1 usid_next": "set_egress(port=1, dmac=02:1",
    "tables t0-0@p0 ipv6_route": "one of set_egress(",
    "queues t0-0@p0": "dropped by the P4 program: nothing",
    "queues t1-1@p1 reset": "t0-1:t1-1@p1",
    "table add t1-1@p1 traffic_class set_priority 55 => 1": "entry added to table traffic_class of t1-1@p1",
    "table restore": "1 change by hand taken back",
    "p4": "the switches run fabric.p4 of ",
    "p4 reload": "as it is already",
    "links t0-0:t1-*@p1": "t0-0:t1-1@p1",
    "fault t0-0:t1-1@p0 down": "fault f1: t0-0:t1-1@p0 down",
    "links t0-0:t1-1@p0": "DOWN",
    "write h2 h4 256K": "every byte right",
    "fault t0-0:t1-1@p0 up": "up: t0-0:t1-1@p0",
    "fault h3@p1 down": "h3@p1 down",
    "fault list": "h3@p1",
    "fault clear all": "cleared",
    "map": "path map",
    "map stop": "stopped",
    "all_reduce_perf -h": "usage",
    "all_gather_perf -h": "usage",
    "reduce_scatter_perf -h": "usage",
    "alltoall_perf -h": "usage",
    "sendrecv_perf -h": "usage",
    "broadcast_perf -h": "usage",
    "write_bw h1 h3 -s 4096 -n 5": "BW average",
    "write_lat h1 h3 -s 2 -n 5": "t_avg",
    "mrc_ping h1 h3 -c 1": "4 answered",
    "capture": "no capture runs",
    "restart h2": "process h2 was restarted in ",
    "nodes": "t1-1@p1",
    "net": "t0-0@p0",
    "dump": "FabricHost h1",
    "intfs": "h1-eth1",
    "ports": "t0-0@p0",
    "pingall": "0% dropped",
    "pingallfull": "rtt min/avg/max/mdev",
    "pingpair": "0% dropped",
    "pingpairfull": "rtt min/avg/max/mdev",
    "link t0-0@p0 t1-0@p0 down": "",
    "link t0-0@p0 t1-0@p0 up": "",
    "link h1 t0-0@p0 down": "",
    "write h1 h3 256K": "every byte right",
    "link h1 t0-0@p0 up": "",
    "switch t1-0@p0 stop": "",
    "switch t1-0@p0 start": "",
    "wait": "8 switches hold their entries",
    "h1 ping -c 1 h3": "1 received",
    "h1 ip -br link": "h1-eth0",
    "h1 ss -H -l": "",
    "t0-0@p0 echo $((6 * 7))": "42",
    "sh echo $((6 * 7))": "42",
    "py 6 * 7": "42",
    "px print(6 * 7)": "42",
    "time sh true": "Elapsed time",
    "noecho h1 echo $((6 * 7))": "42",
    "source /no/such/file": "cannot be read",
    "xterm h1": "needs a display",
    "gterm h1": "needs a display",
    "x h1": "needs a display",
    "iperf": "IPv6 addresses only",
    "iperfudp": "IPv6 addresses only",
    "dpctl show": "P4Runtime",
    "help": "Queue pairs and paths:",
    "help write": "example:  write h1 h3 64M",
}


def test_every_command_is_tried() -> None:
    tried = {line.split()[0] for line in COMMANDS_AND_ANSWERS}
    assert tried >= set(COMMANDS) - {"exit", "quit", "EOF"}


USED = re.compile(r"paths in use: (\d) in plane 0, (\d) in plane 1; packets sent (\d+), lost (\d+)")


def test_a_first_write_uses_the_paths_of_both_planes(terminal: Terminal) -> None:
    printed = terminal.run("write h1 h3 512K")
    found = USED.search(printed)
    assert found is not None, printed
    *paths, sent, lost = map(int, found.groups())
    assert sent == 128
    # Two paths a plane. On a busy machine a packet overtaken by enough others counts as lost, which rests its path.
    assert all(1 <= used <= 2 for used in paths)
    assert sum(paths) >= 4 - lost


@pytest.mark.parametrize("line", COMMANDS_AND_ANSWERS)
def test_prompt_commands_have_the_expected_output(terminal: Terminal, line: str) -> None:
    printed = terminal.run(line)
    assert COMMANDS_AND_ANSWERS[line] in printed
    assert "Traceback" not in printed
    assert "***" not in printed.replace("*** Results", "").replace("*** Ping", "").replace("*** Elapsed", "")


@pytest.mark.parametrize("link", ["t0-0:t1-0@p1", "h1@p0"])
def test_a_capture_has_both_directions_of_a_link(terminal: Terminal, tmp_path: Path, link: str) -> None:
    def frames() -> list[list[int]]:
        """Lengths of those that were received at each end while h1 wrote."""
        file = tmp_path / "link.pcapng"
        file.unlink(missing_ok=True)
        assert f"capturing {link} to {file}" in terminal.run(f"capture {link} {file}")
        assert "is being captured already" in terminal.run(f"capture {link} {file}.2")
        assert "every byte right" in terminal.run("write h1 h3 256K")
        assert f"{link} -> {file}" in terminal.run("capture")
        found = re.search(r"(\d+) packets of", terminal.run(f"capture stop {link}"))
        assert found is not None
        with RawPcapNgReader(str(file)) as reader:
            read = list(reader)
        assert len(read) == int(found[1])
        by_end: dict[str, list[int]] = {}
        for frame, meta in read:
            by_end.setdefault(meta.ifname.decode(), []).append(len(frame))
        return list(by_end.values())

    def in_both_directions() -> bool:
        by_end = frames()
        data = max(map(max, by_end), default=0) > 4096
        return data and len(by_end) == 2 and min(map(max, by_end)) < 400

    # A path whose packets a busy machine delayed is out of use until probes are answered: the next write may use it.
    until(in_both_directions)


def test_tab_completes_names_with_colons_and_at_signs(terminal: Terminal) -> None:
    terminal.type(f"links t0-1:t1-1@p{TAB}{TAB}")
    terminal.until("t0-1:t1-1@p0")
    terminal.type("1\n")
    terminal.until("t0-1:t1-1@p1  up")
    terminal.until("mrc> ")
    terminal.type(f"tables t0-0@p0 usid_n{TAB}\n")
    terminal.until("set_egress")
    terminal.until("mrc> ")


@pytest.mark.parametrize(
    ("line", "begun"),
    [
        ("write h1 h3 4000M", ""),
        ("h1 ping h3", "icmp_seq=1"),
        ("all_reduce_perf -b 64M -n 1000", "size"),
        ("write_bw h1 h3 -s 65536 -n 1000000", ""),
        ("map 1000", "path map"),
        ("sh echo begun; exec sleep 1000", "begun"),
    ],
)
def test_ctrl_c_ends_the_command_and_not_the_prompt(terminal: Terminal, line: str, begun: str) -> None:
    terminal.type(f"{line}\n")
    terminal.until("\n")
    if begun:
        terminal.until(begun)
    else:
        _wait_for_data(terminal)
    terminal.type(CTRL_C)
    printed = terminal.until("mrc> ")
    assert "Traceback" not in printed
    assert "42" in terminal.run("py 6 * 7")
    assert "every byte right" in terminal.run("write h1 h3 64K")


def _wait_for_data(terminal: Terminal) -> None:
    """Return when a queue pair of h1 has sent something for somebody."""
    from mrc_host.verbs.remote.connection import AgentConnection

    with contextlib.closing(AgentConnection(RunDirectory(NAME).host_socket("h1"))) as agent:
        before = agent.request("nic_counters")["tx_frames"]

        def sending() -> bool:
            assert "mrc> " not in terminal.seen(), f"it has ended: {terminal.seen()!r}"
            return bool(agent.request("nic_counters")["tx_frames"] >= before + 100)

        until(sending, "data")


def test_a_second_fabric_with_the_same_name_is_refused(
    terminal: Terminal, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["shell", "--name", NAME, *SIZES, "-c", "nodes"]) == 2
    assert "does not apply to a fabric that is already up: leave it out, or the name" in capsys.readouterr().err
    assert run(["up", "--name", NAME, *SIZES]) == 3
    assert f"Fabric {NAME} is up already (process {terminal.process.pid})" in capsys.readouterr().err
    assert run(["demo", "--name", NAME, "--results", str(tmp_path)]) == 3
    assert f"Fabric {NAME} is up already" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert run(["clean", "--name", NAME]) == 3
    assert "is up" in capsys.readouterr().err
    assert "42" in terminal.run("py 6 * 7")


def test_a_failed_command_sets_the_status_and_later_ones_run(
    terminal: Terminal,
) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("mrc"), "shell", NAME, "-c", "write h1 h9 1M", "-c", "write h1 h3 64K"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.count("every byte right") == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_lines_typed_ahead_of_a_hosts_command_are_carried_out(terminal: Terminal) -> None:
    terminal.type("h1 ping -c1 -W1 h3\nh2 echo $((6 * 7)) second\nsh true\nnodes\n")
    for printed in ("1 received", "42 second", "available nodes"):
        terminal.until(printed)
    terminal.until("mrc> ")
    terminal.type('h1 read word; echo "read $word"\n')
    terminal.until("\n")
    terminal.type("typed\n")
    terminal.until("read typed")
    terminal.until("mrc> ")


def test_piped_lines_are_all_carried_out(terminal: Terminal) -> None:
    lines = (
        "h1 sleep 0.1", "links h1@p0", "h1 echo 'a  b'", "h1 cat", "sh cat", 'h2 echo "open', "write_bw h1 h3 -n 5",
        "py 6 * 7", "h1 ping -c1 h3", "h2 echo the last",
    )  # fmt: skip
    done = subprocess.run(
        [Path(sys.executable).with_name("mrc"), "shell", NAME],
        input="\n".join(lines), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.count("mrc> ") == len(lines) + 1
    for printed in ("h1-eth0", "a  b", "unexpected EOF", "BW average", "42", "1 received", "the last"):
        assert printed in done.stdout
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_crashes_are_reported_at_once_and_in_every_status_command(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    run_directory = RunDirectory(NAME)
    pids = {record.name: record.pid for record in run_directory.records()}
    terminal.type("nod")  # somebody is typing
    os.kill(pids["h4"], signal.SIGKILL)
    terminal.until("*** process h4 was killed by SIGKILL at ")
    terminal.until("mrc> nod")
    terminal.type("es\n")
    assert "available nodes" in terminal.until("\nmrc> ")
    assert "Traceback" not in terminal.run("write h2 h4 64K"), "whose connection was kept"
    assert "No agent answers at" in terminal.run("write h4 h1 64K")
    assert "*** process h4 was killed" in terminal.run("links h4@p0")
    assert "every byte right" in terminal.run("write h1 h3 64K")
    assert [crash.name for crash in process_watch.recorded(run_directory)] == ["h4"]
    os.kill(pids["switches"], signal.SIGKILL)
    terminal.until("*** process switches was killed by SIGKILL")
    terminal.until("mrc> ")
    assert "Switch t0-0@p0 does not answer: see 'links'" in terminal.run("tables t0-0@p0")
    run(["doctor"])
    printed = capsys.readouterr().out
    assert f"{NAME}: process h4 was killed by SIGKILL" in printed
    joined = subprocess.run(
        [Path(sys.executable).with_name("mrc"), "shell", NAME, "-c", "nodes"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "*** process switches was killed by SIGKILL" in joined.stdout
