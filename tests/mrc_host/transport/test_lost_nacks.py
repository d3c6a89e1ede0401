"""Which holes may be trims whose NACK was lost, and that a path is not retired for them."""

from __future__ import annotations

import pytest

from mrc_host.transport.lost_nacks import LostNacks
from mrc_host.transport.round_trip import RoundTrip
from mrc_host.transport.sent_packet import LOST
from mrc_host.verbs_types import PathState
from mrc_host.wire import control
from mrc_host.wire.control import Nack
from mrc_host.wire.psn import MASK
from tests.mrc_host.transport.test_ack_processing import Rig

TRIP = 10_000


def make(planes: int = 2) -> LostNacks:
    trips = [RoundTrip() for _ in range(planes)]
    for trip in trips:
        trip.sample(TRIP, False, 1)
    return LostNacks(trips)


def test_each_trim_explains_three_holes_of_its_plane_within_two_round_trips() -> None:
    nacks = make()
    assert not nacks.explain(0, 4, 9, 100_000)
    nacks.trimmed(0, 3, 7, 100_000)
    assert not nacks.explain(1, 4, 9, 100_000)
    assert not nacks.explain(0, 4, 9, 100_000 + 2 * TRIP + 1)
    assert not nacks.explain(0, 4, 9, 100_000 - 2 * TRIP - 1)
    assert [nacks.explain(0, 4, 9, 100_000 + TRIP) for _ in range(4)] == [True, True, True, False]
    assert (nacks.carried(3), nacks.carried(4)) == (7, 0)


def test_old_trims_explain_nothing_later() -> None:
    nacks = make()
    for serial in range(50):
        nacks.trimmed(0, 0, serial, 100_000)
    nacks.trimmed(0, 0, 60, 100_000 + 10 * TRIP)
    assert [nacks.explain(0, 4, 9, 100_000 + 10 * TRIP) for _ in range(4)] == [True, True, True, False]


def test_a_later_trim_on_the_same_path_explains_holes_however_long_it_has_queued() -> None:
    """The queue that trims is full, and the one of another path may be short."""
    nacks = make()
    nacks.trimmed(0, 3, 7, 100_000)
    long_ago = 100_000 - 5 * TRIP
    assert not nacks.explain(0, 4, 6, long_ago), "another path"
    assert not nacks.explain(0, 3, 8, long_ago), "sent later than what was trimmed"
    assert [nacks.explain(0, 3, 6, long_ago) for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(("trimmed", "state"), [(False, PathState.ASSUMED_BAD), (True, PathState.GOOD)])
def test_a_hole_retires_its_path_unless_the_path_trims(trimmed: bool, state: PathState) -> None:
    """The oldest of three packets is missing; the second was trimmed or arrived, and the third arrived."""
    rig = Rig()
    rig.write(1)
    rig.sack(0)
    hole, second, last = rig.write(3)
    if trimmed:
        rig.acks.on_nack(Nack(control.NACK_TRIMMED_LASTHOP, 0, 0, 0, second.psn & MASK, second.stamp), rig.now)
    rig.sack(0, 0b100 if trimmed else 0b110, of=last)
    assert hole.state == LOST, "it is sent again at once"
    assert rig.paths.state(0) is state
