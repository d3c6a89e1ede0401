"""STF tests, p4c's: entries and packets for a program, and the packets that have to come out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from mrc_common.p4_match import Exact, Lpm, Range, Ternary
from p4runtime_shim.entities import ActionCall, CloneSession, Entry, Replica
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program.model.control_flow import Key, Table
from p4runtime_shim.switch import EmbeddedSwitch

PORTS = tuple(range(511))
STEP_NS = 1_000_000
ROUNDS = 50  # of a packet that is sent around

Match = Exact | Lpm | Range | Ternary


class Unsupported(Exception):  # noqa: N818
    """A line that this runner does not know."""


class Mismatch(Exception):  # noqa: N818
    """A packet that should have come out did not, or another did."""


def run(text: str, pipeline: Pipeline) -> None:
    """Run a test; raises Mismatch, or Unsupported."""
    with EmbeddedSwitch(pipeline, ports=PORTS, seed=1) as switch:
        _Runner(switch, pipeline).run(text)


class _Runner:
    def __init__(self, switch: EmbeddedSwitch, pipeline: Pipeline) -> None:
        self.switch = switch
        self.program = pipeline.program
        self.control = switch.control_plane
        self.now = 0
        self.expected: dict[int, list[str]] = defaultdict(list)
        self.any_on: set[int] = set()
        self.got: dict[int, list[str]] = defaultdict(list)
        self.nodes: list[tuple[int, list[int]]] = []
        self.groups: dict[int, list[Replica]] = defaultdict(list)

    def run(self, text: str) -> None:
        for raw in text.splitlines():
            line = raw.split("#")[0].strip()
            if line:
                command, _, rest = line.partition(" ")
                handler = _COMMANDS.get(command.lower())
                if handler is None:
                    raise Unsupported(line)
                handler(self, rest.strip())
        self._compare()

    # --- packets ---

    def packet(self, rest: str) -> None:
        port, _, data = rest.partition(" ")
        self.now += STEP_NS
        self.switch.receive(int(port), bytes.fromhex(re.sub(r"\s", "", data)), self.now)
        for _ in range(ROUNDS):
            ready = self.switch.ready()
            if not ready:
                return
            for port_number in ready:
                while (frame := self.switch.transmit(port_number, self.now)) is not None:
                    self.got[port_number].append(frame.hex())

    def expect(self, rest: str) -> None:
        port, _, data = rest.partition(" ")
        pattern = re.sub(r"\s", "", data).lower()
        if pattern:
            self.expected[int(port)].append(pattern)
        else:
            self.any_on.add(int(port))

    def _compare(self) -> None:
        for port in sorted({*self.expected, *self.got}):
            wanted, have = self.expected[port], self.got[port]
            if port in self.any_on and not wanted:
                continue
            if len(wanted) != len(have) or not all(map(_fits, have, wanted)):
                raise Mismatch(f"port {port}: {have} instead of {wanted}")

    # --- tables ---

    def add(self, rest: str) -> None:
        table, action, words = self._entry(rest)
        priority = 1
        if words and re.fullmatch(r"\d+", words[0]):
            priority = int(words.pop(0))
        given: dict[str, str] = {}
        for word in words:
            name, _, value = word.partition(":")
            given[_find([key.name for key in table.keys], name.removeprefix("key."))] = value
        matches = tuple(_match(key, given.get(key.name)) for key in table.keys)
        ordered = any(key.kind in ("ternary", "range", "optional") for key in table.keys)
        self.control.table(table.name).insert(Entry(matches, action, priority + 1 if ordered else 0))

    def set_default(self, rest: str) -> None:
        table, action, _ = self._entry(rest)
        self.control.table(table.name).set_default(action)

    def _entry(self, rest: str) -> tuple[Table, ActionCall, list[str]]:
        name, _, rest = rest.partition(" ")
        tables = {table.name: table for table in self.program.tables}
        table = tables[_find(list(tables), name)]
        match = re.match(r"(.*?)([\w.$]+)\s*\((.*?)\)\s*(=.*)?$", rest.strip())
        if match is None:
            raise Unsupported(rest)
        actions = {self.program.actions[number].name: self.program.actions[number] for number in table.actions}
        action = actions[_find(list(actions), match[2])]
        named: dict[str, int] = {}
        plain: list[int] = []
        for part in filter(None, (item.strip() for item in match[3].split(","))):
            parameter, colon, value = part.rpartition(":")
            plain.append(_number(value))
            if colon:
                named[parameter] = plain[-1]
        values = tuple(named.get(item.name, plain[place]) for place, item in enumerate(action.params))
        return table, ActionCall(action.name, values), match[1].split()

    # --- replication ---

    def create_group(self, rest: str) -> None:
        self.groups[int(rest)] = []

    def create_node(self, rest: str) -> None:
        rid, *ports = map(int, rest.split())
        self.nodes.append((rid, ports))

    def associate(self, rest: str) -> None:
        group, handle = map(int, rest.split())
        rid, ports = self.nodes[handle]
        self.groups[group] += [Replica(port, rid) for port in ports]
        self.control.replication.group_set(group, tuple(self.groups[group]))

    def add_mirror(self, rest: str) -> None:
        session, port = map(int, rest.split())
        self.control.replication.session_set(session, CloneSession((Replica(port, 0),)))

    def add_mirror_group(self, rest: str) -> None:
        session, group = map(int, rest.split())
        self.control.replication.session_set(session, CloneSession(tuple(self.groups[group])))

    def nothing(self, rest: str) -> None:
        """Waiting and looking change nothing."""


_COMMANDS: dict[str, Callable[[_Runner, str], None]] = {
    "packet": _Runner.packet,
    "expect": _Runner.expect,
    "add": _Runner.add,
    "setdefault": _Runner.set_default,
    "mc_mgrp_create": _Runner.create_group,
    "mc_node_create": _Runner.create_node,
    "mc_node_associate": _Runner.associate,
    "mirroring_add": _Runner.add_mirror,
    "mirroring_add_mc": _Runner.add_mirror_group,
    "mirroring_get": _Runner.nothing,
    "wait": _Runner.nothing,
    "no_packet": _Runner.nothing,
}


def _fits(frame: str, pattern: str) -> bool:
    exact = pattern.endswith("$")
    pattern = pattern.rstrip("$")
    if len(frame) < len(pattern) or (exact and len(frame) != len(pattern)):
        return False
    return all(want in ("*", have) for have, want in zip(frame, pattern, strict=False))


def _find(names: list[str], wanted: str) -> str:
    """The name that is meant: p4c's tests leave out what is before or after, or have other dots."""
    for fits in (
        lambda name: name == wanted,
        lambda name: name.endswith(f".{wanted}"),
        lambda name: name.replace(".", "_") == wanted,
        lambda name: name.rpartition(".")[2] == wanted.rpartition(".")[2],
        lambda name: wanted.endswith(name),
    ):
        found = [name for name in names if fits(name)]
        if found:
            return found[0]
    raise Mismatch(f"no {wanted!r} among {names}")


