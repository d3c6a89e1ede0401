"""The reader of traces, on a trace of a real (simulated) run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrc_host.agent.trace_file import TraceFile
from mrc_host.tools import trace
from mrc_host.tools.session import ToolError
from tests.mrc_host.nic_world import Faults, World, connect


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, World, int]:
    """A trace of a lossy transfer on a file, the world it happened in, and the queue pair."""
    world = World(faults=Faults(seed=4, loss=0.02, mark=0.05, trim=0.05))
    path = tmp_path / "n0.jsonl"
    file = TraceFile(path)
    world.nics[0].set_trace(file)
    one, two = connect(world)
    one.write(two, 1 << 20)
    assert world.run(until=lambda: bool(one.poll()))
    world.set_port(0, 1, False)
    file.close()
    return path, world, one.qpn


def test_the_summary_agrees_with_the_counters(run: tuple[Path, World, int]) -> None:
    path, world, qpn = run
    nic = world.nics[0]
    summary = trace.summarise(trace.read(path))
    counters, qp = nic.qp_counters(qpn), summary.qps[qpn]
    assert (qp.sent, qp.retransmitted, qp.probes) == (
        counters.data_sent, counters.retransmitted, counters.probes_sent,
    )  # fmt: skip
    assert qp.lost.total() == counters.lost == len(qp.recoveries)
    assert qp.bytes == 1 << 20
    assert qp.completions == {"success": 1}
    for info in nic.qp_paths(qpn):
        seen = qp.paths.get(info.ev, trace.PathSummary())
        assert (seen.lost, seen.marked, seen.trimmed) == (info.lost, info.marked, info.trimmed)
    assert all(0 < time < 100_000_000 for time in qp.recoveries)


def test_tables_and_events_are_printed(run: tuple[Path, World, int], capsys: pytest.CaptureFixture[str]) -> None:
    path, _world, qpn = run
    assert trace.main([str(path)]) == 0
    shown = capsys.readouterr().out
    for text in ("Queue pairs", "Paths", "Path changes", f"{qpn:#x}", "n1:", "good -> skip (ecn)", "port 1 down"):
        assert text in shown
    assert trace.main([str(path), "--qp", hex(qpn), "--events"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert all(f"qpn={qpn}" in line for line in out)
    assert any("op=write" in line for line in out)
    assert trace.main([str(path), "--qp", "1"]) == 0
    assert "Queue pairs" not in capsys.readouterr().out


def test_a_growing_file_is_read_up_to_its_last_complete_record(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"t": 1, "event": "drop", "reason": "mac"}\n{"t": 2, "eve')
    assert trace.summarise(trace.read(path)).drops == {"mac": 1}


def test_files_that_are_not_traces_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace"
    for text in ("hello\n", json.dumps([1]) + "\n", '{"t": 1}\n'):
        path.write_text('{"t": 1, "event": "drop", "reason": "mac"}\n' + text)
        with pytest.raises(ToolError, match="line 2"):
            list(trace.read(path))
    assert trace.main([str(tmp_path / "none")]) == 1
    assert "Cannot read" in capsys.readouterr().err
