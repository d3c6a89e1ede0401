"""How ``mrc exec`` reads its words; what it runs is in tests/integration/test_management.py."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from mrc_lab.cli.exec import divided
from mrc_lab.fabric import find_fabric


@pytest.fixture(autouse=True)
def lab_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_fabric, "is_there", lambda name, root=Path(): name == "lab")


@pytest.mark.parametrize(
    ("words", "name", "meant"),
    [
        (["lab", "h1", "--", "ip", "-br", "addr"], None, ("lab", "h1", ["ip", "-br", "addr"])),
        (["h1", "--", "ip", "-br", "addr"], None, (None, "h1", ["ip", "-br", "addr"])),
        (["lab", "h1", "ls", "-l"], None, ("lab", "h1", ["ls", "-l"])),
        (["h1", "ls", "-l"], "other", ("other", "h1", ["ls", "-l"])),
        (["lab", "ls"], "other", ("other", "lab", ["ls"])),
        (["h1", "sh", "-c", "x -- y"], None, (None, "h1", ["sh", "-c", "x -- y"])),
        (["h1", "echo", "a", "--", "b"], None, (None, "h1", ["echo", "a", "--", "b"])),
        (["lab", "h1"], None, ("lab", "h1", [])),
        (["lab", "--", "ls"], None, (None, "lab", ["ls"])),
    ],
)
def test_fabric_host_and_command_are_parsed(words: list[str], name: str | None, meant: object) -> None:
    assert divided(words, name) == meant


@pytest.mark.parametrize("words", [["--", "ls"], ["lab"]])
def test_a_missing_host_is_named_with_an_example(words: list[str]) -> None:
    with pytest.raises(click.UsageError, match="say in which host, as in: mrc exec lab h1"):
        divided(words, None)


def test_naming_two_fabrics_is_an_error() -> None:
    with pytest.raises(click.UsageError, match="two fabrics are named, other and lab"):
        divided(["lab", "h1", "--", "ls"], "other")
