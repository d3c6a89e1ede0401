"""A program and what p4c's midend makes of it, on the embedded switch: random entries and packets through both.

The midend has inlined, copied arguments in and out, and put what has side effects in order, so this compares how p4c
and this compiler understand the program.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mrc_common.p4_match import Exact, Lpm, Match, Optional, Range, Ternary
from p4compiler import bmv2_json, v1model
from p4compiler.check import check
from p4compiler.compiler import deep_recursion
from p4compiler.diagnostics import Diagnostics
from p4compiler.parser import parse
from p4compiler.preprocessor import Preprocessor
from p4compiler.sources import Includes, SourceText, read
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.errors import AlreadyExists, ResourceExhausted
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import Program
from p4runtime_shim.program.model.actions import Action
from p4runtime_shim.program.model.control_flow import Key, Table
from p4runtime_shim.switch import EmbeddedSwitch

PORTS = (0, 1, 2, 3, 510)
ENTRIES, FRAMES = 4, 40  # of each table; of each program
LONGEST = 160  # bytes
STEP_NS = 1_000_000
ROUNDS = 20  # of a packet that is sent around

COPY = "__copy"
_ACTION = re.compile(r'@name\("([^"]+)"\)\s+(?:@\w+\s+)*action')

Outcome = list[tuple[int, int, str]]
"""Frames that left: after which one, at which port, its bytes."""


def json_of(path: Path) -> str:
    """BMv2's JSON of a program. Raises P4Error.

    The midend has copies of actions under the name of the original, which no program may have: copies get a number.
    """
    source = read(str(path))
    seen: Counter[str] = Counter()

    def numbered(found: re.Match[str]) -> str:
        seen[found[1]] += 1
        return found[0].replace('")', f'{COPY}{seen[found[1]]}")') if seen[found[1]] > 1 else found[0]

    text = _ACTION.sub(numbered, source.text)
    diagnostics = Diagnostics()
    with deep_recursion():
        program = parse(Preprocessor(Includes(), {}, diagnostics).run(SourceText(source.name, text)), diagnostics)
        return bmv2_json.write(v1model.lower(check(program, diagnostics), diagnostics), path.name, diagnostics)


def differences(one: Pipeline, other: Pipeline, seed: str) -> list[str]:
    """What the two do differently with the same entries and frames; the first few in words."""
    entries = list(_entries(one.program, other.program, seed))
    first, second = _run(one, entries, seed), _run(other, entries, seed)
    if first == second:
        return []
    found = [f"{a} instead of {b}" for a, b in zip(first, second, strict=False) if a != b]
    return found[:3] or [f"{len(first)} frames instead of {len(second)}"]


def _run(pipeline: Pipeline, entries: list[tuple[str, Entry]], seed: str) -> Outcome:
    draw, now, left = random.Random(f"{seed}/frames"), 0, []
    with EmbeddedSwitch(pipeline, ports=PORTS, seed=1) as switch:
        tables = {table.name: table for table in pipeline.program.tables}
        for name, entry in entries:
            assert isinstance(entry.target, ActionCall)
            own = _actions(pipeline.program, tables[name])[entry.target.name]
            target = ActionCall(own.name, entry.target.args)
            with suppress(AlreadyExists, ResourceExhausted):  # drawn twice, or one too many
                switch.control_plane.table(name).insert(Entry(entry.match, target, entry.priority))
        for number in range(FRAMES):
            now += STEP_NS
            switch.receive(draw.choice(PORTS[:-1]), _frame(draw), now)
            for _ in range(ROUNDS):
                for port in switch.ready():
                    while (frame := switch.transmit(port, now)) is not None:
                        left.append((number, port, frame.hex()))
    return left


def _frame(draw: random.Random) -> bytes:
    """Bytes that often are small, since programs compare with small numbers."""
    small = draw.random() < 0.7
    length = draw.randrange(LONGEST)
    return bytes(draw.choices((0, 1, 2, 3, 8, 255), k=length)) if small else draw.randbytes(length)


def _entries(one: Program, other: Program, seed: str) -> Iterator[tuple[str, Entry]]:
    """Entries of the tables that both have, with actions that both have there."""
    tables = {table.name: table for table in other.tables}
    for table in one.tables:
        same = tables.get(table.name)
        if same is None or table.profile is not None or table.entries_const:
            continue
        if [(key.kind, key.width) for key in table.keys] != [(key.kind, key.width) for key in same.keys]:
            continue
        there = {name: _widths(action) for name, action in _actions(other, same).items()}
        own = {name: _widths(action) for name, action in _actions(one, table).items()}
        actions = sorted((name, widths) for name, widths in own.items() if there.get(name) == widths)
        draw = random.Random(f"{seed}/{table.name}")
        for _ in range(ENTRIES if actions and table.keys else 0):
            name, widths = draw.choice(actions)
            ordered = any(key.kind in ("ternary", "range", "optional") for key in table.keys)
            args = tuple(draw.randrange(1 << min(width, 2)) for width in widths)
            match = tuple(_match(draw, key) for key in table.keys)
            yield table.name, Entry(match, ActionCall(name, args), draw.randrange(1, 1000) if ordered else 0)


def _actions(program: Program, table: Table) -> dict[str, Action]:
    """The actions of a table by their names, copies by that of the original."""
    return {action.name.partition(COPY)[0]: action for action in map(program.actions.__getitem__, table.actions)}


def _widths(action: Action) -> tuple[int, ...]:
    return tuple(param.width for param in action.params)


def _match(draw: random.Random, key: Key) -> Match:
    value = draw.randrange(1 << min(key.width, 2))
    if key.kind in ("exact", "valid"):
        return Exact(value)
    if key.kind == "lpm":
        length = draw.randrange(key.width + 1)
        return Lpm(value >> (key.width - length) << (key.width - length) if length else 0, length)
    if key.kind == "range":
        return Range(value, draw.randrange(value, 1 << key.width))
    if key.kind == "optional":
        return Optional(draw.choice((None, value)))
    mask = draw.choice((0, 1, 3, (1 << key.width) - 1)) & ((1 << key.width) - 1)
    return Ternary(value & mask, mask)
