"""Several entropy values to a path: which there are, that they are skipped one by one, and fail together."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mrc_host.config import UsidTemplate
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.paths import PathListener, PathSet
from mrc_host.transport.profiles import resolve
from mrc_host.verbs_types import EvMode, EvProfile, PathReason, PathState
from tests.mrc_host.transport.test_profiles import FakePaths

PLANES = 2


class Silent(PathListener):
    def path_changed(
        self, index: int, old: int, new: int, reason: PathReason, first_loss: int | None, now: int
    ) -> None:
        pass


def make(uplinks: int, per_path: int, seed: int = 1, **settings) -> PathSet:  # type: ignore[no-untyped-def]
    plane_of = bytes(plane for plane in range(PLANES) for _ in range(uplinks))
    given = {"active_paths": None, "backup_share": 8, "ev_min_active": 1, **settings}
    return PathSet(plane_of, rng=random.Random(seed), listener=Silent(), per_path=per_path, **given)


def sent(paths: PathSet, packets: int, plane: int = 0) -> Counter[int]:
    """Values of the next packets on a plane."""
    return Counter(paths.next(plane, -1) for _ in range(packets))


def by_path(paths: PathSet, values: Counter[int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for value, count in values.items():
        found[paths.path(value)] += count
    return found


@pytest.mark.parametrize(("paths", "bits", "per_path"), [(4, 8, 64), (3, 8, 85), (100, 3, 2), (300, 1, 1), (4, 2, 4)])
def test_there_are_as_many_as_wanted_where_spare_bits_suffice(paths: int, bits: int, per_path: int) -> None:
    firsts = list(range(paths))
    values = EntropyValues(firsts, {ev: ev for ev in firsts}, UsidTemplate(0, (), None, ev_uplink_bits=10 - bits), 256)
    assert values.per_path == per_path
    assert len(values) == paths * per_path
    evs = [values[index] for index in range(len(values))]
    assert len(set(evs)) == len(evs)
    assert [values.index(ev) for ev in evs] == list(range(len(values)))
    assert [values.path(ev) for ev in evs] == [index % paths for index in range(len(values))]
    assert values.index(1 << 20) == values.path(1 << 20) == -1


def test_a_number_that_no_value_has_is_unknown_though_it_leads_to_the_path() -> None:
    values = EntropyValues([0, 1, 2], {0: 0, 1: 1, 2: 2}, UsidTemplate(0, (), None, ev_uplink_bits=2), 256)
    beyond = values.per_path << 2 | 1
    assert values.index(beyond) == -1
    assert values.path(beyond) == 1


@pytest.mark.parametrize("per_path", [2, 4, 7, 8, 32])
def test_all_paths_carry_the_same_whatever_backups_hold_back(per_path: int) -> None:
    paths = make(8, per_path)
    load = by_path(paths, sent(paths, 8 * 7 * per_path * 20))
    assert len(load) == 8
    assert max(load.values()) <= 1.02 * min(load.values())


@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 10), st.booleans(), st.data())
def test_a_set_begins_with_the_ring_that_its_values_give(
    uplinks: int, per_path: int, share: int, oblivious: bool, data: st.DataObject
) -> None:
    """Counted here value by value: as many on each plane as the plane with fewest has without its backups."""
    count = PLANES * uplinks
    every = list(range(count * per_path))
    universe = data.draw(st.none() | st.lists(st.sampled_from(every), min_size=1, unique=True))
    values = every if universe is None else universe
    paths = make(uplinks, per_path, universe=universe, backup_share=share, oblivious=oblivious)
    active = []
    for plane in range(PLANES):
        own = Counter(value % count for value in values if value % count // uplinks == plane)
        if own:
            spare = sum(own.values()) // share if per_path == 1 else sum(n // share for n in own.values())
            active.append(own.total() - (0 if oblivious else spare))
    for plane in range(PLANES):
        own = {value for value in values if value % count // uplinks == plane}
        turns = [paths.next(plane, -1) for _ in range(min(active) if own else 0)]
        assert len(set(turns)) == len(turns)
        assert set(turns) <= own
        assert list(paths.active(plane)) == list(dict.fromkeys(paths.path(value) for value in turns))


def test_a_mark_skips_one_value_and_not_its_path() -> None:
    paths = make(2, 64)
    value = paths.next(0, -1)
    index = paths.path(value)
    paths.skip(value)
    assert paths.skipped(index) == 1
    assert paths.state(index) is PathState.GOOD
    rotation = sent(paths, 111)  # all the active others, once
    assert value not in rotation
    assert 50 <= by_path(paths, rotation)[index] <= 60
    for other in range(index, 64 * 4, 4):
        paths.skip(other)
    assert paths.state(index) is PathState.SKIP


def test_a_path_half_of_whose_packets_are_marked_carries_a_third_less_than_the_other() -> None:
    """It loses a turn for each mark: of 2 links one carries 2/5 of the packets, not nothing, as with one value each."""
    paths, rng = make(2, 64), random.Random(3)
    load: Counter[int] = Counter()
    for _ in range(10_000):
        value = paths.next(0, -1)
        load[paths.path(value)] += 1
        if paths.path(value) == 0 and rng.random() < 0.5:
            paths.skip(value)
    assert 0.36 < load[0] / 10_000 < 0.44, load


def test_a_loss_retires_all_values_of_a_path_and_its_return_restores_its_share() -> None:
    paths = make(4, 64)
    full = by_path(paths, sent(paths, 224))
    assert set(full.values()) == {56}
    assert paths.retire(1, PathReason.LOSS, 1000, 2000)
    assert by_path(paths, sent(paths, 192))[1] == 0
    assert paths.restore(1, PathReason.PROBE, 3000)
    paths.trial.clear()
    sent(paths, 224)
    load = by_path(paths, sent(paths, 2240))
    assert max(load.values()) <= 1.05 * min(load.values()), load


def test_a_profile_takes_a_second_value_of_a_path_only_when_all_have_one() -> None:
    paths = FakePaths(tuple(p << 10 | u for p in range(PLANES) for u in range(4)), spare=3)
    for size, most in ((2, 1), (8, 1), (16, 2), (64, 8)):
        universe = resolve(EvProfile(EvMode.AUTO, size=size), paths, random.Random(size))
        assert len(universe) == size
        assert max(Counter(value % 8 for value in universe).values()) == most
    some = resolve(EvProfile(EvMode.EXPLICIT, evs=(5 << 7 | 1, 1 << 10 | 2)), paths, random.Random(1))
    assert [paths.values[value] for value in some] == [5 << 7 | 1, 1 << 10 | 2]


@example(uplinks=3, per_path=2, floor=1, seed=15655, active=4, profile=False)  # exchanged for the other's second value
@given(
    uplinks=st.integers(1, 6), per_path=st.integers(1, 20), floor=st.integers(1, 8), seed=st.integers(0, 1 << 16),
    active=st.one_of(st.none(), st.integers(1, 60)), profile=st.booleans(),
)  # fmt: skip
def test_values_are_in_one_place_each_and_planes_and_shares_stay_equal(
    uplinks: int, per_path: int, floor: int, seed: int, active: int | None, profile: bool
) -> None:
    """Random transitions; then all is restored, and each path has its share again."""
    rng = random.Random(seed)
    count = PLANES * uplinks
    universe = sorted(rng.sample(range(count * per_path), rng.randint(1, count * per_path))) if profile else None
    if universe is not None:
        planes = [[v for v in universe if v % count // uplinks == p] for p in range(PLANES)]
        universe = [v for plane in planes for v in plane]
    paths = make(uplinks, per_path, seed, ev_min_active=floor, active_paths=active, universe=universe)
    everything = sorted(range(count * per_path) if universe is None else universe)
    known = paths.universe()

    def check() -> None:
        held = [v for places in (*paths._rings.active, *paths._rings.backups) for v in places]
        assert sorted(held) == everything
        inside = Counter(v % count for ring in paths._rings.active for v in ring)
        assert [inside[index] for index in range(count)] == list(paths._rings.held)
        for plane, ring in enumerate(paths._rings.active):
            assert sorted({v % count for v in ring}) == sorted(paths.active(plane))
            usable = [v for v in (*ring, *paths._rings.backups[plane]) if not paths.bad(v % count)]
            assert (paths.good_planes >> plane & 1) == bool(usable)
            assert len(ring) <= max(paths._rings._target, 1)

    for now in range(1, 60):
        index, plane = rng.choice(known), rng.randrange(PLANES)
        action = rng.randrange(7)
        if action == 0:
            paths.retire(index, PathReason.LOSS, None, now, rng.random() < 0.5)
        elif action == 1:
            paths.restore(index, PathReason.PROBE, now)
        elif action == 2:
            paths.deny(index, rng.random() < 0.5, now)
        elif action == 3:
            paths.skip(rng.choice(everything))
        elif action == 4:
            paths.trial.clear()
        elif paths.planes >> plane & 1:
            avoid = rng.choice((-1, index))
            value = paths.next(plane, avoid)
            assert value < 0 or (value in everything and paths.path(value) // uplinks == plane)
            assert value < 0 or not paths.denied(paths.path(value))
            if value >= 0 and rng.random() < 0.3:
                paths.exchange(value)
        check()
    for index in known:
        paths.deny(index, False, 100)
        paths.restore(index, PathReason.PROBE, 100)
    check()
    if universe is None and per_path > 1:
        for plane in range(PLANES):
            shares = [paths._rings.held[index] for index in range(plane * uplinks, (plane + 1) * uplinks)]
            assert max(shares) - min(shares) <= 1, shares


def test_lossy_paths_rest_until_more_do_than_one_in_eight() -> None:
    paths = make(16, 4)
    lossy = list(paths.active(0)[:3])
    for now, index in enumerate(lossy):
        paths.retire(index, PathReason.LOSS, None, 10 * now)
    for index in lossy[:2]:
        assert paths.restore(index, PathReason.PROBE, 100, True)
        assert index not in paths.active(0)
        assert paths.state(index) is PathState.GOOD
    assert len(paths.active(0)) == 13
    paths.restore(lossy[2], PathReason.PROBE, 110, True)
    assert lossy[0] in paths.active(0), "it has rested longest"
    assert not {*lossy[1:]} & {*paths.active(0)}
    for index in paths.active(1)[:3]:
        paths.retire(index, PathReason.LOSS, None, 120)
        paths.restore(index, PathReason.PROBE, 130)
    assert len(paths.active(1)) == 16, "what was dead, and works again, is used at once"


def test_a_resting_path_replaces_one_that_fails() -> None:
    paths = make(16, 4)
    resting, victim = paths.active(0)[:2]
    paths.retire(resting, PathReason.LOSS, None, 1)
    paths.restore(resting, PathReason.PROBE, 2, True)
    paths.retire(victim, PathReason.LOSS, None, 3)
    assert resting in paths.active(0)
    turns = by_path(paths, sent(paths, 15 * 4 * 4))
    assert turns[resting] > 0
    paths.restore(victim, PathReason.PROBE, 4)
    assert len(paths.active(0)) == 16


def test_a_path_that_is_needed_does_not_rest() -> None:
    paths = make(16, 4)
    for index in list(paths.active(0)):
        paths.retire(index, PathReason.LOSS, None, 1)
    for index in range(16):
        paths.restore(index, PathReason.PROBE, 2, True)
    assert len(paths.active(0)) >= 14
    few = make(4, 64)
    victim = few.active(0)[0]
    few.retire(victim, PathReason.LOSS, None, 1)
    few.restore(victim, PathReason.PROBE, 2, True)
    assert victim in few.active(0), "one in eight of four is none"
