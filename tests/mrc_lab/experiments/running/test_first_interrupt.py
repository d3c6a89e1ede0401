"""Ctrl-C in a run of the scale backend: the first ends it with a report of what there is, the second at once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.first_interrupt import first_interrupt
from mrc_lab.experiments.running.run_experiment import run_experiment
from mrc_lab.reports.run_and_report import run_and_report

FILE = """
backend: scale
fabric: {hosts: 8, planes: 2, t0: 2, t1: 2, rate: 100G}
workload: {kind: permutation, message: 128K, outstanding: 16}
duration: 1ms
measure: {bin: 100us}
variants: [{name: first}, {name: second}]
report: [{metric: throughput}]
expect: [{metric: throughput, of: {variant: second}, relation: at_least, value: 1G}]
"""


def interrupt(share: float) -> None:
    if share >= 0.25:  # in the middle of the first variant
        signal.raise_signal(signal.SIGINT)


def test_the_first_interrupt_leaves_a_report_of_what_there_is(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    found = run_and_report(load_text(FILE), "scale", 1, tmp_path, progress=interrupt, keep_interrupted=True)
    assert found.interrupted
    assert list(found.recordings) == ["first"]
    (recording,) = found.recordings.values()
    assert recording.end == 500_000
    assert (recording.interrupted, recording.errors) == ("interrupted after 500 us of 1 ms", ())
    assert (recording.rates()[1:] > 0).all()
    assert found.summary["verdict"] == "fail"
    lines = [" ".join(line.split()) for line in found.lines()]
    assert "fail runs that were interrupted: 1 (<= 0)" in lines
    assert "note first: interrupted after 500 us of 1 ms" in lines
    assert "pass work requests or queue pairs that failed: 0 (<= 0)" in lines
    assert "interrupted after 500 us of 1 ms." in (found.folder / "report.html").read_text("utf-8")
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_between_two_variants_keeps_the_first_whole(tmp_path: Path) -> None:
    def notify(text: str) -> None:
        if "2 of 2" in text:
            signal.raise_signal(signal.SIGINT)

    found = run_and_report(load_text(FILE), "scale", 1, tmp_path, notify=notify, keep_interrupted=True)
    assert found.interrupted
    assert [(name, one.interrupted, one.errors) for name, one in found.recordings.items()] == [("first", "", ())]
    assert (found.folder / "report.html").exists()


def test_without_being_asked_for_it_means_what_it_always_means() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_experiment(load_text(FILE), "scale", 1, progress=interrupt)


def test_the_second_interrupt_is_raised() -> None:
    with first_interrupt() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_before_the_run_begins_leaves_no_report(tmp_path: Path) -> None:
    def notify(text: str) -> None:
        if "1 of 2" in text:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_and_report(load_text(FILE), "scale", 1, tmp_path, notify=notify, keep_interrupted=True)
    assert not list(tmp_path.rglob("report.html"))
