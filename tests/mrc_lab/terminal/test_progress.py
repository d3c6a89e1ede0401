"""Progress is shown on a terminal after two seconds, with an estimate, and leaves nothing behind."""

import io

import pytest
from rich.console import Console

from mrc_lab.terminal.progress import LateProgress, time_left


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def shown(terminal=True):
    file = io.StringIO()
    return file, Console(file=file, width=100, force_terminal=terminal, highlight=False, _environ={"TERM": "xterm"})


def test_nothing_is_shown_in_the_first_two_seconds():
    file, to = shown()
    clock = Clock()
    late = LateProgress("work", to, clock)
    clock.now += 1.9
    late.report(0.5)
    late.close()
    assert file.getvalue() == ""


def test_after_two_seconds_there_is_a_line_with_share_and_estimate_that_goes_at_the_end():
    file, to = shown()
    clock = Clock()
    late = LateProgress("h1 -> h3", to, clock)
    clock.now += 10
    late.report(0.25)
    late.close()
    text = file.getvalue()
    assert "h1 -> h3" in text
    assert "25%" in text
    assert "about 30 s left" in text
    assert text.endswith("\x1b[2K"), "the line is erased"


def test_a_line_that_stays_is_printed_where_progress_was():
    file, to = shown()
    clock = Clock()
    late = LateProgress("run", to, clock)
    clock.now += 5
    late.report(0.5)
    late.print("case 2 of 3")
    late.report(0.6)
    late.close()
    before, _, after = file.getvalue().partition("case 2 of 3\n")
    assert "50%" in before
    assert before.endswith("\x1b[2K")
    assert "60%" in after


def test_where_there_is_no_terminal_a_plain_line_comes_every_half_minute():
    file, to = shown(terminal=False)
    clock = Clock()
    late = LateProgress("work [a]", to, clock)
    for second in range(1, 66):
        clock.now = 100.0 + second
        late.report(second / 100)
    late.print("a line")
    late.close()
    assert file.getvalue() == "work [a]: 30%, about 70 s left\nwork [a]: 60%, about 40 s left\na line\n"


def test_hours_of_work_without_a_terminal_do_not_fill_a_log():
    file, to = shown(terminal=False)
    clock = Clock()
    late = LateProgress("work", to, clock)
    for minute in range(1, 10 * 60):
        clock.now = 100.0 + 60 * minute
        late.report(minute / 600)
    assert 20 < len(file.getvalue().splitlines()) < 60


@pytest.mark.parametrize(
    ("took", "share", "text"),
    [
        (10, 0.0, ""),
        (10, 0.5, "about 10 s left"),
        (10, 1.0, "about 0 s left"),
        (60, 0.1, "about 9 min left"),
        (3600, 0.1, "about 9.0 h left"),
    ],
)
def test_the_estimate_is_what_the_rest_takes_at_the_pace_so_far(took, share, text):
    assert time_left(took, share) == text
