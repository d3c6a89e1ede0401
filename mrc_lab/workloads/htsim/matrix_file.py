"""Reads a connection matrix (:mod:`mrc_lab.workloads.htsim.connection_matrix`), or says which line is wrong.

What htsim can say and this simulator cannot do is refused too, with its line: priorities, messages on a connection that
is used again, and flows without an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from mrc_common.suggestions import did_you_mean
from mrc_lab.errors import FileError
from mrc_lab.workloads.htsim.connection_matrix import (
    MAX_CONNECTIONS,
    MAX_NODES,
    ConnectionMatrix,
    MatrixFailure,
    MatrixFlow,
    MatrixTrigger,
    TriggerKind,
)
from mrc_lab.workloads.htsim.lines import Line, lines_of, read_text, shown
from mrc_lab.workloads.htsim.triggers import check_triggers

_HEADER = {"Nodes": MAX_NODES, "Connections": MAX_CONNECTIONS, "Triggers": MAX_CONNECTIONS, "Failures": MAX_CONNECTIONS}
_WAY = re.compile(r"([0-9]{1,10})->([0-9]{1,10})")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE]\+?[0-9]{1,2})?")
_LATEST = 10**18  # ps, which is a million seconds
_CANNOT = {
    "prio": "flows have no priorities here: leave prio out",
    "msg": "each flow has a connection of its own here (without -conn_reuse): leave msg out",
    "addon": "a trigger begins a flow here, it adds nothing to one: leave addon out",
}
_FLOW_NUMBERS = ("id", "trigger", "send_done_trigger", "recv_done_trigger")
_SWITCH_TYPES = ("TOR", "AGG", "CORE")


def read_matrix(path: Path) -> ConnectionMatrix:
    """The matrix in a file; FileError with file and line for anything wrong with it."""
    return parse_matrix(read_text(path), str(path))


def parse_matrix(text: str, source: str) -> ConnectionMatrix:
    """The matrix in `text`; `source` begins every error message."""
    reader = _Reader(source)
    for line in lines_of(text, source):
        reader.read(line)
    matrix = reader.matrix()
    check_triggers(matrix)
    return matrix


class _Reader:
    """Takes line by line."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._header: dict[str, Line] = {}
        self._sizes: dict[str, int] = {}
        self._flows: list[MatrixFlow] = []
        self._triggers: dict[int, MatrixTrigger] = {}
        self._failures: list[MatrixFailure] = []
        self._ids: dict[int, int] = {}  # of flows, with their lines

    def read(self, line: Line) -> None:
        """The next line."""
        word = line.words[0]
        if "->" in word:
            self._body(line, "Connections", len(self._flows))
            self._flow(line)
        elif word == "trigger":
            self._body(line, "Triggers", len(self._triggers))
            self._trigger(line)
        elif word == "failure":
            self._body(line, "Failures", len(self._failures))
            self._failures.append(_failure(line))
        else:
            self._head(line)

    def matrix(self) -> ConnectionMatrix:
        """All of it, once the last line is read; FileError if something is missing."""
        for name in ("Nodes", "Connections"):
            if name not in self._sizes:
                raise FileError(f"{self._source}: has no line '{name} N', so it is no connection matrix of htsim")
        found = {"Connections": self._flows, "Triggers": self._triggers, "Failures": self._failures}
        for name, entries in found.items():
            if len(entries) != self._sizes.get(name, 0):
                line = self._header[name]
                raise line.error(f"{name} is {self._sizes[name]:,}, but the file has {len(entries):,} of them")
        if not self._flows:
            raise self._header["Connections"].error("there are no connections, so there is nothing to run")
        return ConnectionMatrix(
            self._sizes["Nodes"],
            tuple(self._flows),
            tuple(self._triggers.values()),
            tuple(self._failures),
            self._source,
        )

    def _head(self, line: Line) -> None:
        name = line.words[0]
        if name not in _HEADER:
            hint = did_you_mean(name, [*_HEADER, "trigger", "failure"], most=1, cutoff=0.6)
            known = hint or f"a line begins with {', '.join(_HEADER)}, 'trigger', 'failure' or a flow such as 0->5"
            raise line.error(f"{shown(name)} is unknown; {known}")
        if self._flows or self._triggers or self._failures:
            raise line.error(f"{name} stands before all connections, triggers and failures")
        if name in self._sizes:
            raise line.error(f"{name} is there already, in line {self._header[name].number}")
        least = {"Nodes": 2, "Connections": 0}.get(name, 0)
        self._sizes[name] = line.whole(name, line.value(), least, _HEADER[name])
        self._header[name] = line

    def _body(self, line: Line, name: str, already: int) -> None:
        """FileError unless the header has announced one more."""
        if "Nodes" not in self._sizes:
            raise line.error("'Nodes N' stands before it, the number of hosts")
        if already >= self._sizes.get(name, 0):
            announced = f"{name} is {self._sizes.get(name, 0):,}" if name in self._sizes else f"there is no '{name} N'"
            raise line.error(f"this is one more than the header announces: {announced}")

    def _flow(self, line: Line) -> None:
        way = _WAY.fullmatch(line.words[0])
        if way is None:
            raise line.error(f"a flow is written as 0->5, not {shown(line.words[0])}")
        ends = [self._node(line, word) for word in way.groups()]
        if ends[0] == ends[1]:
            raise line.error(f"node {ends[0]} sends to itself")
        given: dict[str, int] = {}
        for name, word in _pairs(line, 1):
            if name in _CANNOT:
                raise line.error(_CANNOT[name])
            read = _FLOW_KEYS.get(name)
            if read is None:
                raise line.error(f"{shown(name)} is unknown; a flow has {', '.join(_FLOW_KEYS)}")
            if name in given:
                raise line.error(f"{name} is there twice")
            given[name] = read(line, word)
        self._check_flow(line, given)
        self._flows.append(replace(MatrixFlow(*ends, **given), line=line.number))

    def _node(self, line: Line, word: str) -> int:
        found = int(word)
        if found >= self._sizes["Nodes"]:
            raise line.error(f"there is no node {found}: {self._sizes['Nodes']} nodes count from 0")
        return found

    def _check_flow(self, line: Line, given: dict[str, int]) -> None:
        if "size" not in given:
            raise line.error("size is missing, the bytes of the flow")
        if "start" in given and "trigger" in given:
            raise line.error("has start and trigger: a flow begins at a time or by a trigger")
        if "start" not in given and "trigger" not in given:
            raise line.error("has neither start nor trigger, so it never begins")
        if "trigger" in given and "id" not in given:
            raise line.error("id is missing: htsim wants it of flows that a trigger begins")
        if "id" in given and self._ids.setdefault(given["id"], line.number) != line.number:
            raise line.error(f"id {given['id']} is that of the flow in line {self._ids[given['id']]}")

    def _trigger(self, line: Line) -> None:
        words, number, count, kind = iter(line.words[1:]), 0, None, None
        for word in words:
            if word in {each.value for each in TriggerKind}:
                if kind is not None:
                    raise line.error("a trigger is one of oneshot, multishot and barrier")
                kind = TriggerKind(word)
            elif word in ("id", "count"):
                value = line.whole(f"{word} of a trigger", next(words, ""), 1)
                if (number if word == "id" else count or 0) != 0:
                    raise line.error(f"{word} is there twice")
                number, count = (value, count) if word == "id" else (number, value)
            else:
                raise line.error(f"{shown(word)} is unknown; a trigger has id, count, oneshot, multishot or barrier")
        if not number or kind is None:
            raise line.error("a trigger has an id and a kind, as in 'trigger id 1 oneshot'")
        if number in self._triggers:
            raise line.error(f"trigger {number} is there already, in line {self._triggers[number].line}")
        if (kind is TriggerKind.BARRIER) != (count is not None):
            raise line.error(
                "count is missing" if count is None else f"count is that of a barrier, not of {kind.value}"
            )
        self._triggers[number] = MatrixTrigger(number, kind, count or 0, line.number)


