"""The prompt's help: groups, usage and examples."""

from __future__ import annotations

import pytest

pytest.importorskip("mininet")

from mrc_lab.prompt.command_help import COMMANDS, Topic, describe, overview
from mrc_lab.prompt.prompt import Prompt


def test_commands_and_help_entries_match() -> None:
    there = {name.removeprefix("do_") for name in dir(Prompt) if name.startswith("do_")}
    assert there == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_usage_and_an_example(name: str) -> None:
    entry = COMMANDS[name]
    text = describe(entry)
    assert f"usage:    {entry.usage}" in text
    assert f"example:  {entry.example}" in text
    if name != "EOF":
        assert entry.usage.split()[0] == entry.example.split()[0] == name


def test_the_overview_lists_commands_by_group_within_the_width() -> None:
    text = overview()
    titles = [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [group.value for group in Topic]
    assert max(map(len, text.splitlines())) <= 110
    assert "  paths  " in text
