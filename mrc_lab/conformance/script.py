"""Scripts of the conformance kit: text, read into steps.

A script is a scene for one rule, in the manner of packetdrill. Its first lines name the ``rule`` and give a ``title``;
then each line is a step, and ``#`` begins a comment::

    rule R2.8
    title a duplicate is acknowledged again, and not placed again
    repeat 5                              # if chance may hide a broken rule: so often, each time from the start
    planes 2                              # if the NIC must have that many ports
    paths 4                               # if it must have that many entropy values for each
    qp path_mtu=1024                      # attributes of the NIC's queue pair; without this line, its defaults
    < data psn=0 length=1000 a            # the kit sends; a word without a value is a field that is 1
    > sack cack=0 : mark=none as first    # the NIC shall send; before the colon: which one is meant, after it: checks
    no nack for 5ms                       # it has not since the beginning or `forget`, and does not for that time
    post write size=9000                  # the NIC's application posts a write; more: wr=, imm=
    complete wr=1 status=success          # and shall get this completion; `no complete for 5ms` likewise
    memory offset=0 size=1000 fill=0x55   # and sees this in the region that the kit writes to
    < sack cack=-1 shows=later of=later   # the bitmap has the PSN of a named packet, which caused the SACK
    spread data count=64 planes=1 evs=4   # of the next 64 data packets, planes' shares differ by 1 at most
    skipped of=first count=6              # of the 6 data packets and probes that follow it on its plane, those still to
                                          # come do not take its path; they are acknowledged as they come
    taken of=first count=64               # one of the next 64 data packets takes its path; those before it are
                                          # acknowledged as they come, their paths as ALWAYS_SKIP
    wait 5ms
    forget                                # what came so far is no answer to later steps

Values are numbers, names (:data:`NAMES`), ranges (``0..7``), or fields of a packet that a line named: ``first.ev``, and
``first.psn+1``. A step `> ...` waits as long as ``within 50ms`` says, by default a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mrc_common.units import parse_time
from mrc_host.wire import control, opcodes
from mrc_lab.conformance.value_ranges import check_numbers, check_time
from mrc_lab.errors import ExperimentError

NAMES: Final = {
    "first": 0, "middle": opcodes.MIDDLE, "last": opcodes.LAST, "last_imm": opcodes.LAST_IMM, "only": opcodes.ONLY,
    "only_imm": opcodes.ONLY_IMM,
    "none": control.MARK_NONE, "skip_once": control.MARK_SKIP_ONCE, "always_skip": control.MARK_ALWAYS_SKIP,
    "port_status": control.OP_PORT_STATUS_UPDATE, "ev_probe": control.OP_EV_PROBE, "last_hop": 2, "ce": 3,
    **{name: reason for reason, name in control.NACK_NAMES.items()},
}  # fmt: skip
"""Words that stand for numbers. ``trimmed`` is a reason of a NACK, and as a word alone a field that is 1, as it is."""

WITHIN_NS: Final = 1_000_000_000
KINDS: Final = ("data", "sack", "nack", "ack", "probe", "request", "response")
VERBS: Final = (
    "qp", "<", ">", "no", "post", "complete", "memory", "spread", "skipped", "taken", "wait", "forget", "silent",
)  # fmt: skip
_FRAME = {"plane", "path", "ev", "dscp", "ecn", "outer_ecn", "trimmed", "icrc"}
_ANSWER = _FRAME | {"of", "echo", "stamp"}
# What a step may name, by verb and kind, and what it must.
_KNOWN: Final = {
    "< data": _FRAME | {
        "psn", "segment", "length", "size", "offset", "imm", "msn", "rqmsn", "a", "rtx", "timestamped", "stamp", "rkey",
        "pkey", "fill", "opcode", "qpn",
    },
    "< sack": _ANSWER | {
        "cack", "bitmap", "base", "shows", "id", "mark", "probe", "units", "penalty", "restore", "mpr",
    },
    "< nack": _ANSWER | {"reason"},
    "< ack": _FRAME | {"psn", "messages", "syndrome"},
    "< probe": _FRAME | {"id", "stamp"},
    "< request": _FRAME | {"id", "operation", "mask", "stamp"},
    "< response": _FRAME | {"id", "operation", "stamp"},
    "post write": {"wr", "size", "imm"},
    "complete": {"wr", "imm", "received", "status"},
    "no complete": {"wr", "imm", "received", "status"},
    "memory": {"offset", "size", "fill"},
    "spread data": {"count", "planes", "evs"},
    "skipped": {"of", "count"},
    "taken": {"of", "count"},
}  # fmt: skip
_NEEDED: Final = {
    "< data": {"psn"}, "< sack": {"cack"}, "< nack": {"of", "reason"}, "post write": {"size"}, "memory": {"size"},
    "spread data": {"count"}, "skipped": {"of", "count"}, "taken": {"of", "count"},
}  # fmt: skip
_HEAD = ("rule", "title", "repeat", "planes", "paths")
_WORD = re.compile(r"(?P<name>[a-z_]+)(?:(?P<operator>!?=)(?P<value>\S+))?")
_REFERENCE = re.compile(r"(?P<packet>[a-z]\w*)\.(?P<field>[a-z_]+)(?P<more>[+-]\d+)?")
_SHOWN: Final = 60  # characters of what is no number
_RULE = re.compile(r"R\d+\.\d+")


@dataclass(frozen=True, slots=True)
class ScriptValue:
    """A value as written: a number, a range of numbers, a word, or the field of a named packet plus a number."""

    low: int = 0
    high: int = 0
    word: str = ""
    packet: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class ScriptField:
    """``name=value``, or with `equal` False ``name!=value``."""

    name: str
    value: ScriptValue
    equal: bool = True


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """A line of a script. What a verb has no use for is empty; times are in ns."""

    line: int
    text: str
    verb: str
    kind: str = ""
    chosen: tuple[ScriptField, ...] = ()
    checks: tuple[ScriptField, ...] = ()
    called: str = ""
    time: int = WITHIN_NS


@dataclass(frozen=True, slots=True)
class Script:
    """A scene for the rule `rule` of docs/conformance.md, played `times` times to a NIC of `planes` ports or more."""

    name: str
    rule: str
    title: str
    steps: tuple[ScriptStep, ...]
    times: int = 1
    planes: int = 1
    paths: int = 1


def parse_script(text: str, name: str) -> Script:
    """The script in `text`; ExperimentError with its line for what is not understood."""
    head: dict[str, str] = {}
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            if words[0] in _HEAD:
                head[words[0]] = " ".join(words[1:])
            else:
                steps.append(_step(number, words))
        except ValueError as error:
            raise ExperimentError(f"{name}, line {number}: {error}") from None
    if not _RULE.fullmatch(head.get("rule", "")) or not head.get("title"):
        raise ExperimentError(f"{name} names no rule and title", "Begin with 'rule R2.8' and 'title ...'.")
    if not steps:
        raise ExperimentError(f"{name} has no steps")
    for word in _HEAD[2:]:
        if not re.fullmatch(r"[1-9]\d{0,2}", head.get(word, "1")):
            raise ExperimentError(f"{name} has '{word} {head[word]}'", "Give a number from 1 to 999.")
    times, planes, paths = (int(head.get(word, "1")) for word in _HEAD[2:])
    return Script(name, head["rule"], head["title"], tuple(steps), times, planes, paths)


def _step(line: int, words: list[str]) -> ScriptStep:
    text, (verb, *rest) = " ".join(words), words
    if verb not in VERBS:
        raise ValueError(f"there is no step {verb!r}: a line begins with one of {', '.join(VERBS)}")
    time, called = WITHIN_NS, ""
    while len(rest) >= 2 and rest[-2] in ("within", "for", "as"):
        if rest[-2] == "as":
            called = rest[-1]
        else:
            time = parse_time(rest[-1])
            check_time(time)
        rest = rest[:-2]
    if verb == "wait":
        if len(rest) != 1:
            raise ValueError("'wait' takes a time, as in 'wait 5ms'")
        check_time(parse_time(rest[0]))
        return ScriptStep(line, text, verb, time=parse_time(rest[0]))
    kind = ""
    if verb in ("<", ">", "no", "post", "spread"):
        allowed = {"post": ("write",), "spread": ("data",), "no": (*KINDS, "complete")}.get(verb, KINDS)
        if not rest or rest[0] not in allowed:
            raise ValueError(f"'{verb}' is followed by one of {', '.join(allowed)}")
        kind, rest = rest[0], rest[1:]
    at = rest.index(":") if ":" in rest else len(rest)
    chosen, checks = (tuple(map(_field, part)) for part in (rest[:at], rest[at + 1 :]))
    if checks and verb != ">":
        raise ValueError("only '>' has checks behind a colon")
    what, names = f"{verb} {kind}".strip(), {field.name for field in chosen}
    unknown, missing = names - _KNOWN.get(what, names), _NEEDED.get(what, set()) - names
    if unknown:
        raise ValueError(f"'{what}' has no {min(unknown)}; it has {', '.join(sorted(_KNOWN[what]))}")
    if missing:
        raise ValueError(f"'{what}' needs {' and '.join(sorted(missing))}")
    check_numbers(what, {field.name: field.value.low for field in chosen if not field.value.packet})
    check_numbers(what, {field.name: field.value.high for field in chosen if not field.value.packet})
    return ScriptStep(line, text, verb, kind, chosen, checks, called, time)


def _field(word: str) -> ScriptField:
    match = _WORD.fullmatch(word)
    if match is None:
        raise ValueError(f"{word!r} is no field, as in psn=0, ev!=first.ev or a")
    value = ScriptValue(1, 1) if match["value"] is None else _value(match["value"])
    return ScriptField(match["name"], value, match["operator"] != "!=")


def _value(text: str) -> ScriptValue:
    low, dots, high = text.partition("..")
    if dots:
        return ScriptValue(_number(low), _number(high))
    reference = _REFERENCE.fullmatch(text)
    if reference is not None:
        more = int(reference["more"] or 0)
        return ScriptValue(more, more, packet=reference["packet"], field=reference["field"])
    if re.fullmatch(r"[a-z_]+", text):
        number = NAMES.get(text, 0)
        return ScriptValue(number, number, word=text)
    number = _number(text)
    return ScriptValue(number, number)


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        raise ValueError(f"{shown!r} is no number, name, range or field of a packet") from None
