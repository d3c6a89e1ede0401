"""States, rings and backups of a path set: every transition of docs/protocol.md §3."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.transport.path_selection import PathSelection
from mrc_host.transport.paths import PathListener, PathSet
from mrc_host.verbs_types import PathReason, PathState


class Listener(PathListener):
    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int, PathReason, int | None, int]] = []

    def path_changed(
        self, index: int, old: int, new: int, reason: PathReason, first_loss: int | None, now: int
    ) -> None:
        self.seen.append((index, old, new, reason, first_loss, now))


def make(
    planes: int = 2,
    each: int = 16,
    *,
    active: int | None = None,
    share: int = 8,
    floor: int = 1,
    seed: int = 1,
    oblivious: bool = False,
) -> tuple[PathSet, Listener]:
    listener = Listener()
    plane_of = bytes(p for p in range(planes) for _ in range(each))
    paths = PathSet(
        plane_of,
        active_paths=active,
        backup_share=share,
        ev_min_active=floor,
        rng=random.Random(seed),
        listener=listener,
        oblivious=oblivious,
    )
    return paths, listener


class Losses(PathSelection):
    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def on_loss(self, path: int) -> None:
        self.seen.append(("lost", path))

    def on_false_loss(self, path: int) -> None:
        self.seen.append(("arrived", path))


def test_a_selection_is_told_of_losses_and_of_those_that_were_none() -> None:
    told = Losses()
    paths = PathSet(
        bytes(8),
        active_paths=None,
        backup_share=8,
        ev_min_active=1,
        rng=random.Random(1),
        listener=Listener(),
        selection=told,
    )
    paths.count_lost(3, 1, 5, "sack")
    assert paths.disprove(3, 5, 9), "the path was never bad"
    assert told.seen == [("lost", 3), ("arrived", 3)]


@given(st.integers(1, 40), st.integers(0, 1 << 32))
def test_a_plane_is_shuffled_as_by_python_itself(each: int, seed: int) -> None:
    rng, expected = random.Random(seed), list(range(each))
    rng.shuffle(expected)
    paths, _ = make(1, each, share=each + 1, seed=seed)
    assert paths.active(0) == tuple(expected)


def test_active_paths_are_equal_over_planes_and_the_rest_are_backups() -> None:
    paths, _ = make(4, 16)
    assert [len(paths.active(p)) for p in range(4)] == [14] * 4
    paths, _ = make(4, 16, active=20)
    assert [len(paths.active(p)) for p in range(4)] == [5] * 4
    paths, _ = make(2, 2)
    assert [len(paths.active(p)) for p in range(2)] == [2] * 2
    uneven = PathSet(
        bytes([0] * 10 + [1] * 4), active_paths=None, backup_share=8, ev_min_active=1, rng=random.Random(1),
        listener=Listener(),
    )  # fmt: skip
    assert [len(uneven.active(p)) for p in range(2)] == [4, 4]


def test_every_active_path_is_used_and_orders_differ_between_queue_pairs() -> None:
    paths, _ = make(1, 64)
    ring = len(paths.active(0))
    turns = Counter(paths.next(0, -1) for _ in range(ring * 40))
    assert set(turns) == set(paths.active(0))
    assert max(turns.values()) - min(turns.values()) <= 40, "stirring moves turns, it does not take them away"
    other, _ = make(1, 64, seed=2)
    assert paths.active(0) != other.active(0)


def test_a_skipped_path_is_left_out_for_about_one_rotation() -> None:
    paths, listener = make(1, 8, share=100)
    victim = paths.next(0, -1)
    paths.skip(victim)
    assert paths.state(victim) is PathState.SKIP
    chosen = [paths.next(0, -1) for _ in range(24)]
    assert 7 <= chosen.index(victim) <= 16
    assert paths.state(victim) is PathState.GOOD
    assert not listener.seen


def test_at_most_one_skipped_path_becomes_good_per_packet() -> None:
    paths, _ = make(1, 8, share=100)
    for index in range(6):
        paths.skip(index)
    paths.next(0, -1)
    assert sum(paths.state(i) is PathState.SKIP for i in range(8)) >= 5


def test_with_all_paths_skipped_one_is_still_chosen() -> None:
    paths, _ = make(1, 4)
    for index in range(4):
        paths.skip(index)
    assert paths.next(0, -1) in range(4)


def test_a_backup_takes_over_when_all_active_paths_are_skipped() -> None:
    paths, listener = make(2, 2, active=2)
    first = paths.next(0, -1)
    assert {paths.next(0, -1) for _ in range(10)} == {first}
    other = 1 - first
    paths.skip(first)
    assert {paths.next(0, -1) for _ in range(10)} == {other}
    assert paths.state(first) is PathState.GOOD, "rested, as a backup"
    paths.skip(other)
    assert paths.next(0, -1) == first
    assert paths.active(0) == (first,)
    assert paths.active(1)[0] in (2, 3), "of the same plane only"
    assert listener.seen == [], "nothing that a controller is notified of"


def test_a_bad_backup_does_not_replace_skipped_paths() -> None:
    paths, _ = make(1, 2, active=1)
    first = paths.next(0, -1)
    paths.retire(1 - first, PathReason.LOSS, None, 5)
    paths.skip(first)
    assert paths.next(0, -1) == first
    paths.skip(first)
    assert paths.next(0, 1 - first) == first


def test_the_path_to_avoid_is_chosen_only_without_another() -> None:
    paths, _ = make(1, 2)
    assert {paths.next(0, 0) for _ in range(10)} == {1}
    single, _ = make(1, 1)
    assert single.next(0, 0) == 0


def test_a_path_may_be_taken_out_of_turn_while_it_is_active_and_usable() -> None:
    paths, _ = make(2, 8)
    active = paths.active(1)[0]
    backup = next(index for index in range(8, 16) if index not in paths.active(1))
    assert paths.take(active) == active
    assert paths.each[active].sent == 1
    assert paths.take(backup) == -1
    paths.retire(active, PathReason.LOSS, 1000, 2000)
    assert paths.take(active) == -1
    denied = paths.active(1)[0]
    paths.deny(denied, True, 3000)
    assert paths.take(denied) == -1
    assert [paths.each[index].sent for index in (active, backup, denied)] == [1, 0, 0]


def test_a_lost_path_is_replaced_by_a_backup_of_its_plane() -> None:
    paths, listener = make(2, 16)
    before = [set(paths.active(p)) for p in range(2)]
    victim = paths.active(1)[3]
    assert paths.retire(victim, PathReason.LOSS, 40, 50)
    after = [set(paths.active(p)) for p in range(2)]
    assert after[0] == before[0]
    assert before[1] - after[1] == {victim}
    assert len(after[1]) == 14
    assert listener.seen == [(victim, 0, 2, PathReason.LOSS, 40, 50)]
    assert not paths.retire(victim, PathReason.LOSS, 60, 70), "once is enough"


def test_without_backups_a_plane_keeps_its_last_path() -> None:
    paths, _ = make(2, 4, share=100)
    members = paths.active(0)
    for count, index in enumerate(members[:-1]):
        paths.retire(index, PathReason.LOSS, None, count)
        assert index not in paths.active(0)
        assert paths.good_planes == 0b11
    last = members[-1]
    paths.retire(last, PathReason.LOSS, None, 9)
    assert paths.active(0) == (last,), "ev_min_active"
    assert paths.state(last) is PathState.ASSUMED_BAD
    assert paths.good_planes == 0b10, "a plane with nothing but bad paths carries data only when all are like that"
    assert paths.next(0, -1) == last


def test_a_higher_minimum_keeps_more_paths() -> None:
    paths, _ = make(2, 4, share=100, floor=6)
    for index in paths.active(0):
        paths.retire(index, PathReason.LOSS, None, 1)
    assert len(paths.active(0)) == 3


def test_restored_paths_replace_bad_ones_then_fill_gaps_then_become_backups() -> None:
    paths, listener = make(1, 4, share=4)
    assert len(paths.active(0)) == 3
    order = list(paths.active(0))
    for index in range(4):
        paths.retire(index, PathReason.LOSS, None, 1)
    kept = paths.active(0)
    assert len(kept) == 1
    others = [i for i in range(4) if i != kept[0]]
    assert paths.restore(others[0], PathReason.PROBE, 2)
    assert paths.active(0) == (others[0],)
    assert paths.good_planes == 1
    paths.restore(others[1], PathReason.PROBE, 3)
    paths.restore(others[2], PathReason.PROBE, 4)
    assert len(paths.active(0)) == 3
    paths.restore(kept[0], PathReason.PROBE, 5)
    assert len(paths.active(0)) == 3
    assert kept[0] not in paths.active(0)
    assert not paths.restore(kept[0], PathReason.PROBE, 6)
    assert len(order) == 3
    assert [s[3] for s in listener.seen[-4:]] == [PathReason.PROBE] * 4


def test_losses_from_before_the_recovery_are_ignored() -> None:
    paths, _ = make(1, 8)
    victim = paths.active(0)[0]
    paths.retire(victim, PathReason.LOSS, 10, 20)
    paths.restore(victim, PathReason.PROBE, 100)
    assert not paths.retire(victim, PathReason.LOSS, 99, 120)
    assert paths.retire(victim, PathReason.LOSS, 100, 120)


@pytest.mark.parametrize(
    ("reason", "first_loss", "proof"), [(PathReason.LOSS, 10, 10), (PathReason.PEER_SKIP, None, 20)]
)
def test_a_late_arrival_of_a_packet_from_before_the_loss_does_not_restore_the_path(
    reason: PathReason, first_loss: int | None, proof: int
) -> None:
    paths, _ = make(1, 8)
    victim = paths.active(0)[0]
    assert paths.disprove(victim, 5, 6), "it is not bad"
    paths.retire(victim, reason, first_loss, 20)
    assert not paths.disprove(victim, proof - 1, 30)
    assert paths.bad(victim)
    assert paths.disprove(victim, proof, 30)
    assert paths.state(victim) is PathState.GOOD


@pytest.mark.parametrize("first", ["good", "skip", "bad"])
def test_a_path_is_denied_from_any_state_and_allowed_as_good(first: str) -> None:
    paths, listener = make(1, 8)
    index = paths.active(0)[0]
    if first == "skip":
        paths.skip(index)
    if first == "bad":
        paths.retire(index, PathReason.LOSS, None, 1)
    assert paths.deny(index, True, 2)
    assert not paths.deny(index, True, 2)
    assert paths.state(index) is PathState.DENIED
    assert not paths.retire(index, PathReason.LOSS, None, 3)
    assert not paths.restore(index, PathReason.PROBE, 3)
    assert index not in {paths.next(0, -1) for _ in range(50)}
    assert paths.deny(index, False, 4)
    assert paths.state(index) is PathState.GOOD
    assert listener.seen[-1][3] is PathReason.CONTROLLER


def test_a_plane_with_all_paths_denied_gives_none() -> None:
    paths, _ = make(1, 4)
    for index in range(4):
        paths.deny(index, True, 1)
    assert paths.next(0, -1) == -1
    assert paths.good_planes == 0


actions = st.lists(
    st.tuples(st.sampled_from(["retire", "restore", "deny", "allow", "skip", "next"]), st.integers(0, 23))
)


@given(actions, st.integers(1, 3), st.sampled_from([2, 4, 100]), st.integers(1, 12))
def test_invariants_hold_under_any_sequence(steps: list[tuple[str, int]], planes: int, share: int, floor: int) -> None:
    each = 24 // planes
    paths, _ = make(planes, each, share=share, floor=floor)
    target = len(paths.active(0))
    for now, (action, number) in enumerate(steps):
        index = number % (planes * each)
        if action == "retire":
            paths.retire(index, PathReason.LOSS, None, now)
        elif action == "restore":
            paths.restore(index, PathReason.PROBE, now)
        elif action in ("deny", "allow"):
            paths.deny(index, action == "deny", now)
        elif action == "skip":
            paths.skip(index)
        else:
            chosen = paths.next(index % planes, -1)
            if chosen >= 0:
                assert chosen // each == index % planes, "a path of the plane that asked"
                assert paths.state(chosen) is not PathState.DENIED
        for plane in range(planes):
            ring = paths.active(plane)
            usable = [i for i in range(plane * each, (plane + 1) * each) if paths.state(i).value in ("good", "skip")]
            good = [i for i in ring if i in usable]
            assert len(set(ring)) == len(ring) <= target
            assert ring
            assert bool(paths.good_planes >> plane & 1) == bool(good) == bool(usable)
            assert len(good) == min(len(usable), target), "every usable path is used as long as there is a place"


# ---- oblivious spraying ----


def test_oblivious_spraying_uses_all_paths_regardless_of_events() -> None:
    paths, listener = make(2, 16, oblivious=True)
    assert [len(paths.active(p)) for p in range(2)] == [16] * 2, "no backups"
    for index in range(16):
        paths.skip(index)
        paths.skip(index, PathReason.TRIMMED)
        assert not paths.retire(index, PathReason.LOSS, None, 5)
    assert Counter(paths.next(0, -1) for _ in range(160)) == dict.fromkeys(range(16), 10)
    assert not listener.seen
    assert (paths.each[3].marked, paths.each[3].trimmed) == (1, 1), "what happened is counted all the same"


def test_oblivious_paths_can_be_denied() -> None:
    paths, _ = make(2, 16, oblivious=True)
    assert paths.deny(3, True, 5)
    assert 3 not in {paths.next(0, -1) for _ in range(64)}


def test_paths_that_are_not_denied_take_turns_whatever_is_known_of_them() -> None:
    paths, _ = make(1, 6, share=3)
    spare = next(index for index in range(6) if index not in paths.active(0))
    for index in range(6):
        if index != spare:
            paths.retire(index, PathReason.LOSS, None, 1)
    assert paths.has_spare(0) is False, "the last one is in the ring"
    paths.deny(2, True, 2)
    turns = Counter(paths.any_allowed(0, -1) for _ in range(50))
    assert turns == dict.fromkeys((0, 1, 3, 4, 5), 10)
    assert all(paths.any_allowed(0, 4) != 4 for _ in range(50))
    for index in (0, 1, 3, 5):
        paths.deny(index, True, 3)
    assert paths.any_allowed(0, 4) == 4, "there is no other"
    paths.deny(4, True, 4)
    assert paths.any_allowed(0, -1) == -1
    assert sum(path.sent for path in paths.each) == 101
