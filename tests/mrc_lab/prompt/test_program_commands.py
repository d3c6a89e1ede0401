"""The words of the prompt's `table`."""

from __future__ import annotations

import pytest

from controller.values import EntryWords, TableChange
from mrc_lab.errors import ExperimentError
from mrc_lab.prompt.program_commands import read_words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("t0-0@p0 usid_next forward 1 2/3 => 5", EntryWords("usid_next", ("1", "2/3"), "forward", ("5",))),
        ("t0-* t a * => 1 2 priority 7", EntryWords("t", ("*",), "a", ("1", "2"), 7)),
        ("t0-0@p0 t a 1 =>", EntryWords("t", ("1",), "a")),
        ("t0-0@p0 t a 1", EntryWords("t", ("1",), "a")),
    ],
)
def test_an_entry_is_read_as_simple_switch_cli_writes_it(line: str, expected: EntryWords) -> None:
    pattern, entry = read_words(TableChange.ADD, line.split())
    assert pattern == line.split()[0]
    assert entry == expected


def test_to_delete_there_is_no_action() -> None:
    assert read_words(TableChange.DELETE, ["s", "t", "1", "2", "priority", "3"]) == (
        "s",
        EntryWords("t", ("1", "2"), "", (), 3),
    )


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (TableChange.ADD, "t0-0@p0 usid_next forward"),
        (TableChange.ADD, "=> 1"),
        (TableChange.DELETE, "t0-0@p0 usid_next"),
        (TableChange.DELETE, "t0-0@p0 usid_next 1 => 2"),
    ],
)
def test_what_is_missing_is_shown(change: TableChange, line: str) -> None:
    with pytest.raises(ExperimentError, match=f"say which entry: table {change.value} SWITCH TABLE "):
        read_words(change, line.split())


def test_a_priority_is_a_number() -> None:
    with pytest.raises(ExperimentError, match="a priority is a number, not 'high'"):
        read_words(TableChange.ADD, ["s", "t", "a", "1", "=>", "2", "priority", "high"])
