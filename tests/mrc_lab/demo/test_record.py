import csv
import json

import pytest

from mrc_host.verbs_types import PathState, PortEvent
from mrc_lab.workloads.training.worker import to_json
from tests.mrc_lab.demo.records import FABRIC, MS, fault, path_event, record


def test_events_survive_report_encoding():
    run = record()
    original = path_event(1200, PathState.ASSUMED_BAD, loss_ms=1190)
    run.take(original.rank, {"kind": "path", **json.loads(json.dumps(to_json(original.event)))})
    assert run.path_events == [original]


def test_peers_are_the_neighbours_on_the_ring():
    run = record()
    assert [run.peer_of(rank, 10 * rank + 1) for rank in range(4)] == ["h2", "h3", "h4", "h1"]
    assert [run.peer_of(rank, 10 * rank + 2) for rank in range(4)] == ["h4", "h1", "h2", "h3"]
    assert run.peer_of(0, 99) is None


def test_failures_are_recorded_and_malformed_reports_refused():
    run = record()
    run.take(2, {"kind": "failed", "reason": "no luck"})
    assert run.failures == ["rank 2: no luck"]
    with pytest.raises(ValueError, match="unknown report 'x'"):
        run.take(0, {"kind": "x"})


def test_raw_series_are_written(tmp_path):
    run = record("mrc", [(1000, 1100), (1100, 1200)])
    run.faults.append(fault(FABRIC.links[-1].name, 1050, 1150))
    run.path_events.append(path_event(1060, PathState.ASSUMED_BAD, loss_ms=1055))
    run.take(3, {"kind": "port", **to_json(PortEvent(1070 * MS, 1, False, True))})
    run.write(tmp_path)
    with (tmp_path / "steps-mrc.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert (rows[2]["step"], rows[2]["rank"], rows[2]["begin_s"], rows[2]["end_s"]) == (
        "0",
        "2",
        "0.000000",
        "0.100000",
    )
    events = [json.loads(line) for line in (tmp_path / "events-mrc.jsonl").read_text().splitlines()]
    assert events.pop(0) == {"time_s": 0.0, "kind": "start", "monotonic_ns": run.started_ns}
    assert [e["kind"] for e in events] == ["link_down", "path", "port", "link_up"]
    assert [e["time_s"] for e in events] == sorted(e["time_s"] for e in events)
    assert (events[1]["host"], events[1]["peer"], events[1]["first_loss_s"]) == ("h2", "h3", 0.055)
