"""Parser value sets on the engine: which packets match, compared with a plain model, and how members are replaced."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mrc_common.p4_match import Exact, Lpm, Match, Optional, Range, Ternary
from p4runtime_shim.errors import (
    AlreadyExists,
    InvalidArgument,
    InvalidProgram,
    NotFound,
    ResourceExhausted,
    Unsupported,
)
from p4runtime_shim.program import load_program
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import value_set_program
from tests.p4runtime_shim.builder import Builder, extract, field
from tests.p4runtime_shim.value_set_program import FIRST, MEMBER, NONE, TYPED, WIDTHS, frame

KINDS, TYPES = "P.kinds", "P.types"


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    with EmbeddedSwitch(value_set_program.pipeline(), ports=range(5), seed=0) as made:
        yield made


def port(switch: EmbeddedSwitch, packet: bytes) -> int:
    """Where the packet came out, unchanged."""
    switch.receive(0, packet, 0)
    (out,) = switch.ready()
    assert switch.transmit(out, 0) == packet
    return out


def covers(match: Match, value: int, width: int) -> bool:
    """Whether a value is matched, by the definitions of P4Runtime."""
    if isinstance(match, Exact):
        return value == match.value
    if isinstance(match, Lpm):
        return value >> (width - match.prefix_len) == match.value >> (width - match.prefix_len)
    if isinstance(match, Ternary):
        return value & match.mask == match.value
    if isinstance(match, Optional):
        return match.value is None or value == match.value
    return match.low <= value <= match.high


def random_member(rng: random.Random) -> tuple[Match, ...]:
    """A member of the set of all kinds; few values, so that packets match some of them."""
    low, high = sorted(near(rng, 65) for _ in range(2))
    mask, length = rng.choice([0, 0x800, 0xF0F, 0xFFF, rng.getrandbits(12)]), rng.choice([0, 1, 6, 64, 69, 70])
    prefix = near(rng, 70) >> (70 - length) << (70 - length)
    return (
        Exact(near(rng, 8)),
        Ternary(near(rng, 12) & mask, mask),
        Lpm(prefix, length),
        Range(low, high),
        Optional(rng.choice([None, near(rng, 5)])),
    )


def near(rng: random.Random, width: int) -> int:
    """A number at one of the ends of its range."""
    return (rng.choice([0, 1 << (width - 1)]) + rng.choice([-1, 0, 1])) % (1 << width)


@pytest.mark.parametrize("seed", range(4))
def test_packets_match_the_members_that_a_model_says(switch: EmbeddedSwitch, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    seen = set()
    for _ in range(6):
        members = list(dict.fromkeys(random_member(rng) for _ in range(rng.choice([0, 1, 3, 20, 60]))))
        switch.control_plane.value_set(KINDS).set_members(members)
        assert switch.control_plane.value_set(KINDS).members() == tuple(members)
        for _ in range(60):
            values = tuple(near(rng, width) for width in WIDTHS)
            matched = any(all(map(covers, member, values, WIDTHS)) for member in members)
            assert port(switch, frame(values)) == (MEMBER if matched else NONE)
            seen.add(matched)
    assert seen == {True, False}


def test_a_set_is_empty_at_first_and_can_be_emptied_again(switch: EmbeddedSwitch) -> None:
    types = switch.control_plane.value_set(TYPES)
    packet = frame((1, 0, 0, 0, 0), number=0x1234)
    assert port(switch, packet) == NONE
    types.set_members([(Exact(0x1234),), (Exact(0x5678),)])
    assert port(switch, packet) == TYPED
    types.set_members([(Exact(0x5678),)])
    assert port(switch, packet) == NONE
    types.set_members([])
    assert types.members() == ()


def test_cases_before_the_set_come_first(switch: EmbeddedSwitch) -> None:
    anything = (Ternary(0, 0), Lpm(0, 0), Range(0, (1 << 65) - 1), Optional(None))
    switch.control_plane.value_set(KINDS).set_members([(Exact(7), *anything), (Exact(8), *anything)])
    assert port(switch, frame((7, 1, 1, 1, 1))) == FIRST
    assert port(switch, frame((8, 1, 1, 1, 1))) == MEMBER


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ([(Exact(1),), (Exact(1),)], AlreadyExists),
        ([(Exact(number),) for number in range(5)], ResourceExhausted),
        ([(Exact(1 << 16),)], InvalidArgument),
        ([(Lpm(1, 3),)], InvalidArgument),
        ([(Ternary(3, 1),)], InvalidArgument),
        ([(Range(3, 1),)], InvalidArgument),
        ([()], InvalidArgument),
        ([(Exact(1), Exact(2))], InvalidArgument),
    ],
)
def test_members_that_do_not_fit_change_nothing(
    switch: EmbeddedSwitch, members: list[tuple[Match, ...]], error: type[Exception]
) -> None:
    types = switch.control_plane.value_set(TYPES)
    types.set_members([(Exact(9),)])
    with pytest.raises(error):
        types.set_members(members)
    assert types.members() == ((Exact(9),),)
    assert port(switch, frame((1, 0, 0, 0, 0), number=9)) == TYPED


def test_members_count_among_the_entries_of_the_switch(switch: EmbeddedSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p4runtime_shim.limits.MAX_ENTRIES", 3)
    types, kinds = switch.control_plane.value_set(TYPES), switch.control_plane.value_set(KINDS)
    types.set_members([(Exact(1),), (Exact(2),)])
    member = random_member(random.Random(0))
    kinds.set_members([member])
    with pytest.raises(ResourceExhausted, match="3 entries in total"):
        types.set_members([(Exact(1),), (Exact(2),), (Exact(3),)])
    kinds.set_members([])
    types.set_members([(Exact(1),), (Exact(2),), (Exact(3),)])


def test_unknown_sets_are_not_found(switch: EmbeddedSwitch) -> None:
    with pytest.raises(NotFound, match=r"value set 'P\.other'"):
        switch.control_plane.value_set("P.other")


def selecting(*sets: str, widths: tuple[int, ...] = (8, 8), bits: int = 16, mask: str | None = None) -> str:
    """A program whose first state selects on these sets; "set" is the one it declares."""
    builder = Builder()
    builder.header_type("h_t", [(f"f{number}", width) for number, width in enumerate(widths)])
    builder.header("h", "h_t")
    builder.data["parse_vsets"].append({"name": "set", "id": 0, "compressed_bitwidth": bits})
    for number, following in enumerate((*sets, None)):
        key = [field("h", f"f{item}") for item in range(len(widths))][number:]
        ops = [extract("h")] if number == 0 else []
        builder.state(f"s{number}", ops, key=key, default=f"s{number + 1}" if following else None)
        if following:
            transition = {"type": "parse_vset", "value": following, "mask": mask, "next_state": None}
            builder.data["parsers"][0]["parse_states"][-1]["transitions"].insert(0, transition)
    return builder.text()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (selecting("other"), InvalidProgram, "parser value set 'other'"),
        (selecting("set", bits=15), InvalidProgram, "key of 16 bits for a parser value set of 15 bits"),
        (selecting("set", "set"), InvalidProgram, "key of 8 bits"),
        (selecting("set", mask="0xff00"), Unsupported, "parser value set with a mask"),
    ],
)
def test_programs_with_other_sets_are_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_program(text)


def test_a_set_that_no_state_selects_on_keeps_its_members() -> None:
    program = load_program(selecting())
    assert [(item.name, item.widths, item.size) for item in program.parser.value_sets] == [("set", None, None)]
