"""The send window by itself: which bounds hold, who is asked for acknowledgements, what a SACK may change."""

from __future__ import annotations

from typing import Any

import pytest

from mrc_host.transport.congestion import LinkParameters
from mrc_host.transport.path import Path
from mrc_host.transport.receiver_limit import UNLIMITED
from mrc_host.transport.send_window import SendWindow
from mrc_host.transport.sent_packets import SentPackets
from mrc_host.transport.window import SharedWindows, WindowUser
from mrc_host.wire.control import Sack
from tests.mrc_host.transport.parts import connection

FIRST = 1000
MTU = 4096
WINDOW = 10 * MTU
SHARED = {"congestion": "nscc", "base_rtt": 10_000}


class User(WindowUser):
    """A queue pair that always has data."""

    def __init__(self) -> None:
        self.opened = 0

    def window_opened(self) -> bool:
        self.opened += 1
        return True

    def others_timed_out(self, now: int) -> None:
        pass

    def probe_for_others(self, interval: int, now: int) -> bool:
        return True


def make(
    attributes: dict[str, Any] | None = None,
    windows: SharedWindows | None = None,
    user: User | None = None,
    **settings: Any,
) -> SendWindow:
    given = connection({"path_mtu": MTU, **(attributes or {})}, **(settings or {"congestion": "fixed"}))
    link = LinkParameters(mtu=MTU, window=WINDOW)
    return SendWindow(user or User(), given, link, windows or SharedWindows())


def fill(window: SendWindow, packets: int) -> SentPackets:
    sent = SentPackets(window.cc, FIRST, 2, [Path()])
    for now in range(1, packets + 1):
        record = sent.new_record()
        record.weight = MTU
        sent.transmitted(record, 0, 0, 0, 0, now)
    return sent


def sack(*, penalty: int = 0, restore: bool = False) -> Sack:
    return Sack(cack_psn=FIRST, mpr=8, bitmap_offset=1, restore_cwnd=restore, cwnd_penalty=penalty)


def test_the_window_closes_when_cwnd_has_no_room_for_a_packet() -> None:
    window = make()
    assert window.cc.cwnd == WINDOW
    assert not window.closing(fill(window, 9))
    window = make()
    assert window.closing(fill(window, 10))


@pytest.mark.parametrize("units", [8, 9])
def test_the_window_closes_at_the_peers_psn_range(units: int) -> None:
    """R2.7, R2.18: PSN <= cumulative + MPR, in units of 128."""
    window = make({"mpr_dest": units})
    window.cc.cwnd = 1 << 40
    assert window.psn_range == 128 * units - 1
    assert not window.closing(fill(window, 128 * units - 2))
    assert window.closing(fill(window, 128 * units - 1))


def test_the_peer_changes_the_range_only_as_negotiated() -> None:
    fixed, dynamic = make({"mpr_dest": 8}), make({"mpr_dest": 8, "dynamic_mpr": 16})
    for window in (fixed, dynamic):
        window.offered(12)
    assert (fixed.psn_range, dynamic.psn_range) == (8 * 128 - 1, 12 * 128 - 1)
    dynamic.offered(200)
    assert dynamic.psn_range == 16 * 128 - 1
    dynamic.offered(0)
    assert dynamic.psn_range == 16 * 128 - 1, "nothing is offered"


def test_receiver_penalties_limit_only_controllers_that_obey_them() -> None:
    fixed, obedient = make(), make(**SHARED)
    for window in (fixed, obedient):
        window.limit_by(sack(penalty=127), 4 * MTU, 8 * MTU)
    assert fixed.limit.limit == UNLIMITED
    assert obedient.limit.limit < 8 * MTU
    assert obedient.closing(fill(obedient, 8))
    obedient.limit_by(sack(restore=True), 0, 8 * MTU)
    assert obedient.limit.limit == UNLIMITED


def test_queue_pairs_of_one_controller_share_its_window() -> None:
    windows = SharedWindows()
    first, second = make(windows=windows, **SHARED), make(windows=windows, **SHARED)
    assert first.cc is second.cc
    assert first.shared is second.shared is not None
    assert make(windows=windows).shared is None
    assert make(windows=SharedWindows(), **SHARED).cc is not first.cc, "towards another peer"


def test_in_a_shared_window_acks_are_requested_each_quarter_of_the_share() -> None:
    windows = SharedWindows()
    first, second = make(windows=windows, **SHARED), make(windows=windows, **SHARED)
    first.cc.cwnd = 32 * MTU
    assert [first.used(MTU) for _ in range(9)] == [False] * 7 + [True, False], "alone: 8 of 32 packets"
    assert first.needs_ack_request()
    first.ack_requested()
    assert not first.needs_ack_request()
    assert [second.used(MTU) for _ in range(5)] == [False] * 3 + [True, False], "one of two: 4"


def test_an_unshared_window_requests_no_extra_acks() -> None:
    window = make()
    assert not any(window.used(MTU) for _ in range(100))
    assert not window.needs_ack_request()
    assert not window.waiting()


def test_returned_bytes_admit_waiting_queue_pairs() -> None:
    windows, waiting = SharedWindows(), User()
    first, second = make(windows=windows, **SHARED), make(windows=windows, user=waiting, **SHARED)
    shared = first.shared
    assert shared is not None
    first.used(MTU)
    shared.cc.inflight = shared.cc.cwnd
    shared.wait(waiting)
    assert second.waiting()
    first.release(MTU)
    assert (waiting.opened, shared.active) == (0, 1), "there is no room yet"
    shared.cc.inflight = 0
    first.release(0)
    assert (waiting.opened, shared.active) == (1, 0)
    assert not second.waiting()
