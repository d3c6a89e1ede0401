"""Colour where there is a terminal, tables that fit it, and neither in pipes."""

import io
import re

import pytest
from rich.console import Console
from rich.text import Text

from mrc_lab.commands.listing import Column, Listing
from mrc_lab.terminal import console as terminal
from mrc_lab.terminal.state_colour import AMBER, RED, coloured, coloured_verdict

QPS = ("host", "QP", "type", "remote", "state", "sent", "resent", "lost", "received", "client")
ROW = ("h1", "0x4a31f2", "mrc", "h3:0x00a1b2", "rts", "123456", "12", "13", "123456", "python3 12345")


def columns(*names):
    listing = Listing("a command", "rows", tuple(Column(name, "", name) for name in names))
    table = listing.table([])
    table.add_row = lambda *cells, add=table.add_row: add(*map(Text, cells))  # as a listing's cells are
    return table


def at(width, monkeypatch=None, **environment):
    """A console on a terminal of this width."""
    return Console(
        file=io.StringIO(), width=width, force_terminal=True, highlight=False, markup=False,
        _environ={"TERM": "xterm-256color", **environment},
    )  # fmt: skip


def table_of(*names):
    table = columns(*names)
    table.add_row(*ROW[: len(names)])
    return table


def printed(to):
    return to.file.getvalue()


def bare(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_table_fits_the_terminal_and_says_which_columns_it_left_out(width):
    to = at(width)
    terminal.show(to, table_of(*QPS))
    lines = bare(printed(to)).splitlines()
    assert max(map(len, lines)) <= width
    shown = lines[0].split()
    hidden = re.sub(r"[(),]", "", " ".join(lines[3:]).removeprefix("(too narrow for: ")).split()
    assert sorted(shown + hidden) == sorted(QPS)
    assert {"host", "QP", "state", "lost"} <= set(shown), "what matters most stays"
    assert lines[2].split()[0] == "h1"


def test_what_is_left_is_not_cut_in_the_middle_of_a_word():
    to = at(60)
    terminal.show(to, table_of(*QPS))
    row = bare(printed(to)).splitlines()[2].split()
    assert set(row) <= set(" ".join(ROW).split())


def test_a_wide_terminal_shows_every_column():
    to = at(200)
    terminal.show(to, table_of(*QPS))
    assert bare(printed(to)).splitlines()[0].split() == list(QPS)
    assert "too narrow" not in printed(to)


def test_a_pipe_gets_every_column_whatever_its_width_and_no_colour(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    to = terminal.console(io.StringIO())
    table = table_of(*QPS)
    table.add_row("h2", *ROW[1:4], "ERROR", *ROW[5:])
    terminal.show(to, table)
    assert printed(to).splitlines()[0].split() == list(QPS)
    assert "\x1b" not in printed(to)


def test_columns_that_are_alike_are_continued_below():
    to = at(40)
    table = columns("takes", *(f"{planes} planes" for planes in range(1, 9)))
    table.add_row("switches", *(str(number) for number in range(100, 108)))
    terminal.show(to, table, alike=True)
    text = bare(printed(to))
    assert max(map(len, text.splitlines())) <= 40
    assert text.count("takes") > 1
    assert text.count("switches") == text.count("takes")
    assert list(re.findall(r"\b10\d\b", text)) == [str(number) for number in range(100, 108)]


def test_states_have_their_colour_on_a_terminal():
    to = at(80)
    table = columns("link", "state")
    table.add_row("down", "DOWN")  # only the state is one
    table.add_row("b", "GOOD 3, ASSUMED_BAD 1, SKIP 2")
    table.add_row("c", "up")
    terminal.show(to, table)
    lines = printed(to).splitlines()
    assert "\x1b[1;31mDOWN\x1b[0m" in lines[2]
    assert "\x1b[1;31mdown" not in lines[2]
    assert "\x1b[1;31mASSUMED_BAD\x1b[0m" in lines[3]
    assert "\x1b[33mSKIP\x1b[0m" in lines[3]
    assert "\x1b[3" not in lines[4]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_it_is_not_wanted(environment):
    to = at(80, **environment)
    table = columns("link", "state")
    table.add_row("a", "DOWN")
    terminal.show(to, table)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", printed(to))
    assert "DOWN" in printed(to)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("t1-0@p1 suspected, confidence 98 %", [("suspected", AMBER)]),
        ("link DOWN", [("DOWN", RED)]),
        ("download shutdown count-down errors", []),
        ("all good", []),
    ],
)
def test_words_of_states_are_coloured_and_parts_of_other_words_are_not(text, spans):
    found = coloured(text)
    assert found.plain == text
    assert [(text[span.start : span.end], span.style) for span in found.spans] == spans


def test_of_a_verdict_only_the_first_word_is_coloured():
    assert coloured_verdict("pass      work requests that failed: 0").spans == []
    (span,) = coloured_verdict("fail      bytes that were wrong: 7").spans
    assert (span.start, span.end, span.style) == (0, 4, RED)
    assert coloured_verdict("").spans == []


@pytest.mark.parametrize("width", [60, 80])
def test_long_line_is_folded_below_its_own_text_in_a_terminal(width):
    to, text = at(width), "absent   tool   " + "what does not work without it " * 6
    terminal.print_folded(to, coloured_verdict(text), 16)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed(to)).splitlines()
    assert max(map(len, plain)) <= width
    assert all(line.startswith(" " * 16 + "w") or line[16] != " " for line in plain[1:])
    assert " ".join(" ".join(plain).split()) == " ".join(text.split())


def test_long_line_is_whole_in_a_pipe():
    to = Console(file=io.StringIO(), width=60, highlight=False, markup=False)
    terminal.print_folded(to, Text("x" * 20 + " y" * 100), 10)
    assert printed(to) == "x" * 20 + " y" * 100 + "\n"
