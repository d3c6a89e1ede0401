import io
import json

import pytest
from rich.console import Console

from mrc_host.verbs_types import PathState
from mrc_lab.demo.metrics import run_metrics
from mrc_lab.demo.settings import DemoSettings
from mrc_lab.demo.summary import DemoOutcome, print_summary, summarise
from tests.mrc_lab.demo.records import FABRIC, fault, path_event, record

WRONG_PATTERN = {"kind": "pattern", "round": 1, "checked": 9, "wrong": 1}
BRING_UP = {"total_s": 2.5, "ready_s": 1.0}


def steps(*lengths_ms):
    at = 1000
    spans = []
    for length in lengths_ms:
        spans.append((at, at + length))
        at += length
    return spans


def outcome(run, diff=1e-12):
    return DemoOutcome(run, run_metrics(run, FABRIC), diff, True)


@pytest.fixture
def outcomes():
    """RoCE stands still for each fault of a second; MRC's step takes twice as long once."""
    roce = record("roce", steps(*[100] * 10, 1300, *[100] * 10, 1300, *[100] * 10))
    roce.faults += [fault("t0-0:t1-1@p0", 2050, 3100), fault("h2@p1", 4350, 5400)]
    mrc = record("mrc", steps(*[50] * 20, 100, *[50] * 40, 100, *[50] * 40))
    mrc.faults += [fault("t0-0:t1-1@p0", 2010, 3010), fault("h2@p1", 4110, 5110)]
    mrc.path_events += [
        path_event(2020, PathState.ASSUMED_BAD, loss_ms=2012),
        path_event(3510, PathState.GOOD),
        path_event(4112, PathState.ASSUMED_BAD, rank=1, plane=1, uplink=3),
        path_event(5150, PathState.GOOD, rank=1, plane=1, uplink=3),
    ]
    return {"roce": outcome(roce), "mrc": outcome(mrc)}


def test_the_summary_has_its_keys_and_metrics(outcomes):
    summary = summarise(DemoSettings(), BRING_UP, outcomes, interrupted=False)
    assert summary["bring_up_s"] == 2.5
    assert summary["weights_max_abs_diff"] == 1e-12
    assert summary["wrong_bytes"] == 0
    mrc, roce = summary["mrc"], summary["roce"]
    assert (mrc["steps"], roce["steps"]) == (102, 32)
    assert (mrc["median_step_s"], roce["median_step_s"]) == (pytest.approx(0.05), pytest.approx(0.1))
    assert (mrc["longest_stall_s"], roce["longest_stall_s"]) == (pytest.approx(0.1), pytest.approx(1.3))
    assert (mrc["packets_lost"], mrc["packets_retransmitted"]) == (6, 12)
    assert mrc["failover_time_s"] == pytest.approx(0.008)
    assert mrc["recovery_time_s"] == pytest.approx(0.5)
    assert roce["failover_time_s"] is None
    assert roce["recovery_time_s"] is None
    assert mrc["faults"][1]["failover"]["largest"] == pytest.approx(0.002)
    assert summary["passed"] is True
    json.dumps(summary)  # nothing in it that JSON does not know


def test_null_is_explained_in_the_notes(outcomes):
    notes = " ".join(summarise(DemoSettings(), BRING_UP, outcomes, interrupted=False)["notes"])
    assert "RoCE has no failover or recovery time (null)" in notes
    assert "0.20 s after the link was restored" in notes


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (lambda o: o["mrc"].record.done.clear(), "both runs were made to the end"),
        (lambda o: o.pop("mrc"), "both runs were made to the end"),
        (lambda o: o["roce"].record.take(0, WRONG_PATTERN), "no byte arrived wrong"),
        (lambda o: o["mrc"].record.faults.pop(), "every link came back up"),
        (lambda o: setattr(o["roce"].record.faults[1], "link_up_ns", None), "every link came back up"),
    ],
)  # fmt: skip
def test_each_check_can_fail(outcomes, spoil, check):
    spoil(outcomes)
    again = {name: outcome(o.record) for name, o in outcomes.items()}
    summary = summarise(DemoSettings(), BRING_UP, again, interrupted=False)
    assert summary["checks"][check] is False
    assert summary["passed"] is False


@pytest.mark.parametrize("diff", [1e-5, None])
def test_weights_that_differ_or_are_unknown_fail(outcomes, diff):
    outcomes["roce"] = outcome(outcomes["roce"].record, diff)
    summary = summarise(DemoSettings(), BRING_UP, outcomes, interrupted=False)
    assert summary["checks"]["weights equal those of one process"] is False
    assert summary["weights_max_abs_diff"] == diff


def test_mrc_stalling_as_long_as_roce_fails(outcomes):
    slow = record("mrc", steps(*[50] * 20, 1500, *[50] * 40, 100, *[50] * 40))
    slow.faults += [fault("t0-0:t1-1@p0", 2010, 3010), fault("h2@p1", 5510, 6110)]
    outcomes["mrc"] = outcome(slow)
    summary = summarise(DemoSettings(), BRING_UP, outcomes, interrupted=False)
    assert summary["checks"]["MRC's stall at the T0-T1 cut is below RoCE's"] is False


def test_unrecovered_paths_give_a_note_instead_of_a_time(outcomes):
    run = outcomes["mrc"].record
    run.path_events.append(path_event(2030, PathState.ASSUMED_BAD, rank=2, to_next=False, loss_ms=2029))
    outcomes["mrc"] = outcome(run)
    summary = summarise(DemoSettings(), BRING_UP, outcomes, interrupted=False)
    assert summary["mrc"]["recovery_time_s"] is None
    assert any("1 paths did not recover" in note for note in summary["notes"])


def test_an_interrupted_demo_never_passes(outcomes):
    assert summarise(DemoSettings(), BRING_UP, outcomes, interrupted=True)["passed"] is False


def test_an_empty_demo_has_a_summary():
    summary = summarise(DemoSettings(), {}, {}, interrupted=True)
    assert summary["bring_up_s"] is None
    assert summary["weights_max_abs_diff"] is None
    assert summary["mrc"] is None
    print_summary(Console(file=io.StringIO()), summary, {})


def test_the_table_shows_both_transports_and_names_the_links(outcomes):
    text = io.StringIO()
    summary = summarise(DemoSettings(), BRING_UP, outcomes, interrupted=False)
    print_summary(Console(file=text, width=130), summary, outcomes)
    table = text.getvalue()
    for part in ("t0-0:t1-1@p0", "h2@p1", "1.30 s", "8.0 ms", "never", "2.50 s", "ok  no byte arrived wrong"):
        assert part in table
