"""What a report says of the time after a fault, from recordings made by hand: bins of 10 us, 1 packet is 0.8 Gb/s."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.recording import FaultSpan, PathRecord, PortRecord, Recording, RerouteRecord
from mrc_lab.reports.fault_recovery import Aftermath, aftermaths, sentences
from mrc_lab.reports.report import write_report
from mrc_lab.reports.summary import circumstances, summarize
from mrc_lab.reports.verdicts import judge
from tests.mrc_lab.experiments.files.texts import SMALL
from tests.mrc_lab.reports.recordings import experiment, metrics, recording

CASE = experiment().cases[0]
FAULT = FaultSpan("link_down", "link down t0-0:t1-0@p0", 40_000, 60_000, ("t0-0:t1-0@p0",))
DIP = ((10, 30),) * 4 + ((10, 10),) * 2 + ((10, 5),) + ((10, 20),) + ((10, 30),) * 2


def path(time: int, new: str, ev: int = 3, reason: str = "loss") -> PathRecord:
    old = "good" if new == "assumed_bad" else "assumed_bad"
    return PathRecord(time, 0, "h1", 5, ev, 0, old, new, reason, None)


LEFT, RIGHT = path(45_000, "assumed_bad"), path(72_000, "good", reason="probe")


def only(made: Recording) -> Aftermath:
    (found,) = aftermaths(CASE, made)
    return found


def text(made: Recording) -> str:
    return " ".join(sentences(only(made), made))


def test_a_path_still_probed_after_the_repair_explains_low_throughput() -> None:
    made = recording(DIP, paths=(LEFT, RIGHT), ports=(), faults=(FAULT,))
    assert text(made) == (
        "Throughput was 32 Gb/s before, 16 Gb/s at the lowest while it lasted."
        " 1 path was taken out of use at 45 us (loss: 1)."
        " At the repair 1 path was still out of use: h1>h3 EV 3 plane 0."
        " All came back into use 12 us after the repair (probes answered: 1)."
        " Until then throughput was 12 Gb/s (median)."
        " 95 % of the throughput before was there again 8 us after the last of them was back, 20 us after the repair."
    )


def test_a_path_recovered_before_the_repair_explains_nothing() -> None:
    made = recording(DIP, paths=(LEFT, replace(RIGHT, time=55_000)), ports=(), faults=(FAULT,))
    found = only(made)
    assert (found.out, found.back, found.last_back) == ((), (), None)
    assert "still out of use" not in text(made)
    assert text(made).endswith("there again 20 us after the repair.")


def test_an_unrecovered_path_and_the_best_throughput_are_named() -> None:
    made = recording(DIP[:8], paths=(LEFT,), ports=(), faults=(FAULT,))
    assert only(made).last_back is None
    assert "1 path was still out of use when the run ended." in text(made)
    assert text(made).endswith("95 % of the throughput before was not reached again; the most was 24 Gb/s.")


def test_only_the_first_recovery_of_affected_paths_counts() -> None:
    again = path(75_000, "assumed_bad"), path(90_000, "good", reason="probe"), path(80_000, "good", ev=9)
    made = recording(DIP, paths=(LEFT, RIGHT, *again), ports=(), faults=(FAULT,))
    assert [record.time for record in only(made).back] == [72_000]


def test_ports_with_link_up_are_named_with_their_delay() -> None:
    ports = (
        PortRecord(40_000, "h1", 0, False, True), PortRecord(44_000, "h3", 0, False, False),
        PortRecord(60_000, "h1", 0, True, True), PortRecord(67_000, "h3", 0, True, False),
        PortRecord(66_000, "h2", 1, True, True),  # was not down
    )  # fmt: skip
    made = recording(DIP, paths=(), ports=ports, faults=(FAULT,))
    assert "NICs learned that the link is up 0 ns to 7 us after the repair (h1 port 0)." in text(made)
    assert only(made).last_back == 67_000


def test_retransmissions_and_timeouts_count_until_throughput_recovers() -> None:
    made = recording(DIP, paths=(), ports=(), faults=(FAULT,))
    made.flow_samples[:, 0, 2] = [0, 0, 0, 0, 0, 40, 40, 42, 45, 45, 60]  # before the repair and after do not
    made.flow_samples[:, 1, 5] = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert "From the repair until then packets sent again: 5, timeouts: 1." in text(made)


def test_another_ongoing_fault_is_named() -> None:
    other = FaultSpan("loss", "loss", 50_000, None, ())
    made = recording(DIP, paths=(), ports=(), faults=(FAULT, other))
    first, second = aftermaths(CASE, made)
    assert (first.meanwhile, second.meanwhile) == ((2,), ())
    assert "Meanwhile fault 2 lasted or began." in " ".join(sentences(first, made))
    over = recording(DIP, paths=(), ports=(), faults=(FAULT, replace(other, at=20_000, until=30_000)))
    assert next(aftermaths(CASE, over)).meanwhile == ()


def test_a_fault_lasting_to_the_end_has_no_repair() -> None:
    made = recording(DIP, paths=(LEFT,), ports=(), faults=(replace(FAULT, until=None),))
    assert text(made) == (
        "Throughput was 32 Gb/s before, 12 Gb/s at the lowest while it lasted."
        " 1 path was taken out of use at 45 us (loss: 1)."
    )


@pytest.mark.parametrize("change", ["collective", "fault from the beginning", "nothing delivered"])
def test_without_a_baseline_throughput_is_not_discussed(change: str) -> None:
    case, faults, rates = CASE, (FAULT,), DIP
    if change == "collective":
        head = SMALL[: SMALL.index("workload")]
        load = "workload: {kind: collective, operation: all_reduce, bytes: 64K}\nduration: 1ms\n"
        case = load_text(head + load, name="x").cases[0]
    elif change == "fault from the beginning":
        faults = (replace(FAULT, at=0),)
    else:
        rates = ((0, 0),) * 10
    made = recording(rates, paths=(LEFT, RIGHT), ports=(), faults=faults)
    (found,) = aftermaths(case, made)
    assert found.throughput is None
    assert "12 us after the repair" in " ".join(sentences(found, made))


def test_the_report_has_a_paragraph_per_fault_and_counts_omitted_ones(tmp_path: Path) -> None:
    read, made = experiment(), metrics({"only": recording(DIP, faults=(FAULT,) * 10)})
    summary = summarize(read, made, judge(read, made, "sim"), "sim", 1)
    write_report(tmp_path, read, made, summary, circumstances(1.0, 1))
    report = (tmp_path / "report.html").read_text()
    assert report.count("<b>After fault ") == 8
    assert "h1&gt;h3 EV 3 plane 0" in report
    assert "The first 8 of 10 faults" in report


def test_reroutes_around_the_links_of_a_fault_are_told() -> None:
    other = RerouteRecord(41_000, 1, "without t0-0:t1-0@p1: 7 entries")
    around = RerouteRecord(45_000, 0, "without h2@p0, t0-0:t1-0@p0: 7 entries in 5 ms")
    still = RerouteRecord(61_000, 0, "without t0-0:t1-0@p0: 2 entries")
    again = RerouteRecord(68_000, 0, "over all links: 7 entries")
    made = recording(DIP, paths=(), ports=(), faults=(FAULT,), reroutes=(other, around, still, again))
    assert "Switches had routes around it 5 us after it began. They had routes over it again 8 us after" in text(made)
    assert "Switches" not in text(recording(DIP, paths=(), ports=(), faults=(FAULT,), reroutes=(other, again)))
    for_good = replace(FAULT, until=None)
    told = text(recording(DIP, paths=(), ports=(), faults=(for_good,), reroutes=(around,)))
    assert told.endswith("Switches had routes around it 5 us after it began.")