def _number(text: str) -> int:
    text = text.strip()
    if not re.fullmatch(r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|\d+", text):
        raise Unsupported(f"number {text!r}")
    return int(text, 10) if re.fullmatch(r"0\d+", text) else int(text, 0)


def _wildcards(text: str) -> tuple[int, int]:
    """A value and its mask; stars are digits that do not matter."""
    base, bits = (16, 4) if text[:2].lower() == "0x" else (2, 1)
    value = mask = 0
    for digit in text[2:]:
        value, mask = value << bits, mask << bits
        if digit != "*":
            value, mask = value | int(digit, base), mask | ((1 << bits) - 1)
    return value, mask


def _match(key: Key, text: str | None) -> Match:
    full = (1 << key.width) - 1
    if key.kind == "exact":
        if text is None:
            raise Unsupported(f"no value for {key.name}")
        return Exact(_number(text))
    if key.kind == "range":
        low, _, high = (text or f"0->{full}").replace("..", "->").partition("->")
        return Range(_number(low), _number(high or low))
    if text is None:
        return Lpm(0, 0) if key.kind == "lpm" else Ternary(0, 0)
    if key.kind == "lpm":
        if "/" in text:
            value, length = text.split("/")
            bits = int(length)
            return Lpm(_number(value) & (full >> (key.width - bits) << (key.width - bits) if bits else 0), bits)
        if "*" in text:
            number, mask = _wildcards(text)
            return Lpm(number, bin(mask).count("1"))
        return Lpm(_number(text), key.width)
    if "&&&" in text:
        left, right = text.split("&&&")
        return Ternary(_number(left) & _number(right), _number(right))
    if "*" in text:
        number, mask = _wildcards(text)
        return Ternary(number & full, mask & full)
    return Ternary(_number(text), full)
