"""Values with parts: sections of a dataclass, mappings, plain dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from mrc_common.declared.field_types import Integer, Text, a_rate
from mrc_common.declared.sections import (
    Instance,
    MappingOf,
    Section,
    SetOf,
    TableOf,
    key,
    keys_of,
    like,
    plain_fields,
)
from tests.mrc_common.declared.parsed import DocumentError, parse


@dataclass(frozen=True, slots=True)
class Port:
    """A port."""

    number: int = key(Integer(1, 8), "which it is")
    rate_bps: int = key(a_rate(), "how fast it is", name="rate", default=100)
    line: int = 0

    def __post_init__(self) -> None:
        if self.rate_bps == self.number:
            raise ValueError("is as fast as its number")


@dataclass(frozen=True, slots=True)
class FastPort(Port):
    rate_bps: int = like(Port, "rate_bps", default=10**9)


@dataclass(frozen=True, slots=True)
class Plain:
    needed: int
    words: str = "none"
    ports: frozenset[int] = field(default_factory=frozenset)


def test_a_section_becomes_an_instance_that_knows_its_line() -> None:
    assert Section(Port).read(parse("\nnumber: 3\nrate: 1k\n")) == Port(3, 1_000, line=2)
    assert Section(FastPort).read(parse("number: 3")) == FastPort(3, 10**9, line=1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("number: 3\nrat: 5", "line 2: rat: unknown key; did you mean rate?"),
        ("rate: 5", "line 1: number is missing: which it is"),
        ("number: 3\nrate_bps: 5", "rate_bps: unknown key"),
        ("number: 9", "line 1: number: is 9, but must be 1 to 8"),
        ("number: 3\nrate: 3", "line 1: is as fast as its number"),
        ("[1]", "must be a mapping"),
    ],
)
def test_a_section_refuses_what_it_does_not_declare(text: str, problem: str) -> None:
    with pytest.raises(DocumentError, match=problem):
        Section(Port).read(parse(text))


def test_a_file_may_have_to_say_more_than_a_program() -> None:
    with pytest.raises(DocumentError, match="rate is missing: how fast it is"):
        Section(Port, needed=("rate",)).read(parse("number: 3"))
    assert Section(Port, needed=("rate",)).schema()["required"] == ["number", "rate"]


def test_a_key_reads_and_checks_words_with_its_name() -> None:
    known = keys_of(Port)
    assert list(known) == ["number", "rate"]
    assert known["rate"].parse("2k") == 2_000
    with pytest.raises(ValueError, match=r"^number is 9, but must be 1 to 8"):
        known["number"].check(9)


def test_mappings_have_keys_of_a_type() -> None:
    document = parse("1: a\n2: b")
    assert MappingOf(Text()).read(document) == (("1", "a"), ("2", "b"))
    assert TableOf(Text(), Integer(0, 9)).read(document) == {1: "a", 2: "b"}
    with pytest.raises(DocumentError, match="line 1: x: must be a whole number, not 'x'"):
        TableOf(Text(), Integer(0, 9)).read(parse("x: a"))


def test_a_plain_dataclass_is_made_of_what_is_given() -> None:
    types = plain_fields(Plain, {"ports": SetOf(Integer(1, 8), 1)})
    assert Instance(Plain, types).read(parse("{needed: 1, ports: [2, 1, 2]}")) == Plain(1, "none", frozenset({1, 2}))
    for text, problem in (("{words: x}", "needed is missing"), ("{needed: 1, ports: []}", "needs at least 1")):
        with pytest.raises(DocumentError, match=problem):
            Instance(Plain, types).read(parse(text))
