"""Match tables: every kind against a plain search, with entries added, changed and removed at random."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from mrc_common.p4_match import Exact, GroupRef, Lpm, Match, MemberRef, Optional, Range, Ternary
from p4runtime_shim.entities import ActionCall, CounterValue, Entry
from p4runtime_shim.errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.seeds import SEED

P = "MyIngress."
MISS = 0xFFFFFFFF
WIDTHS = {"a": 8, "b": 16, "c": 32, "d": 128}
TABLES = {
    0: ("exact_t", "acd"),
    1: ("lpm_t", "da"),
    2: ("ternary_t", "acd"),
    3: ("range_t", "abcd"),
    4: ("optional_t", "ab"),
}

Key = dict[str, int]


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    with EmbeddedSwitch(programs.pipeline("keys"), ports=range(8), seed=0) as made:
        yield made


def look(switch: EmbeddedSwitch, table: int, key: Key) -> int:
    """What a packet with this key gets as result, -1 when none comes out."""
    frame = bytes([table, key["a"]]) + key["b"].to_bytes(2, "big") + key["c"].to_bytes(4, "big")
    frame += key["d"].to_bytes(16, "big") + bytes(4) + b"payload"
    switch.receive(0, frame, 0)
    for port in switch.ready():
        out = switch.transmit(port, 0)
        assert out is not None
        assert out[:24] == frame[:24]
        assert out[28:] == b"payload"
        return int.from_bytes(out[24:28], "big")
    return -1


def fits(field: Match, key: int, width: int) -> bool:
    """The meaning of a match field."""
    if isinstance(field, Exact):
        return key == field.value
    if isinstance(field, Lpm):
        return (key ^ field.value) >> (width - field.prefix_len) == 0
    if isinstance(field, Ternary):
        return key & field.mask == field.value
    if isinstance(field, Range):
        return field.low <= key <= field.high
    return field.value is None or key == field.value


class Model:
    """A table as a list of entries."""

    def __init__(self, table: int) -> None:
        self.name, self.fields = TABLES[table]
        self.entries: dict[tuple[tuple[Match, ...], int], int] = {}

    def search(self, key: Key) -> int:
        """The result of the best entry."""
        best, rank = MISS, (-1, -1)
        for (match, priority), value in self.entries.items():
            if all(fits(m, key[f], WIDTHS[f]) for m, f in zip(match, self.fields, strict=True)):
                length = max((m.prefix_len for m in match if isinstance(m, Lpm)), default=0)
                order = (priority, 0) if priority else (0, length)
                if order > rank:
                    best, rank = value, order
        return best


def pool(rng: random.Random) -> dict[str, list[int]]:
    """Few values for each field, so that keys and entries meet; the wide ones share prefixes."""
    base = rng.getrandbits(128)
    return {
        "a": [rng.getrandbits(8) for _ in range(6)],
        "b": [rng.getrandbits(16) for _ in range(10)],
        "c": [rng.getrandbits(32) for _ in range(6)] + [0, MISS],
        "d": [base ^ (rng.getrandbits(128) >> rng.randint(0, 127)) for _ in range(14)] + [0],
    }


def random_field(rng: random.Random, kind: str, value: int, width: int) -> Match:
    """A match field of a kind that fits a value."""
    full = (1 << width) - 1
    if kind == "exact":
        return Exact(value)
    if kind == "lpm":
        length = rng.choice([0, width, rng.randint(0, width)])
        return Lpm(value & (full ^ (full >> length)), length)
    if kind == "ternary":
        mask = rng.choice([0, full, rng.getrandbits(width), full ^ (full >> rng.randint(0, width))])
        return Ternary(value & mask, mask)
    if kind == "range":
        return Range(rng.randint(0, value), rng.randint(value, full))
    return Optional(rng.choice([None, value]))


KINDS = {
    0: ("exact", "exact", "exact"),
    1: ("lpm", "exact"),
    2: ("exact", "ternary", "ternary"),
    3: ("optional", "range", "range", "lpm"),
    4: ("optional", "optional"),
}


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("seed", range(2))
def test_random_entries_match_like_a_linear_search(switch: EmbeddedSwitch, table: int, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed * 100 + table)
    model, values = Model(table), pool(rng)
    priorities = iter(rng.sample(range(1, 1 << 31), 4000))
    for step in range(1200):
        action = rng.random()
        if action < 0.55 or not model.entries:
            match = tuple(
                random_field(rng, kind, rng.choice(values[f]), WIDTHS[f])
                for kind, f in zip(KINDS[table], model.fields, strict=True)
            )
            priority = next(priorities) if table > 1 else 0
            if (match, priority) in model.entries:
                continue
            switch.control_plane.table(P + model.name).insert(Entry(match, ActionCall(P + "put", (step,)), priority))
            model.entries[match, priority] = step
        elif action < 0.85:
            match, priority = rng.choice(list(model.entries))
            switch.control_plane.table(P + model.name).delete(match, priority)
            del model.entries[match, priority]
        else:
            match, priority = rng.choice(list(model.entries))
            switch.control_plane.table(P + model.name).modify(Entry(match, ActionCall(P + "put", (step,)), priority))
            model.entries[match, priority] = step
        key = {f: rng.choice(values[f]) for f in WIDTHS}
        assert look(switch, table, key) == model.search(key)
    assert {(e.match, e.priority) for e in switch.control_plane.table(P + model.name).entries()} == set(model.entries)


def test_many_entries_of_each_kind_are_found(switch: EmbeddedSwitch) -> None:
    rng = random.Random(7)
    count = 3000
    for table in (0, 1, 2, 3):
        name, fields = TABLES[table]
        samples: list[tuple[Key, int]] = []
        for number in range(count):
            key = {f: rng.getrandbits(width) for f, width in WIDTHS.items()}
            match = tuple(
                Exact(key[f])
                if kind == "exact"
                else Lpm(key[f] >> 64 << 64, 64)
                if kind == "lpm"
                else Range(key[f], key[f])
                if kind == "range"
                else Optional(key[f])
                if kind == "optional"
                else Ternary(key[f], (1 << WIDTHS[f]) - 1)
                for kind, f in zip(KINDS[table], fields, strict=True)
            )
            priority = number + 1 if table > 1 else 0
            switch.control_plane.table(P + name).insert(Entry(match, ActionCall(P + "put", (number,)), priority))
            samples.append((key, number))
        for key, number in rng.sample(samples, 300):
            assert look(switch, table, key) == number


def test_const_entries_keep_source_order(switch: EmbeddedSwitch) -> None:
    def key(a: int, b: int) -> Key:
        return {"a": a, "b": b, "c": 0, "d": 0}

    assert look(switch, 5, key(0x15, 60)) == 1
    assert look(switch, 5, key(0x15, 150)) == 2
    assert look(switch, 5, key(0x77, 1000)) == 3
    assert look(switch, 5, key(0x20, 1000)) == 3
    assert look(switch, 5, key(0x20, 5)) == 4
    assert look(switch, 5, key(0x21, 5)) == MISS
    entries = switch.control_plane.table(P + "fixed_t").entries()
    assert [entry.priority for entry in entries] == [4, 3, 2, 1]
    with pytest.raises(PermissionDenied):
        switch.control_plane.table(P + "fixed_t").delete(entries[0].match, entries[0].priority)
    with pytest.raises(PermissionDenied):
        switch.control_plane.table(P + "fixed_t").set_default(ActionCall(P + "put", (1,)))


def test_hit_and_action_run_select_the_next_node(switch: EmbeddedSwitch) -> None:
    match = (Exact(1), Exact(2), Exact(3))
    switch.control_plane.table(P + "exact_t").insert(Entry(match, ActionCall(P + "put", (5,))))
    look(switch, 0, {"a": 1, "b": 0, "c": 2, "d": 3})
    look(switch, 0, {"a": 9, "b": 0, "c": 2, "d": 3})
    stats = switch.stats().ports
    assert (stats[2].tx_packets, stats[1].tx_packets) == (1, 1)


def test_the_default_action_can_be_changed_and_reset(switch: EmbeddedSwitch) -> None:
    key = {"a": 0, "b": 0, "c": 0, "d": 0}
    assert switch.control_plane.table(P + "lpm_t").default == ActionCall(P + "miss")
    assert look(switch, 1, key) == MISS
    switch.control_plane.table(P + "lpm_t").set_default(ActionCall(P + "put", (12,)))
    assert look(switch, 1, key) == 12
    switch.control_plane.table(P + "lpm_t").set_default(None)
    assert look(switch, 1, key) == MISS


def test_members_whose_port_is_down_are_skipped(switch: EmbeddedSwitch) -> None:
    def taken() -> set[int]:
        return {look(switch, 6, {"a": 5, "b": 0, "c": number, "d": 0}) for number in range(200)}

    for member in (10, 20, 30):
        switch.control_plane.profile(P + "pick").member_add(member, ActionCall(P + "put", (member,)))
    switch.control_plane.profile(P + "pick").group_add(1, [(10, 1), (20, 2), (30, 1)], {10: 0, 20: 3})
    switch.control_plane.table(P + "member_t").insert(Entry((Exact(5),), GroupRef(1)))
    assert taken() == {10, 20, 30}
    switch.port_changed(3, False, 0)
    assert taken() == {10, 30}
    switch.control_plane.profile(P + "pick").group_add(2, [(10, 1), (20, 2)], {20: 3})  # made while the port is down
    switch.control_plane.table(P + "member_t").modify(Entry((Exact(5),), GroupRef(2)))
    assert taken() == {10}
    switch.port_changed(3, True, 0)
    assert taken() == {10, 20}
    switch.control_plane.table(P + "member_t").modify(Entry((Exact(5),), GroupRef(1)))
    assert taken() == {10, 20, 30}
    switch.control_plane.profile(P + "pick").group_modify(1, [(10, 1), (20, 1)], {10: 3, 20: 3})
    switch.port_changed(3, False, 0)
    assert taken() == {0}  # hit, but nothing to run: as with a group that has no members
    switch.control_plane.profile(P + "pick").group_modify(1, [(10, 1), (20, 1)])
    assert taken() == {10, 20}
    switch.port_changed(3, True, 0)
    assert taken() == {10, 20}
    switch.control_plane.profile(P + "pick").group_delete(2)
    switch.port_changed(3, False, 0)
    with pytest.raises(InvalidArgument, match="no port 77 to watch"):
        switch.control_plane.profile(P + "pick").group_modify(1, [(10, 1)], {10: 77})


def test_the_selector_spreads_by_weight_and_follows_changes(switch: EmbeddedSwitch) -> None:
    rng = random.Random(3)
    for member in (10, 20, 30):
        switch.control_plane.profile(P + "pick").member_add(member, ActionCall(P + "put", (member,)))
    switch.control_plane.profile(P + "pick").group_add(1, [(10, 1), (20, 3)])
    switch.control_plane.table(P + "member_t").insert(Entry((Exact(5),), GroupRef(1)))

    def seen() -> dict[int, int]:
        counts: dict[int, int] = {}
        for _ in range(2000):
            key = {"a": 5, "b": 0, "c": rng.getrandbits(32), "d": rng.getrandbits(128)}
            result = look(switch, 6, key)
            counts[result] = counts.get(result, 0) + 1
        return counts

    counts = seen()
    assert set(counts) == {10, 20}
    assert 2.4 < counts[20] / counts[10] < 3.7
    same = {"a": 5, "b": 0, "c": 1, "d": 2}
    assert len({look(switch, 6, same) for _ in range(5)}) == 1
    switch.control_plane.profile(P + "pick").group_modify(1, [(30, 1)])
    assert set(seen()) == {30}
    switch.control_plane.profile(P + "pick").member_modify(30, ActionCall(P + "put", (33,)))
    assert set(seen()) == {33}
    switch.control_plane.profile(P + "pick").group_modify(1, [])
    assert look(switch, 6, same) == 0  # hit, but nothing to run
    switch.control_plane.table(P + "member_t").modify(Entry((Exact(5),), MemberRef(10)))
    assert look(switch, 6, same) == 10
    switch.control_plane.table(P + "member_t").delete((Exact(5),))
    assert look(switch, 6, same) == 0xEEEEEEEE
    switch.control_plane.profile(P + "pick").group_delete(1)
    for member in (10, 20, 30):
        switch.control_plane.profile(P + "pick").member_delete(member)
    assert switch.control_plane.profile(P + "pick").members() == {}


def test_profile_members_are_added_changed_and_removed(switch: EmbeddedSwitch) -> None:
    switch.control_plane.profile(P + "shared").member_add(1, ActionCall(P + "put", (7,)))
    switch.control_plane.table(P + "profile_t").insert(Entry((Exact(1),), MemberRef(1)))
    assert look(switch, 7, {"a": 1, "b": 0, "c": 0, "d": 0}) == 7
    assert switch.stats().ports[3].tx_packets == 1
    with pytest.raises(InvalidArgument, match="in use"):
        switch.control_plane.profile(P + "shared").member_delete(1)
    with pytest.raises(InvalidArgument, match="no selector"):
        switch.control_plane.profile(P + "shared").group_add(1, [(1, 1)])
    for member in (2, 3, 4):
        switch.control_plane.profile(P + "shared").member_add(member, ActionCall(P + "miss"))
    with pytest.raises(ResourceExhausted):
        switch.control_plane.profile(P + "shared").member_add(5, ActionCall(P + "miss"))


PUT = ActionCall(P + "put", (1,))
BAD_ENTRIES = [
    ("exact_t", Entry((Exact(1), Exact(2)), PUT), "3 key fields"),
    ("exact_t", Entry((Exact(256), Exact(2), Exact(3)), PUT), "does not fit 8 bits"),
    ("exact_t", Entry((Exact(1), Exact(2), Exact(-1)), PUT), "does not fit 128 bits"),
    ("exact_t", Entry((Exact(1), Ternary(2, 2), Exact(3)), PUT), "is exact"),
    ("exact_t", Entry((Exact(1), Exact(2), Exact(3)), PUT, 5), "takes no priority"),
    ("exact_t", Entry((Exact(1), Exact(2), Exact(3)), ActionCall(P + "put")), "takes 1 arguments"),
    ("exact_t", Entry((Exact(1), Exact(2), Exact(3)), ActionCall(P + "put", (1 << 32,))), "does not fit 32 bits"),
    ("exact_t", Entry((Exact(1), Exact(2), Exact(3)), MemberRef(1)), "no action profile"),
    ("exact_t", Entry((Exact(1), Exact(2), Exact(3)), ActionCall("NoAction")), "NoAction"),
    ("lpm_t", Entry((Lpm(1, 64), Exact(0)), PUT), "beyond the prefix"),
    ("lpm_t", Entry((Lpm(0, 129), Exact(0)), PUT), "0..128"),
    ("ternary_t", Entry((Exact(1), Ternary(1, 2), Ternary(0, 0)), PUT, 1), "outside the mask"),
    ("ternary_t", Entry((Exact(1), Ternary(0, 0), Ternary(0, 0)), PUT), "priority above 0"),
    ("range_t", Entry((Optional(None), Range(5, 4), Range(0, 0), Lpm(0, 0)), PUT, 1), "empty"),
    ("member_t", Entry((Exact(1),), PUT), "member or group"),
]


@pytest.mark.parametrize(("table", "entry", "message"), BAD_ENTRIES)
def test_invalid_entries_are_refused(switch: EmbeddedSwitch, table: str, entry: Entry, message: str) -> None:
    with pytest.raises((InvalidArgument, NotFound), match=message):
        switch.control_plane.table(P + table).insert(entry)
    assert switch.control_plane.table(P + table).entries() == []


def test_duplicate_missing_and_excess_entries_are_refused(switch: EmbeddedSwitch) -> None:
    entry = Entry((Exact(1), Exact(2), Exact(3)), PUT)
    switch.control_plane.table(P + "exact_t").insert(entry)
    with pytest.raises(AlreadyExists):
        switch.control_plane.table(P + "exact_t").insert(entry)
    switch.control_plane.table(P + "exact_t").delete(entry.match)
    with pytest.raises(NotFound):
        switch.control_plane.table(P + "exact_t").delete(entry.match)
    with pytest.raises(NotFound):
        switch.control_plane.table(P + "exact_t").modify(entry)
    with pytest.raises(NotFound, match="no table"):
        switch.control_plane.table("nowhere").insert(entry)
    for value in range(64):
        switch.control_plane.profile(P + "pick").member_add(value, PUT)
        switch.control_plane.table(P + "member_t").insert(Entry((Exact(value),), MemberRef(value)))
    with pytest.raises(ResourceExhausted):
        switch.control_plane.table(P + "member_t").insert(Entry((Exact(64),), MemberRef(0)))


def test_optional_keys_are_ternary_in_the_program(switch: EmbeddedSwitch) -> None:
    switch.control_plane.table(P + "optional_t").insert(Entry((Optional(1), Optional(None)), PUT, 3))
    with pytest.raises(AlreadyExists):
        switch.control_plane.table(P + "optional_t").insert(Entry((Ternary(1, 255), Ternary(0, 0)), PUT, 3))
    assert switch.control_plane.table(P + "optional_t").entry((Optional(1), Optional(None)), 3).target == PUT


def test_direct_counters_count_hits_only() -> None:
    with EmbeddedSwitch(programs.pipeline("forward"), ports=range(4), seed=0) as switch:
        match = (Lpm(0x0A000000, 8),)
        forward = ActionCall(P + "forward", (2, 0x020000000002))
        switch.control_plane.table(P + "route").insert(Entry(match, forward))
        frame = bytes(12) + bytes.fromhex("0800") + bytes.fromhex("4500001400000000401166d70a0000010a000002")
        for _ in range(3):
            switch.receive(1, frame + b"x", 0)
        assert switch.control_plane.table(P + "route").counter_read(match) == CounterValue(3, 3 * len(frame + b"x"))
        switch.control_plane.table(P + "route").counter_write(match, 0, CounterValue(1, 1))
        switch.control_plane.table(P + "route").modify(Entry(match, forward))
        assert switch.control_plane.table(P + "route").counter_read(match) == CounterValue(1, 1)
        switch.control_plane.table(P + "route").delete(match)
        switch.control_plane.table(P + "route").insert(Entry(match, forward))
        assert switch.control_plane.table(P + "route").counter_read(match) == CounterValue(0, 0)


def _upper(rng: random.Random) -> int:
    return (1 << 128) - (1 << rng.choice((0, 64, 96)))


def _lower(rng: random.Random) -> int:
    return (1 << rng.choice((32, 64, 80))) - 1


_MASKS = {
    "upper and lower bits": lambda rng, number: (_upper, _lower)[number % 2](rng),
    "first upper, then lower bits": lambda rng, number: (_upper, _lower)[number > 400](rng),
    "anything now and then": lambda rng, number: 0 if number % 3 == 0 else _upper(rng),
    "random bits": lambda rng, number: rng.getrandbits(128),
    "few bits": lambda rng, number: sum(1 << bit for bit in rng.sample(range(128), 6)),
}


@pytest.mark.parametrize("masks", _MASKS)
def test_arbitrary_masks_match_correctly(switch: EmbeddedSwitch, masks: str) -> None:
    """Entries that would be copied all over a decision tree are found too, also after most are gone."""
    seed = SEED
    print(f"seed {seed}")
    rng = random.Random(seed)
    model = Model(2)
    for number, priority in enumerate(rng.sample(range(1, 1 << 31), 900)):
        mask = _MASKS[masks](rng, number)
        match = (Exact(3), Ternary(0, 0), Ternary(rng.getrandbits(128) & mask, mask))
        switch.control_plane.table(P + "ternary_t").insert(Entry(match, ActionCall(P + "put", (number,)), priority))
        model.entries[match, priority] = number

    def check(times: int) -> None:
        for match, _ in rng.choices(list(model.entries), k=times):
            field = match[2]
            assert isinstance(field, Ternary)
            key = {"a": 3, "b": 0, "c": 0, "d": field.value | rng.getrandbits(128) & ~field.mask}
            assert look(switch, 2, key) == model.search(key)

    check(60)
    for match, priority in list(model.entries)[::-1][:870]:
        switch.control_plane.table(P + "ternary_t").delete(match, priority)
        del model.entries[match, priority]
    check(30)


def test_entries_match_while_the_best_of_each_tree_are_removed(switch: EmbeddedSwitch) -> None:
    print(f"seed {SEED}")
    rng, model = random.Random(SEED), Model(2)
    base = rng.getrandbits(128)
    for priority in range(1, 401):  # wildcards in either half, so that there are two trees, and keys that match in both
        mask = _upper(rng) if priority % 2 else _lower(rng)
        match = (Exact(3), Ternary(0, 0), Ternary((base ^ 1 << rng.randrange(128)) & mask, mask))
        switch.control_plane.table(P + "ternary_t").insert(Entry(match, ActionCall(P + "put", (priority,)), priority))
        model.entries[match, priority] = priority
    for match, priority in list(model.entries)[::-1]:
        switch.control_plane.table(P + "ternary_t").delete(match, priority)
        del model.entries[match, priority]
        key = {"a": 3, "b": 0, "c": 0, "d": base ^ 1 << rng.randrange(128)}
        assert look(switch, 2, key) == model.search(key)


def test_packets_match_while_trees_are_rebuilt(switch: EmbeddedSwitch) -> None:
    """One thread writes entries, with masks that make building long, while this one looks others up."""
    rng = random.Random(4)
    first = (Exact(3), Ternary(1, 1), Ternary(0, 0))
    switch.control_plane.table(P + "ternary_t").insert(Entry(first, ActionCall(P + "put", (7,)), 1 << 30))

    def write() -> None:
        for number in range(1500):
            mask = rng.getrandbits(128)
            match = (Exact(3), Ternary(0, 0), Ternary(rng.getrandbits(128) & mask, mask))
            switch.control_plane.table(P + "ternary_t").insert(Entry(match, ActionCall(P + "put", (8,)), number + 1))
            if number % 7 == 0:
                switch.control_plane.table(P + "ternary_t").delete(match, number + 1)

    writer = threading.Thread(target=write)
    writer.start()
    looked = 0
    while writer.is_alive() or not looked:
        assert look(switch, 2, {"a": 3, "b": 0, "c": 1, "d": looked}) == 7
        looked += 1
    writer.join()
    assert len(switch.control_plane.table(P + "ternary_t").entries()) == 1 + 1500 - 215


def test_among_equal_priorities_the_oldest_entry_wins(switch: EmbeddedSwitch) -> None:
    for number in range(200):  # enough that trees are rebuilt meanwhile
        match = (Exact(3), Ternary(0, number % 2), Ternary(0, number >> 1))
        switch.control_plane.table(P + "ternary_t").insert(Entry(match, ActionCall(P + "put", (number,)), 7))
        assert look(switch, 2, {"a": 3, "b": 0, "c": 0, "d": 0}) == 0
