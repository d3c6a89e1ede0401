"""Processes of a fabric are killed: a run says so and ends, a fabric in the background is kept alive if so wanted."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_host import verbs
from mrc_lab.cli.main import run
from mrc_lab.workloads.verified_write import Transfer
from tests.integration.names import own
from tests.integration.test_standing import SIZES, Standing, at_prompt
from tests.integration.wire_kinds import WIRES
from tests.waiting import until
from topologies.emulation import cleanup, process_watch
from topologies.emulation.attach import attached
from topologies.emulation.run_directory import RunDirectory

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

MRC = Path(sys.executable).with_name("mrc")
LONG = """\
fabric: {planes: 1, t0: 1, t1: 1, hosts: 2, rate: 20M}
workload: {kind: write_bw, pairs: h1>h2, message: 64K}
duration: 60s
measure: {bin: 100ms}
"""


def pids(directory: RunDirectory) -> dict[str, int]:
    return {record.name: record.pid for record in directory.records() if record.alive()}


@pytest.mark.parametrize(
    "victim", ["h2", *(pytest.param(name, marks=pytest.mark.second_ring) for name in ("switches", "controller"))]
)
def test_a_crash_ends_a_run_at_once_and_is_named(tmp_path: Path, victim: str) -> None:
    directory = RunDirectory(own("dying"))
    file = tmp_path / "long.yaml"
    file.write_text(LONG)
    command = [MRC, "run", file, "--backend", "emulation", "--name", directory.name, "--results", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            # The agent of h1 is asked for queue pairs only when the fabric is up and the run has begun.
            until(lambda: process.poll() is not None or _has_queue_pairs(directory, "h1"))
            assert process.poll() is None, process.communicate()[0]
            os.kill(pids(directory)[victim], signal.SIGKILL)
            output, _ = process.communicate()
        finally:
            process.kill()
    assert process.returncode == 3, output
    assert f"mrc: process {victim} was killed by SIGKILL at " in output
    assert f"/{victim}.log" in output
    assert "Traceback" not in output
    assert not directory.path.exists()


def _has_queue_pairs(directory: RunDirectory, host: str) -> bool:
    from contextlib import closing

    from mrc_host.errors import MrcError
    from mrc_host.verbs.remote.connection import AgentConnection

    try:
        with closing(AgentConnection(directory.host_socket(host))) as agent:
            return bool(agent.request("qps"))
    except MrcError:
        return False


@pytest.fixture
def fabric() -> Iterator[Standing]:
    found = Standing("kept")
    yield found
    cleanup.clean(found.name, force=True)


@pytest.mark.parametrize("wire", WIRES)
def test_crashed_processes_are_restarted_on_request(
    fabric: Standing, capfd: pytest.CaptureFixture[str], wire: str
) -> None:
    directory = RunDirectory(fabric.name)
    assert run(["up", "--name", fabric.name, *SIZES, "--restart", "--wire", wire]) == 0
    before = pids(directory)
    with verbs.open(directory.host_socket("h1")) as near, verbs.open(directory.host_socket("h2")) as far:
        transfer = Transfer(near, far)
        for victim in ("controller", "switches"):
            os.kill(before[victim], signal.SIGKILL)
            assert transfer.write(64 << 10).wrong_bytes == 0, "traffic goes on, or waits until it can"
            until(lambda victim=victim: pids(directory).get(victim, before[victim]) != before[victim])  # type: ignore[misc]
    os.kill(before["h2"], signal.SIGKILL)
    until(lambda: pids(directory).get("h2", before["h2"]) != before["h2"] and not process_watch.recorded(directory))
    printed = at_prompt(
        fabric.name, "wait", "write h1 h2 64K", "fault h1@p0 down", "write h1 h2 64K", "fault clear all"
    )
    assert printed.count("every byte right") == 2, printed
    assert "***" not in printed
    log = directory.log_file("owner").read_text()
    for victim in ("controller", "switches", "h2"):
        assert f"process {victim} was killed by SIGKILL" in log
        assert f"process {victim} was restarted" in log
    assert run(["down", fabric.name]) == 0
    assert not directory.path.exists()


def test_processes_are_restarted_by_name(fabric: Standing, capfd: pytest.CaptureFixture[str]) -> None:
    fabric.up()
    directory = RunDirectory(fabric.name)
    before = pids(directory)
    assert run(["restart", fabric.name, "h9"]) == 3
    assert f"fabric {fabric.name} has no process 'h9'" in capfd.readouterr().err
    assert run(["restart", fabric.name, "t0-0@p0"]) == 3
    assert "one process runs all switches" in capfd.readouterr().err
    assert run(["restart", fabric.name]) == 0
    assert "all processes" in capfd.readouterr().out
    assert pids(directory) == before
    for victim in ("h2", "controller"):
        os.kill(before[victim], signal.SIGKILL)
        until(lambda victim=victim: victim not in pids(directory))  # type: ignore[misc]
    assert run(["restart", fabric.name]) == 0
    printed = capfd.readouterr().out
    assert "process h2 was restarted in " in printed
    assert "process controller was restarted in " in printed
    with attached(fabric.name) as emulation:  # another's watch does not take a restart for a crash
        assert emulation.watch is not None
        assert run(["restart", fabric.name, "switches", "h1"]) == 0
        assert emulation.watch.look() == ()
        until(lambda: emulation.watch is not None and {"switches", "h1"} <= emulation.watch.watched)
        assert emulation.watch.crashes == ()
    now = pids(directory)
    assert {name for name in before if now.get(name) != before[name]} == {"h1", "h2", "controller", "switches"}
    printed = at_prompt(fabric.name, "wait", "restart h2", "write h1 h2 64K")
    assert "process h2 was restarted in " in printed
    assert "every byte right" in printed
    assert "***" not in printed
    fabric.down()


def test_fault_watch_reports_crashed_processes(fabric: Standing) -> None:
    fabric.up()
    with subprocess.Popen([MRC, "fault", "watch", "--fabric", fabric.name], stdout=subprocess.PIPE, text=True) as seen:
        assert seen.stdout is not None
        try:
            while not select.select([seen.stdout], [], [], 0.1)[0]:  # until it listens
                assert run(["fault", "add", "h1@p0", "loss", "1%", "--fabric", fabric.name]) == 0
            os.kill(pids(RunDirectory(fabric.name))["h2"], signal.SIGKILL)
            notice = next(line for line in iter(seen.stdout.readline, "") if "process" in line)
        finally:
            seen.terminate()
    assert "process h2 was killed" in notice or "process h2 ended" in notice
    assert "The queue pairs of h2 are lost" in notice
    fabric.down()
