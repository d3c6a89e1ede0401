"""What report, summary and terminal say of a run's timing."""

from __future__ import annotations

import re
from pathlib import Path

from mrc_lab.experiments.running.recording import Fidelity
from mrc_lab.reports.report import write_report
from mrc_lab.reports.run_and_report import FinishedRun
from mrc_lab.reports.summary import circumstances, summarize
from mrc_lab.reports.verdicts import judge
from tests.mrc_lab.reports.recordings import experiment, metrics, recording

FIGURES = {
    "traffic_s": 0.5,
    "processors_used": 0.61,
    "idle_p10": 0.43,
    "machine_round_trip_s": 0.0123,
    "machine_delay_p99_s": 0.021,
}
NOTE = "delays by the machine were measured at NICs only: these switches cannot measure them"
BUSY = Fidelity(False, ("the machine delayed frames at t0-0@p0 by <much>",), FIGURES, (NOTE,))


def result(folder: Path, fidelity: Fidelity) -> FinishedRun:
    read, made = experiment(), metrics({"only": recording(fidelity=fidelity)})
    judged = judge(read, made, "emulation")
    summary = summarize(read, made, judged, "emulation", 1)
    write_report(folder, read, made, summary, circumstances(1.0, 1))
    return FinishedRun(read, made.recordings, judged, summary, folder, 1.0)


def test_metrics_reasons_and_notes_are_shown(tmp_path: Path) -> None:
    made = result(tmp_path, BUSY)
    assert made.summary["cases"]["only"]["fidelity"] == {
        "trusted": False,
        "reasons": list(BUSY.reasons),
        "measurements": FIGURES,
        "notes": [NOTE],
    }
    report = (tmp_path / "report.html").read_text()
    assert "timing cannot be trusted: the machine delayed frames at t0-0@p0 by &lt;much&gt;" in report
    assert (
        "Timing: 0.5 s of traffic were watched; the machine delayed a packet and its answer by 12.3 ms on average;"
        " one frame in a hundred by 21 ms or more at one hop; the fabric took 61 % of the processors;"
        f" at busy times 43 % of them were idle; {NOTE}." in report
    )
    assert f"timing cannot be trusted: {BUSY.reasons[0]}" in list(made.lines())


def test_the_default_case_name_is_never_shown(tmp_path: Path) -> None:
    made = result(tmp_path, BUSY)
    shown = re.sub(r"<style>.*?</style>|<path[^>]*>|<use[^>]*>", "", (tmp_path / "report.html").read_text())
    assert not re.search(r"\bonly\b", shown.replace("at NICs only", ""))
    assert not any(re.search(r"\bonly\b", line) for line in made.lines())


def test_simulated_runs_have_no_timing_section(tmp_path: Path) -> None:
    made = result(tmp_path, Fidelity())
    assert "Timing of" not in (tmp_path / "report.html").read_text()
    assert not any("timing" in line for line in made.lines())
