"""Events survive being printed; other lines of a rank are none."""

from __future__ import annotations

import pytest

from mrc_lab.torch_jobs.train_faults.events import RankEvent, What, parse


def test_an_event_is_read_as_it_was_printed() -> None:
    event = RankEvent(What.FAILED, 2, 123, 8, (0, 2), 'a "quoted" word\nand a line')
    assert parse(event.line()) == event
    assert event.line().count("\n") == 1


@pytest.mark.parametrize("line", ["", "step 3", "{}", "[1]", '{"what": "tired", "rank": 1}', "NaN", "{" * 100])
def test_other_lines_are_no_events(line: str) -> None:
    assert parse(line) is None
