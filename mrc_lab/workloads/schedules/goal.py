"""Read GOAL, the text format of LogGOPSim, Schedgen and ATLAHS.

    num_ranks 2
    rank 0 {
    l1: calc 100 cpu 0
    l2: send 10b to 1 tag 4 cpu 0 nic 0
    l2 requires l1
    }
    rank 1 {
    l1: recv 10b from 0 tag 4
    }

One statement a line; ``tag``, ``cpu`` and ``nic`` may be left out (0), in this order; a label too, where nothing refers
to it. A dependency names labels defined above it in the same rank. ``-1`` as source or tag is any; ``//`` and ``/* */``
are comments. A calc is in ns. The grammar is that of LogGOPSim's txt2bin (version of December 2023), which ATLAHS
shares; beyond it, a calc may have a ``nic``, and wrong files are refused where txt2bin takes the first of two labels
of one name, or wraps a number around.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mrc_common import named_files
from mrc_lab.errors import FileError
from mrc_lab.workloads.schedules.schedule import (
    ANY,
    MAX_OPERATIONS,
    MAX_RANKS,
    MAX_SIZE,
    MAX_TIME,
    Operation,
    OperationKind,
    Schedule,
)

MAX_FILE = 64 << 20  # bytes
_MAX_LINE = 1024
_MAX_TAG = (1 << 32) - 2  # the next is what txt2bin writes for any
_LABEL = r"[A-Za-z][A-Za-z0-9_]*"
_BEFORE = rf"(?:(?P<label>{_LABEL})[ \t]*:[ \t]*)?"
_AFTER = r"(?:[ \t]*cpu[ \t]*(?P<cpu>[0-9]+))?(?:[ \t]*nic[ \t]*(?P<nic>[0-9]+))?"
_MESSAGE = re.compile(
    rf"{_BEFORE}(?:(?P<send>send)|recv)[ \t]*(?P<size>[0-9]+)[ \t]*b[ \t]*(?P<way>to|from)[ \t]*(?P<peer>-1|[0-9]+)"
    rf"(?:[ \t]*tag[ \t]*(?P<tag>-1|[0-9]+))?{_AFTER}"
)
_CALC = re.compile(rf"{_BEFORE}calc[ \t]*(?P<size>[0-9]+){_AFTER}")
_WAITS = re.compile(rf"(?P<one>{_LABEL})[ \t]+(?P<how>i?requires)[ \t]+(?P<other>{_LABEL})")
_NUM_RANKS = re.compile(r"num_ranks[ \t]*([0-9]+)")
_RANK = re.compile(r"rank[ \t]*([0-9]+)[ \t]*\{")


def read_goal(path: Path) -> Schedule:
    """The schedule in a file, with every name in it resolved; FileError with the line for anything wrong with it.

    Whether it can come to an end is left to :func:`mrc_lab.workloads.schedules.schedule.check`.
    """
    try:
        text = named_files.read_bytes(path, MAX_FILE).decode("ascii")
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(
            f"{path}: is not a GOAL file in text form; if it comes from txt2bin, give the file that txt2bin has read"
        ) from None
    return parse_goal(text, str(path))


def parse_goal(text: str, source: str) -> Schedule:
    """The schedule in `text`; `source` begins every error message."""
    reader = _Reader(source)
    for line, statement in _statements(text, source):
        reader.line = line
        reader.read(statement)
    return reader.schedule()


def _statements(text: str, source: str) -> Iterator[tuple[int, str]]:
    """Number and text of every line with something in it, without comments."""
    commented = 0  # line in which a comment begins that has not ended
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _MAX_LINE:
            raise FileError(f"{source}, line {number}: a line has at most {_MAX_LINE} characters")
        rest, kept = line, ""
        while rest:
            if commented:
                _, ended, rest = rest.partition("*/")
                commented = 0 if ended else commented
                continue
            match = re.search(r"//|/\*", rest)
            kept += rest if match is None else rest[: match.start()] + " "
            if match is None or match[0] == "//":
                break
            commented, rest = number, rest[match.end() :]
        if kept := kept.strip(" \t\r"):
            yield number, kept
    if commented:
        raise FileError(f"{source}, line {commented}: this comment does not end")


class _Reader:
    """Takes statement by statement. `rank` is that of the open block, or -1."""

    def __init__(self, source: str) -> None:
        self.line = 1
        self._source = source
        self._ranks: int | None = None
        self._rank = -1
        self._opened = 0  # line of the open block
        self._seen: set[int] = set()
        self._labels: dict[str, int] = {}
        self._operations: list[Operation] = []

    def error(self, reason: str) -> FileError:
        """The error for this line."""
        return FileError(f"{self._source}, line {self.line}: {reason}")

    def schedule(self) -> Schedule:
        """What was read."""
        if self._rank >= 0:
            self.line = self._opened
            raise self.error(f"rank {self._rank} has no closing bracket")
        if self._ranks is None:
            raise self.error("num_ranks is missing: say how many ranks there are before the first")
        return Schedule(self._source, self._ranks, self._operations)

    def read(self, text: str) -> None:
        """One line, which may open or close a block as well."""
        if self._rank < 0:
            self._read_outside(text)
        elif text.startswith("}"):
            self._rank = -1
            if rest := text[1:].strip():
                self._read_outside(rest)
        elif (match := _MESSAGE.fullmatch(text)) is not None:
            self._message(match)
        elif (match := _CALC.fullmatch(text)) is not None:
            self._add(match, Operation(self._rank, OperationKind.CALC, self._number(match["size"], MAX_TIME, "a calc")))
        elif (match := _WAITS.fullmatch(text)) is not None:
            self._waits(match)
        else:
            raise self.error(
                f"{text[:60]!r} is no statement: expected [label:] send <size>b to <rank>, [label:] recv <size>b from"
                " <rank>, each with tag, cpu and nic in this order, [label:] calc <ns>, or label requires label"
            )

    def _read_outside(self, text: str) -> None:
        if (match := _NUM_RANKS.match(text)) is not None and self._ranks is None:
            self._ranks = self._number(match[1], MAX_RANKS, "num_ranks")
            if not self._ranks:
                raise self.error("num_ranks is 0: there must be a rank")
        elif match is not None:
            raise self.error("num_ranks is there twice")
        elif (match := _RANK.match(text)) is not None:
            if self._ranks is None:
                raise self.error("num_ranks is missing: say how many ranks there are before the first")
            rank = self._existing(match[1])
            if rank in self._seen:
                raise self.error(f"rank {rank} is there twice")
            self._seen.add(rank)
            self._rank, self._opened, self._labels = rank, self.line, {}
        else:
            raise self.error(f"{text[:60]!r} is outside of a rank: expected num_ranks <n> or rank <n> {{")
        if rest := text[match.end() :].strip():
            self.read(rest)

    def _message(self, match: re.Match[str]) -> None:
        sends = match["send"] is not None
        if match["way"] != ("to" if sends else "from"):
            raise self.error("a send has 'to', and a recv has 'from'")
        if sends and match["peer"] == "-1":
            raise self.error("a send must name its receiver; only a recv may say from -1")
        size = self._number(match["size"], MAX_SIZE, "a message")
        peer = ANY if match["peer"] == "-1" else self._existing(match["peer"])
        tag = ANY if match["tag"] == "-1" else self._number(match["tag"] or "0", _MAX_TAG, "a tag")
        self._add(match, Operation(self._rank, OperationKind.SEND if sends else OperationKind.RECV, size, peer, tag))

    def _add(self, match: re.Match[str], operation: Operation) -> None:
        if len(self._operations) >= MAX_OPERATIONS:
            raise self.error(f"more than {MAX_OPERATIONS} operations, which is the most")
        operation.cpu = self._number(match["cpu"] or "0", 255, "cpu")
        operation.queue = self._number(match["nic"] or "0", 255, "nic")
        operation.line = self.line
        operation.label = match["label"] or ""
        if operation.label in self._labels:
            first = self._operations[self._labels[operation.label]].line
            raise self.error(f"label {operation.label} is in line {first} already")
        if operation.label:
            self._labels[operation.label] = len(self._operations)
        self._operations.append(operation)

    def _waits(self, match: re.Match[str]) -> None:
        for name in (match["one"], match["other"]):
            if name not in self._labels:
                raise self.error(f"unknown label {name}: rank {self._rank} defines it nowhere above this line")
        one, other = self._operations[self._labels[match["one"]]], self._labels[match["other"]]
        if match["how"] == "requires":
            one.requires.append(other)
        else:
            one.irequires.append(other)

    def _existing(self, text: str) -> int:
        assert self._ranks is not None
        rank = self._number(text, 1 << 32, "a rank")
        if rank >= self._ranks:
            raise self.error(f"there is no rank {rank}: num_ranks is {self._ranks}, and ranks count from 0")
        return rank

    def _number(self, text: str, most: int, what: str) -> int:
        if len(text) > 20 or int(text) > most:
            raise self.error(f"{what} is {most} at most, not {text[:24]}")
        return int(text)
