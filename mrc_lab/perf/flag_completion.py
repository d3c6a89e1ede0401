"""Completion of the performance tools' flags and their values, read from the parsers that declare them."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping, Sequence

from mrc_host.tools import write_bw, write_lat
from mrc_lab.perf import options, ping
from mrc_lab.perf.cases import CASES

_PARSERS: Mapping[str, Callable[[], argparse.ArgumentParser]] = {
    **{f"{case}_perf": functools.partial(options.parser, case) for case in CASES},
    "allreduce": functools.partial(options.parser, "all_reduce"),
    "write_bw": write_bw.flags,
    "write_lat": write_lat.flags,
    "mrc_ping": ping.parser,
}
_OF_THE_PROMPT = ("--fabric",)  # it adds them itself
_FILE = "FILE"  # metavar of values that are files
TOOLS = tuple(_PARSERS)


def words(tool: str, before: str, hosts: Sequence[str], text: str) -> list[str] | None:
    """What may stand after the word `before`: flags of a tool, or values of that flag. None: the name of a file.

    `text` is what is there of the word.
    """
    if _takes_file(tool, before):
        return None
    values = _values(tool, before, hosts, text)
    return _flags(tool) if values is None else values


def _flags(tool: str) -> list[str]:
    """All flags of a tool but those that it refuses."""
    return [
        name
        for action in _actions(tool)
        for name in action.option_strings
        if action.help is not argparse.SUPPRESS and name not in _OF_THE_PROMPT
    ]


def _takes_file(tool: str, word: str) -> bool:
    """Whether `word` is a flag whose value is a file."""
    action = _flag(tool, word)
    return action is not None and action.metavar == _FILE


def _values(tool: str, word: str, hosts: Sequence[str], text: str) -> list[str] | None:
    """Values of the flag `word`, as far as they are known; None if it is not a flag, or takes no value.

    `text` is what is there of the value: to a list of hosts another one is added.
    """
    action = _flag(tool, word)
    if action is None or action.nargs == 0:
        return None
    if action.dest == "hosts":
        chosen, comma, _ = text.rpartition(",")
        return [f"{chosen}{comma}{host}" for host in hosts if host not in chosen.split(",")]
    return list(map(str, action.choices or ()))


def _flag(tool: str, word: str) -> argparse.Action | None:
    return next((action for action in _actions(tool) if word in action.option_strings), None)


@functools.cache
def _actions(tool: str) -> tuple[argparse.Action, ...]:
    return tuple(_PARSERS[tool]()._actions)
