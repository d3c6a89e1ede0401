"""The next words of a fault, for the shell and the prompt."""

from __future__ import annotations

import pytest

from mrc_lab.commands.fault_command import parse
from mrc_lab.commands.fault_completion import next_words
from mrc_lab.errors import ExperimentError
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("words", planes=1, t0=2, t1=1, hosts=2)
LINK = "t0-0:t1-0@p0"


@pytest.mark.parametrize(
    ("before", "there", "absent"),
    [
        ("", {LINK, "h1@p0", "t1-0@p0", "path", "list", "clear", "add"}, {"down", "all"}),
        ("add", {LINK, "t1-0@p0", "path"}, {"add", "list", "clear"}),
        (LINK, {"down", "up", "loss", "flap"}, {"blackhole", "power_off", "at"}),
        ("t0-*:t1-*", {"down"}, set()),
        ("t1-0@p0", {"blackhole", "power_off", "port_down"}, {"down", "up"}),
        ("h1", {"port_down"}, {"down", "blackhole"}),
        (f"{LINK} down", {"t0-0@p0", "t1-0@p0", "at", "for", "owner"}, {"h1"}),
        (f"{LINK} up", set(), {"at"}),
        (f"{LINK} loss", {"1%"}, {"at", "t0-0@p0"}),
        (f"{LINK} loss 1%", {"t0-0@p0", "for"}, {"h1"}),
        (f"{LINK} flap", {"2s"}, {"at", "random"}),
        (f"{LINK} flap 2s", {"25%", "random", "for"}, {"t0-0@p0"}),
        (f"{LINK} flap 2s 25% random 7", {"at"}, {"random", "25%"}),
        (f"{LINK} down for", {"10s"}, {"at"}),
        (f"{LINK} down for 10s", {"at", "owner"}, {"for"}),
        ("t1-0@p0 blackhole", {"at"}, {"t1-0@p0"}),
        ("path", {"0x402"}, {"h1", "at"}),
        ("path 0x1", {"100%"}, {"h1"}),
        ("path 0x1 100%", {"h1", "h2", "at"}, set()),
        ("path 0x1 100% h1 h2", {"at"}, {"h1"}),
        ("list", {"all"}, {LINK}),
        ("list all", set(), {"all"}),
        ("clear", {"f1", "f2", "all", "owner", "link"}, {LINK}),
        ("clear f1", {"f2"}, {"f1", "all"}),
        ("clear link", {LINK}, {"f1"}),
        ("clear link x", set(), {LINK}),
        ("clear all", set(), {"f1"}),
    ],
)
def test_valid_next_words_are_completed(before: str, there: set[str], absent: set[str]) -> None:
    found = next_words(FABRIC, before.split(), ids=("f1", "f2"))
    assert there <= set(found)
    assert not absent & set(found)
    assert len(found) == len(set(found))
    assert found == next_words(FABRIC, tuple(before.split()), ids=("f1", "f2")), "the shell's words are a tuple"


def lines(before: tuple[str, ...], depth: int) -> list[tuple[str, ...]]:
    found = [(*before, word) for word in next_words(FABRIC, before)]
    return found + [line for one in found if depth > 1 for line in lines(one, depth - 1)]


def complaint(line: tuple[str, ...]) -> str:
    try:
        parse(line)
    except ExperimentError as error:
        return str(error)
    return ""


def test_every_completed_word_is_accepted() -> None:
    """A line of offered words makes a fault, or wants one more word."""
    for target in (("h1@p0",), ("t1-0@p0",), ("path", "0x1")):
        for line in lines(target, 3):
            if line[-1] != "up":
                assert complaint(line) == "" or "say " in complaint(line) or next_words(FABRIC, line), line
