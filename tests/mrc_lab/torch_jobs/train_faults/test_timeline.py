"""A time line has a line for each thing that the ranks did, and is cut where attempts repeat."""

from __future__ import annotations

from mrc_lab.torch_jobs.train_faults.events import What
from mrc_lab.torch_jobs.train_faults.timeline import timeline
from tests.mrc_lab.torch_jobs.train_faults import runs


def test_a_recovery_from_the_fault_on() -> None:
    lines = timeline(runs.recovered())
    assert lines[0].split(maxsplit=1) == ["0.000", "FAULT: link down h3@p0"]
    assert lines[1].split(maxsplit=3) == ["0.200", "to", "0.202", "h1, h2, h3, h4: failed: Connection closed"]
    assert any("h3: others go on without it" in line for line in lines)
    assert any("agreed on who goes on, h1, h2, h4" in line for line in lines)
    assert lines[-2].split(maxsplit=1) == ["1.000", "h1, h2, h4: first step after that"]
    assert lines[-1].endswith("h1, h2, h4: done")


def test_many_attempts_are_cut_and_the_end_stays() -> None:
    record = runs.ended()
    more = [
        runs.event(what, rank, 3000 + 100 * number, 8)
        for number in range(40)
        for rank in runs.ALL
        for what in (What.FAILED, What.AGREED)
    ]
    record["events"] += [each.plain() for each in (*more, *(runs.event(What.GAVE_UP, r, 9000, 8) for r in runs.ALL))]
    lines = timeline(record)
    assert len(lines) == 14
    assert any("lines like these" in line for line in lines)
    assert "gave up" in lines[-1]
