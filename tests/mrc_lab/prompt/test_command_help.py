"""The prompt's help: groups, usage and examples."""

from __future__ import annotations

import pytest

pytest.importorskip("mininet")

from mrc_lab.prompt.command_help import COMMANDS, Topic, describe, overview
from mrc_lab.prompt.prompt import Prompt


def test_every_command_of_the_prompt_has_an_entry_and_every_entry_a_command() -> None:
    there = {name.removeprefix("do_") for name in dir(Prompt) if name.startswith("do_")}
    assert there == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_usage_and_an_example_of_it(name: str) -> None:
    entry = COMMANDS[name]
    text = describe(entry)
    assert f"usage:    {entry.usage}" in text
    assert f"example:  {entry.example}" in text
    if name != "EOF":
        assert entry.usage.split()[0] == entry.example.split()[0] == name


def test_the_overview_lists_commands_by_group_on_lines_that_fit() -> None:
    text = overview()
    titles = [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [group.value for group in Topic]
    assert max(map(len, text.splitlines())) <= 110
    assert "  paths  " in text