def _pairs(line: Line, begin: int) -> Iterator[tuple[str, str]]:
    """Names and values in turn."""
    for at in range(begin, len(line.words), 2):
        if at + 1 == len(line.words) and line.words[at] not in _CANNOT:
            raise line.error(f"{shown(line.words[at])} has no value: the line ends after it")
        yield line.words[at], (*line.words, "")[at + 1]


def _size(line: Line, word: str) -> int:
    if word.strip("0") == "" and word:
        raise line.error("size is 0, which in htsim is a flow without an end: give its bytes")
    return line.whole("size", word, 1)


def _start(line: Line, word: str) -> int:
    found = round(float(word)) if len(word) <= 40 and _NUMBER.fullmatch(word) else -1
    if not 0 <= found <= _LATEST:
        raise line.error(f"start is a time in ps from 0 to {_LATEST:.0e}, not {shown(word)}")
    return found


def _numbered(name: str) -> Callable[[Line, str], int]:
    return lambda line, word: line.whole(name, word, 1)


_FLOW_KEYS: dict[str, Callable[[Line, str], int]] = {
    "start": _start,
    "size": _size,
    **{name: _numbered(name) for name in _FLOW_NUMBERS},
}


def _failure(line: Line) -> MatrixFailure:
    given: dict[str, str] = {}
    for name, word in _pairs(line, 1):
        if name not in ("switch_type", "switch_id", "link_id"):
            raise line.error(f"{shown(name)} is unknown; a failure has switch_type, switch_id and link_id")
        if name in given:
            raise line.error(f"{name} is there twice")
        given[name] = word
    if len(given) < 3:
        raise line.error("a failure has switch_type, switch_id and link_id")
    if given["switch_type"] not in _SWITCH_TYPES:
        raise line.error(f"switch_type is one of {', '.join(_SWITCH_TYPES)}, not {shown(given['switch_type'])}")
    if given["switch_type"] != "AGG":
        raise line.error("htsim fails links of AGG switches only, from T1s to T2s")
    switch, link = (line.whole(name, given[name], 0) for name in ("switch_id", "link_id"))
    return MatrixFailure(switch, link, line.number)
