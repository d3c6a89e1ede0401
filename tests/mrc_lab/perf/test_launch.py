import asyncio
import json
import os
import select
import signal
import subprocess
import sys

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.perf import __main__ as program
from mrc_lab.perf import launch as launching
from mrc_lab.perf.hosts import AgentSocket
from mrc_lab.perf.launch import Launch
from mrc_lab.perf.options import parse
from tests.mrc_lab.perf.printed import footer, rows

pytestmark = pytest.mark.plain_transport  # its agents have fake NICs


def agents_of(agents):
    return [AgentSocket(path.stem, path) for path in agents.paths]


def run(agents, case, flags, hosts=None):
    """The lines that a run on the agents prints, and its report."""
    options = parse(case, flags.split())
    lines = []
    work = Launch(options.plan, options.step, hosts or agents_of(agents), lines.append).run()
    report = asyncio.run(asyncio.wait_for(work, 60))
    return lines, report


def test_the_table_shows_the_measurements_of_rank_zero(agents):
    lines, report = run(agents, "all_reduce", "-b 1K -e 4K -f 4 -n 2 -w 1 --chunk 1K")
    read = rows(lines)
    assert [row["size"] for row in read] == ["1024", "4096"]
    assert {row[place, "wrong"] for row in read for place in ("out", "in")} == {0}
    hosts = [line.split()[line.split().index("on") + 1] for line in lines if line.startswith("#  Rank")]
    assert hosts == ["h1", "h2"]
    assert footer(lines, "Out of bounds values") == "0 OK"
    chunks = 2 * 2 * (2 + 1 + 1) * (1 + 2) * 2  # places, halves, operations, chunks of the sizes, ranks
    assert footer(lines, "Chunk checksums") == f"{chunks} compared, 0 wrong"
    mean = sum(row[place, "busbw"] for row in read for place in ("out", "in")) / 4
    assert float(footer(lines, "Avg bus bandwidth")) == pytest.approx(mean, rel=0.02)
    assert report.wrong == 0


def test_a_run_leaves_the_nics_unchanged(agents):
    run(agents, "alltoall", "-b 1K -n 1 -w 0")
    assert agents.call(lambda: [server.sessions for server in agents.servers], 10) == [(), ()]


def test_a_rank_that_cannot_start_ends_the_run_with_its_reason(agents, tmp_path):
    hosts = [agents_of(agents)[0], AgentSocket("h9", tmp_path / "nobody.sock")]
    with pytest.raises(ExperimentError, match=r"Rank 1 on h9 failed: .*nobody\.sock"):
        run(agents, "sendrecv", "-b 1K", hosts)


def test_a_rank_that_is_killed_ends_the_run(agents):
    options = parse("sendrecv", ["-b", "1K", "-n", "1000000"])
    pids = []

    def echo(line):
        if line.startswith("#  Rank"):
            pids.append(int(line.split()[line.split().index("Pid") + 1]))
        if len(pids) == 2:
            os.kill(pids[1], signal.SIGKILL)
            pids.append(0)

    work = Launch(options.plan, options.step, agents_of(agents), echo).run()
    with pytest.raises(ExperimentError, match="Rank 1 on h2 failed: status -9"):
        asyncio.run(asyncio.wait_for(work, 60))
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_workers_exit_when_the_launcher_is_killed_and_no_folder_stays(agents, tmp_path):
    code = (
        "import asyncio, sys; from pathlib import Path; from mrc_lab.perf.launch import Launch;"
        "from mrc_lab.perf.hosts import AgentSocket; from mrc_lab.perf.options import parse;"
        "options = parse('sendrecv', ['-b', '1K', '-n', '10000000']);"
        "agents = [AgentSocket(Path(p).stem, Path(p)) for p in sys.argv[1:]];"
        "asyncio.run(Launch(options.plan, '', agents, lambda line: print(line, flush=True)).run())"
    )
    command = [sys.executable, "-c", code, *map(str, agents.paths)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as launcher:
        pids = []
        for line in launcher.stdout:
            if line.startswith("#  Rank"):
                pids.append(int(line.split()[line.split().index("Pid") + 1]))
            if len(pids) == 2:
                break
        watched = [os.pidfd_open(pid) for pid in pids]
        launcher.kill()
    for descriptor in watched:
        assert select.select([descriptor], [], [], 20)[0], "a worker outlived its launcher"
        os.close(descriptor)
    assert not list(tmp_path.glob("mrc-perf-*"))


@pytest.fixture
def found(agents, monkeypatch):
    monkeypatch.setattr(launching, "find_fabric", lambda name: None)
    monkeypatch.setattr(launching, "find_agents", lambda run, hosts: agents_of(agents))


@pytest.mark.usefixtures("found")
def test_the_command_line_prints_writes_and_exits(capsys, tmp_path):
    out = tmp_path / "out.json"
    assert program.run("broadcast_perf", f"-b 2K -n 1 -w 0 -r all -J {out}".split()) == 0
    assert [row["root"] for row in rows(capsys.readouterr().out.splitlines())] == ["0", "1"]
    written = json.loads(out.read_text())
    assert (written["test"], written["wrong"], len(written["rows"])) == ("broadcast_perf", 0, 2)


@pytest.mark.usefixtures("found")
def test_impossible_requests_print_a_message_and_exit_with_status_3(capsys):
    assert program.run("broadcast_perf", ["-r", "2"]) == 3
    assert capsys.readouterr().err == "broadcast_perf: There is no rank 2 among 2.\nGive a smaller root (-r).\n"


def test_the_program_requires_the_name_of_a_test(capsys):
    assert program.main(["nonsense_perf"]) == 2
    assert "all_reduce_perf" in capsys.readouterr().err


def test_wrong_bytes_exit_with_status_1(monkeypatch):
    class Wrong:
        wrong = 1

    monkeypatch.setattr(program, "launch", lambda options, echo: Wrong)
    assert program.run("all_gather_perf", []) == 1


def test_an_interrupt_exits_with_status_130(monkeypatch):
    def interrupted(options, echo):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "launch", interrupted)
    assert program.run("all_gather_perf", []) == 130
