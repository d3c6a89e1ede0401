"""The performance tools for real: on a fabric with switches and agents, at the prompt, inside hosts, through faults."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("mininet")

from mininet.cli import CLI

from mrc_lab.fabric.emulation import running
from mrc_lab.perf.cases import CASES
from mrc_lab.prompt.perf_commands import PerfCommands
from tests.integration.names import own
from tests.mrc_lab.perf.printed import footer, rows
from tests.waiting import until
from topologies.clos import multi_plane_clos

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

RATE = 50_000_000
FRAME = 4242  # bytes of a full data packet on the wire
LISTENING = (  # sockets are listed in the namespace they were made in
    f"{sys.executable} -c 'import sys; from mrc_lab.perf.perftest import listening;"
    'print("listening" if listening(sys.argv[1]) else "")\''
)


class Tools(PerfCommands, CLI):
    """A prompt that has only our commands besides Mininet's, and keeps what they say."""

    def __init__(self, world):
        self._world = world
        self.failed = False
        self.printed = []
        with Path(os.devnull).open() as nothing:
            super().__init__(world.emulation.net, stdin=nothing)

    def run(self):
        pass

    def _echo(self, text):
        self.printed.append(text)

    def ask(self, line):
        """What a command says, and whether it failed."""
        self.printed, self.failed = [], False
        self.onecmd(line)
        print(*self.printed, sep="\n")
        return self.printed, self.failed


@pytest.fixture(scope="module")
def world():
    with running(multi_plane_clos(own("perf"), planes=2, t0=2, t1=2, hosts=4, rate_bps=RATE)) as world:
        yield world


@pytest.fixture(scope="module")
def tools(world):
    return Tools(world)


@pytest.mark.parametrize(
    "case",
    ["all_reduce", *(pytest.param(case, marks=pytest.mark.second_ring) for case in CASES if case != "all_reduce")],
)
def test_every_collective_runs_at_the_prompt(tools, case):
    hosts = "h1,h2,h3,h4" if case == "all_reduce" else "h1,h3"  # each is a process to start
    printed, failed = tools.ask(f"{case}_perf -b 1K -e 64K -f 64 -n 3 -w 1 --hosts {hosts}")
    assert not failed
    table = rows(printed)
    assert [row["size"] for row in table] == ["1024", "65536"]
    for row in table:
        for place in ("out", "in") if CASES[case].in_place else ("out",):
            assert row[place, "wrong"] == 0
            seconds = row[place, "time"] / 1e6
            # No rank can send faster than its two ports, but the first frame of each leaves at once.
            assert 0 < row[place, "busbw"] * 1e9 * seconds <= 2 * (RATE / 8 * seconds + FRAME)
    assert footer(printed, "Out of bounds values") == "0 OK"


def test_bandwidth_and_latency_tools_run_at_the_prompt(tools):
    printed, failed = tools.ask("write_bw h1 h3 -s 65536 -n 20")
    assert not failed
    assert any(line.split()[:2] == ["65536", "20"] for line in printed)
    printed, failed = tools.ask("write_lat h2 h4 -s 8 -n 20")
    assert not failed
    assert any(line.split()[:2] == ["8", "20"] for line in printed)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("write_bw h1", "use it like this"),
        ("write_bw h1 h1", "use it like this"),
        ("write_bw h1 h9", "h9"),
        ("all_reduce_perf -b nonsense", "not a size"),
        ("all_reduce_perf --hosts h1,h9", "no host h9"),
        ("write_bw 'h1", "Missing closing quote"),
    ],
)
def test_impossible_prompt_commands_are_reported(tools, line, why):
    printed, failed = tools.ask(line)
    assert failed
    assert why in "\n".join(printed)


def test_tools_are_found_by_name_inside_hosts(world, tools):
    assert tools is not None  # it has put the tools on the hosts' path
    h1, h3 = world.emulation.host("h1"), world.emulation.host("h3")
    h3.cmd("write_bw > /dev/null 2>&1 &")
    meeting = str(world.emulation.run.path / "h3.write_bw")
    until(lambda: "listening" in h3.cmd(f"{LISTENING} {meeting}"), "the server to listen")
    output = h1.cmd("write_bw h3 -s 4096 -n 10; echo status $?")
    assert "status 0" in output
    assert any(line.split()[:2] == ["4096", "10"] for line in output.splitlines())
    output = h1.cmd("sendrecv_perf --hosts h1,h3 -b 4K -n 2 -w 0 2> /dev/null; echo status $?")  # progress goes there
    assert "status 0" in output
    assert [row["size"] for row in rows(line for line in output.splitlines() if "status" not in line)] == ["4096"]


def test_mrc_ping_names_a_path_that_is_down(world, tools):
    link = "t0-0:t1-1@p1"
    quick = "-c 12 -i 0.1 -W 0.5 -q"  # a quarter of the other paths' answers come back over the cut link
    world.link_down(link)
    try:
        printed, failed = tools.ask(f"mrc_ping h1 h3 {quick}")
    finally:
        world.link_up(link)
    assert failed
    assert [line for line in printed if line.startswith("never")] == [
        "never answered: plane 1 t0-0 > t1-1 > t0-1 ev=0x00000401"
    ]
    assert any("48 probes sent" in line for line in printed)
    output = world.emulation.host("h1").cmd(f"mrc_ping {quick} h3; echo status $?")
    assert "48 probes sent, 48 answered, 0.0% loss" in output
    assert "processing at h3 excluded" in output
    assert "status 0" in output
    assert tools.ask("mrc_ping h1 h9") == (
        [f"mrc_ping: Fabric {own('perf')} has no host h9.", "Its hosts are h1, h2, h3, h4."],
        True,
    )


@pytest.mark.parametrize("transport", ["mrc", "rc"])
def test_a_link_down_loses_no_byte(world, tmp_path, transport):
    out = tmp_path / "out.json"
    command = [
        sys.executable,
        "-m",
        "mrc_lab.perf",
        "all_reduce_perf",
        "--fabric",
        own("perf"),
        "--transport",
        transport,
    ]
    command += ["-b", "512K", "-n", "12", "-w", "1", "-c", "2", "-J", str(out)]
    link = "t0-0:t1-1@p1"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "out-of-place" in line:
                break
        repair = threading.Timer(1.0, lambda: world.link_up(link))
        world.link_down(link)
        repair.start()
        rest = process.stdout.read()
    repair.join()
    assert process.returncode == 0, rest
    result = json.loads(out.read_text())
    assert result["wrong"] == 0
    assert len(result["rows"]) == 1


def test_an_interrupted_run_leaves_nothing(world):
    command = [sys.executable, "-m", "mrc_lab.perf", "alltoall_perf", "--fabric", own("perf"), "-b", "1M", "-n", "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        pids = []
        for line in process.stdout:
            if line.startswith("#  Rank"):
                pids.append(line.split()[line.split().index("Pid") + 1])
            if "out-of-place" in line:
                break
        process.terminate()
        process.stdout.read()
    assert process.returncode == 130
    assert len(pids) == 4
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):
            assert "mrc_lab.perf.worker" not in Path(f"/proc/{pid}/cmdline").read_text()
