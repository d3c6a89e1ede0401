"""Numbers at the edges of every flag of every tool: taken, or refused with status 2 and one sentence, at once."""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import random
from collections.abc import Callable, Iterator, Sequence

import click
import pytest

from mrc_host.tools import mrc_ping, write_bw, write_lat
from mrc_host.tools.flags import parsed
from mrc_lab.cli.main import group
from mrc_lab.perf import options as perf
from mrc_lab.perf.cases import CASES
from mrc_lab.perf.options import UsageError, check_sizes
from tests.seeds import SEED

EDGES = (
    "0", "1", "-1", "2", "255", "256", "1023", "1024", "1025", "4096", "9000", "65535", "65536", "2147483648", "1G",
    "1T", "4294967296", "18446744073709551616", "9" * 30, "1e3", "1e999", "nan", "inf", "0.5", "-0", "", " ", "0x10",
    "1_000", "\u0661",
)  # fmt: skip
Parse = Callable[[Sequence[str]], object]
WRITE_BW, WRITE_LAT, MRC_PING = write_bw.flags(), write_lat.flags(), mrc_ping.parser()


def perf_parse(case: str) -> Parse:
    return lambda words: perf.parse(case, words)


TOOLS: dict[str, tuple[argparse.ArgumentParser, Parse, list[str]]] = {
    "write_bw": (WRITE_BW, lambda words: parsed(WRITE_BW, words), ["peer"]),
    "write_lat": (WRITE_LAT, lambda words: parsed(WRITE_LAT, words), ["peer"]),
    "mrc_ping": (MRC_PING, MRC_PING.parse_args, ["h1", "h2"]),
    **{f"{case}_perf": (perf.parser(case), perf_parse(case), []) for case in CASES},
}


@pytest.fixture(autouse=True)
def parsers_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a parser takes longer than all that it parses here."""
    monkeypatch.setattr(perf, "parser", functools.cache(perf.parser))


def status(parse: Parse, words: Sequence[str]) -> int:
    """0 if the words are taken, or the status that the program ends with."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parse(words)
    except SystemExit as end:
        assert "error: " in said.getvalue()
        assert "Traceback" not in said.getvalue()
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("tool", TOOLS)
def test_numbers_at_the_edges_are_taken_or_are_usage_errors(tool: str) -> None:
    flags, parse, rest = TOOLS[tool]
    for action in flags._actions:
        if action.option_strings and action.nargs is None and action.dest != "help":
            for edge in EDGES:
                assert status(parse, [*rest, f"{action.option_strings[-1]}={edge}"]) in (0, 2), (action.dest, edge)


def test_random_command_lines_are_taken_or_are_usage_errors() -> None:
    seed = SEED
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        flags, parse, rest = TOOLS[chance.choice(list(TOOLS))]
        actions = [action for action in flags._actions if action.option_strings and action.nargs is None]
        words = [f"{chance.choice(actions).option_strings[-1]}={chance.choice(EDGES)}" for _ in range(3)]
        assert status(parse, [*rest, *words]) in (0, 2), words


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("write_bw", ["-s", "0"]),
        ("write_bw", ["-q", "0"]),
        ("write_bw", ["-q", "5000"]),
        ("write_bw", ["-t", "0"]),
        ("write_bw", ["-m", "100"]),
        ("write_bw", ["-u", "25"]),
        ("write_bw", ["--retry_count", "256"]),
        ("write_bw", ["-q", "1024", "-s", "2M"]),
        ("write_lat", ["-s", "0"]),
        ("all_reduce_perf", ["-b", "1", "-e", "1G", "-i", "1"]),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(tool: str, words: list[str]) -> None:
    _, parse, rest = TOOLS[tool]
    assert status(parse, [*rest, *words]) == 2


def commands(group: click.Group, name: str = "mrc") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=name)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {each}")
        else:
            yield f"{name} {each}", command


def test_numbers_at_the_edges_of_mrc_are_taken_or_are_usage_errors() -> None:
    for name, command in commands(group):
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag or option.count:
                continue
            for edge in EDGES:
                with contextlib.suppress(click.ClickException), contextlib.redirect_stderr(io.StringIO()):
                    command.make_context(name, [f"{option.opts[0]}={edge}"], resilient_parsing=False)


@pytest.mark.parametrize(
    ("case", "words", "world", "least"),
    [
        ("all_reduce", ["-b", "1", "-e", "2"], 2, 4),
        ("all_reduce", ["-b", "4", "-d", "all"], 2, 8),
        ("alltoall", ["-b", "8"], 16, 64),
        ("all_gather", ["-b", "8", "-e", "63", "-f", "2"], 16, 64),
    ],
)
def test_sizes_below_the_smallest_operation_are_refused(case: str, words: list[str], world: int, least: int) -> None:
    with pytest.raises(UsageError, match=f"has {least}: use -b {least} or more"):
        check_sizes(perf.parse(case, words).plan, world)


def test_a_size_at_the_smallest_operation_is_taken() -> None:
    check_sizes(perf.parse("alltoall", ["-b", "8", "-e", "64", "-f", "2"]).plan, 16)
