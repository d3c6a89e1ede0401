"""EV profiles: what is refused, what fields generate, and that universes are equal over planes and fixed."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.config import UsidTemplate
from mrc_host.errors import InvalidArgumentError, NotFoundError, StateError
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.profiles import check_profile, fill, generates, resolve
from mrc_host.verbs_types import EvField, EvMode, EvProfile, PathState, QpAddress, QpAttributes, QpState, QpType
from tests.mrc_host.nic_world import World, address, connect


class FakePaths:
    """Paths whose plane is in bits 12..10, each with 2 ** `spare` entropy values; `free`: new ones may be added."""

    def __init__(self, evs: tuple[int, ...], planes: int = 2, *, free: bool = False, spare: int = 0) -> None:
        self.evs = list(evs)
        self.index_of = {ev: i for i, ev in enumerate(evs)}
        self.members = [[i for i, ev in enumerate(evs) if ev >> 10 & 7 == p] for p in range(planes)]
        template = UsidTemplate(0, (), None, ev_uplink_bits=10 - spare)
        self.values = EntropyValues(self.evs, self.index_of, template, len(evs) << spare)
        self.free = free

    def add(self, ev: int) -> int:
        plane = ev >> 10 & 7
        if not self.free or plane >= len(self.members):
            return -1
        self.evs.append(ev)
        self.index_of[ev] = len(self.evs) - 1
        self.members[plane].append(len(self.evs) - 1)
        return len(self.evs) - 1


UPLINKS = tuple(p << 10 | u for p in range(2) for u in range(16))
WHOLE = EvField(16, 0, 0, 0xFFFF, 0xFFFF)


@pytest.mark.parametrize(
    ("profile", "word"),
    [
        (EvProfile(EvMode.EXPLICIT), "lists"),
        (EvProfile(EvMode.AUTO, evs=(1,)), "lists"),
        (EvProfile(EvMode.GENERATED), "fields"),
        (EvProfile(EvMode.AUTO, fields=(WHOLE,)), "fields"),
        (EvProfile(EvMode.EXPLICIT, evs=(1, 1)), "differ"),
        (EvProfile(EvMode.EXPLICIT, evs=(1 << 32,)), "32 bits"),
        (EvProfile(EvMode.EXPLICIT, evs=(1, 2), size=2), "size"),
        (EvProfile(size=0), "size"),
        (EvProfile(size=4097), "size"),
        (EvProfile(ev_min_active=0), "ev_min_active"),
        (EvProfile(EvMode.GENERATED, fields=(WHOLE, WHOLE, WHOLE)), "32 bits"),
        (EvProfile(EvMode.GENERATED, fields=(EvField(0, 0, 0, 0, 0),)), "Field 0"),
        (EvProfile(EvMode.GENERATED, fields=(WHOLE, EvField(4, 16, 0, 15, 15))), "Field 1"),
        (EvProfile(EvMode.GENERATED, fields=(EvField(4, 0, 5, 4, 15),)), "Field 0"),
    ],
    ids=str,
)
def test_invalid_profiles_are_refused(profile: EvProfile, word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        check_profile(profile)


def test_raw_bits_fill_the_masks_from_the_most_significant_one() -> None:
    fields = (EvField(4, 0b1000, 0, 15, 0b0110), EvField(8, 0x0F, 0, 255, 0xF0))
    profile = EvProfile(EvMode.GENERATED, fields=fields)
    assert fill(profile, 0) == 0b1000_0000_1111
    assert fill(profile, 0b10_0000) == 0b1100_0000_1111
    assert fill(profile, 0b01_1001) == 0b1010_1001_1111


@st.composite
def generated(draw: st.DrawFn) -> EvProfile:
    fields = []
    for width in draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)):
        value = st.integers(0, (1 << width) - 1)
        low, high = sorted((draw(value), draw(value)))
        fields.append(EvField(width, draw(value), low, high, draw(value)))
    return EvProfile(EvMode.GENERATED, fields=tuple(fields), size=draw(st.integers(1, 64)))


@given(generated())
def test_generated_values_match_the_masks_within_the_limits(profile: EvProfile) -> None:
    check_profile(profile)
    bits = sum(field.mask.bit_count() for field in profile.fields)
    width = sum(field.width for field in profile.fields)
    filled = {fill(profile, raw) for raw in range(1 << min(bits, 18))}

    def inside(ev: int) -> bool:
        for field in reversed(profile.fields):
            if not field.minimum <= ev % (1 << field.width) <= field.maximum:
                return False
            ev >>= field.width
        return True

    if bits <= 18:
        assert {ev for ev in filled if inside(ev)} == {ev for ev in range(1 << width) if generates(profile, ev)}


@given(generated(), st.integers(0, 1 << 30), st.booleans())
def test_path_universes_are_equal_over_planes_and_within_the_profile(profile: EvProfile, seed: int, free: bool) -> None:
    paths = FakePaths(UPLINKS, free=free)
    try:
        universe = resolve(profile, paths, random.Random(seed))
    except InvalidArgumentError:
        assert not any(generates(profile, ev) for ev in UPLINKS)
        return
    evs = [paths.evs[index] for index in universe]
    assert all(generates(profile, ev) for ev in evs)
    assert len(set(evs)) == len(evs) <= max(profile.size or 0, 1)
    assert len(set(Counter(ev >> 10 & 7 for ev in evs).values())) == 1
    assert free or set(evs) <= set(UPLINKS)


def test_auto_uses_all_paths_or_an_equal_share() -> None:
    paths = FakePaths(UPLINKS)
    assert resolve(EvProfile(), paths, random.Random(1)) == list(range(32))
    eight = resolve(EvProfile(size=8), paths, random.Random(1))
    assert Counter(paths.evs[i] >> 10 for i in eight) == {0: 4, 1: 4}
    assert eight != resolve(EvProfile(size=8), paths, random.Random(2))


def test_fewer_paths_than_planes_are_drawn_from_random_planes() -> None:
    evs = tuple(p << 10 | u for p in range(4) for u in range(4))
    chosen = [resolve(EvProfile(size=1), FakePaths(evs, 4), random.Random(seed)) for seed in range(60)]
    assert {len(universe) for universe in chosen} == {1}
    assert min(Counter(evs[universe[0]] >> 10 for universe in chosen).values()) >= 5, "15 of each plane are expected"
    two = [resolve(EvProfile(size=2), FakePaths(evs, 4), random.Random(seed)) for seed in range(20)]
    assert all(len({evs[index] >> 10 for index in universe}) == 2 for universe in two)


def test_hashed_fabrics_accept_any_value_and_enumerated_ones_only_their_own() -> None:
    new = EvProfile(EvMode.EXPLICIT, evs=(0xABCD_0000, 0x405))
    paths = FakePaths(UPLINKS, free=True)
    assert [paths.evs[i] for i in resolve(new, paths, random.Random(1))] == [0xABCD_0000, 0x405]
    with pytest.raises(InvalidArgumentError, match="0xabcd0000"):
        resolve(new, FakePaths(UPLINKS), random.Random(1))
    drawn = FakePaths((), free=True)
    many = EvProfile(EvMode.GENERATED, fields=(WHOLE, EvField(16, 0, 0, 0x7FF, 0x7FF)), size=64)
    universe = resolve(many, drawn, random.Random(1))
    assert Counter(drawn.evs[i] >> 10 & 7 for i in universe) == {0: 32, 1: 32}


# ---- on a NIC ------------------------------------------------------------------------------------------------------


def test_a_queue_pair_uses_only_paths_of_its_profile() -> None:
    world = World(planes=2, uplinks=16)
    profile = EvProfile(EvMode.EXPLICIT, evs=tuple(p << 10 | u for p in range(2) for u in (1, 5, 9)), ev_min_active=4)
    number = world.nics[0].control.create_ev_profile(profile)
    assert world.nics[1].control.create_ev_profile(profile) == number
    one, two = connect(world, attributes=QpAttributes(ev_profile=number))
    paths = one.nic.qp_paths(one.qpn)
    assert sorted(p.ev for p in paths) == sorted(profile.evs)
    world.record = True
    one.write(two, 1 << 20)
    assert world.run(until=lambda: bool(one.poll()))
    used = {int.from_bytes(f[94:96], "big") for _t, nic, _p, f in world.sent if nic == 0 and f[102] <= 0xCB}
    assert used <= set(profile.evs)
    assert len(used) == 6
    world.faults.dead_paths |= {(0, 1), (0, 5)}
    one.write(two, 1 << 18)
    world.run(200_000_000)
    active = [p for p in one.nic.qp_paths(one.qpn) if p.active]
    assert len(active) >= 4
    assert any(p.state is PathState.ASSUMED_BAD for p in active)


def test_profiles_in_use_cannot_be_destroyed_and_are_checked_on_connect() -> None:
    world = World()
    nic = world.nics[0]
    number = nic.control.create_ev_profile(EvProfile(EvMode.EXPLICIT, evs=(0x3FF,)))
    cq = nic.create_cq(8)
    with pytest.raises(NotFoundError, match="profile 77"):
        nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(ev_profile=77))
    qpn = nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(ev_profile=number))
    with pytest.raises(StateError, match="still used"):
        nic.control.destroy_ev_profile(number)
    with pytest.raises(InvalidArgumentError, match="0x3ff"):
        nic.connect_qp(qpn, QpAddress(address(1), 99, 0), world.now)
    assert nic.qp_state(qpn) is QpState.RESET
    nic.modify_qp(qpn, QpState.INIT, world.now, {"ev_profile": 0})
    nic.connect_qp(qpn, QpAddress(address(1), 99, 0), world.now)
    assert nic.qp_state(qpn) is QpState.RTS
    with pytest.raises(StateError, match="still used"):  # a RESET would return to it
        nic.control.destroy_ev_profile(number)
    nic.destroy_qp(qpn, world.now)
    nic.control.destroy_ev_profile(number)
    with pytest.raises(NotFoundError):
        nic.control.destroy_ev_profile(number)
