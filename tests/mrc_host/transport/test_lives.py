"""Which first PSNs a queue pair may begin a life with, given those that earlier lives used."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.errors import StateError
from mrc_host.transport.lives import ROOM, UsedPsns
from mrc_host.wire.psn import HALF, MASK
from tests.mrc_host.nic_world import MS

PEER, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"
LIFETIME = 1000 * MS
WINDOW = 255 * 128  # PSNs: the widest that a responder accepts


def allowed(
    used: UsedPsns, first: int, now: int, peer: bytes = PEER, remote_qpn: int = 7, *, told: bool = False
) -> bool:
    try:
        used.check("send_psn", 0x10, first, peer, remote_qpn, now, told=told)
    except StateError:
        return False
    return True


@given(st.integers(0, MASK), st.integers(1, 1 << 30), st.integers(0, 1 << 32))
def test_the_next_first_psn_is_far_from_the_last_connections(first: int, count: int, seed: int) -> None:
    used = UsedPsns(LIFETIME)
    used.add(PEER, 7, first, count, 0)
    chosen = used.next_first(random.Random(seed))
    assert allowed(used, chosen, 1)
    latest = {(first + count - 1 - back) & MASK for back in (0, 1, min(count, HALF) - 1, min(count, HALF) // 2)}
    for psn in latest:  # neither in the first windows of the new life nor met by the ROOM PSNs after them
        assert (psn - chosen) & MASK >= min(ROOM, MASK)


@given(st.integers(0, MASK), st.integers(1, 1000), st.integers(0, MASK))
def test_allowed_first_psns_cannot_overlap_used_ones(first: int, count: int, new: int) -> None:
    used = UsedPsns(LIFETIME)
    used.add(PEER, 7, first, count, 0)
    if allowed(used, new, 1):
        for old in (first, first + count - 1, first + count - 1 + WINDOW):
            assert (old - new) & MASK >= ROOM


@given(st.integers(0, MASK), st.integers(0, MASK))
def test_a_life_from_which_nothing_was_received_may_go_on_and_its_packets_may_arrive(first: int, new: int) -> None:
    used = UsedPsns(LIFETIME)
    used.add_unseen(PEER, 7, first, 0)
    assert used.latest() is None, "there is nothing to refuse"
    assert allowed(used, first, 1, told=True)
    assert not allowed(used, first, 1), "an application that chooses it again does not know what is under way"
    assert not allowed(used, first, 1, remote_qpn=8, told=True)
    assert allowed(used, first, 1, OTHER, 8)
    assert allowed(used, first, LIFETIME, remote_qpn=8)
    if new != first and allowed(used, new, 1):
        assert (first - new) & MASK >= WINDOW
        assert (new - first) & MASK >= WINDOW


def test_the_latest_life_that_used_psns_is_remembered_behind_others() -> None:
    used = UsedPsns(LIFETIME)
    used.add(PEER, 7, 1000, 10, 0)
    for number in range(100):
        used.add_unseen(OTHER, number, 5, (number + 1) * LIFETIME)
    latest = used.latest()
    assert latest is not None
    assert latest.first == 1000
    assert not allowed(used, 1000, 200 * LIFETIME)
    assert len(used._lives) == 2


def test_many_connections_in_one_packet_lifetime_are_refused_rather_than_reusing_psns() -> None:
    used, rng, now = UsedPsns(LIFETIME), random.Random(5), 0
    first, lives = 0, []
    while allowed(used, first, now):
        lives.append(first)
        used.add(PEER, 7, first, 1, now)
        first, now = used.next_first(rng), now + 1
        assert len(lives) < 1000
    assert len(lives) > 100
    assert min((b - a) & MASK for a in lives for b in lives if a != b) > WINDOW
    assert allowed(used, first, now + LIFETIME)


def test_old_psns_only_exclude_the_peer_that_may_not_know() -> None:
    used = UsedPsns(LIFETIME)
    used.add(PEER, 7, 100, 50, 0)
    assert not allowed(used, 100, LIFETIME - 1)
    assert not allowed(used, 100, LIFETIME - 1, remote_qpn=8)
    assert allowed(used, 100, LIFETIME - 1, peer=OTHER)
    assert allowed(used, 100, LIFETIME, remote_qpn=8)
    assert not allowed(used, 100, 3600 * LIFETIME)
    used.add(PEER, 7, 1 << 23, 50, 4000 * LIFETIME)
    assert allowed(used, 100, 5000 * LIFETIME)


def test_a_connection_without_packets_leaves_nothing() -> None:
    used = UsedPsns(LIFETIME)
    used.add(PEER, 7, 100, 0, 0)
    assert allowed(used, 100, 0)


@pytest.mark.parametrize(
    ("now", "remote_qpn", "cure"),
    [(5, 8, "wait 1000 ms"), (5, 7, "present endpoint"), (2 * LIFETIME, 7, "RESET there")],
)
def test_the_refusal_says_which_psns_and_what_to_do(now: int, remote_qpn: int, cure: str) -> None:
    used = UsedPsns(LIFETIME)
    used.add(PEER, 7, 100, 50, 0)
    with pytest.raises(StateError, match=f"0x10: receive_psn 120 is too close to the PSNs 100 to 149 .*{cure}"):
        used.check("receive_psn", 0x10, 120, PEER, remote_qpn, now)
