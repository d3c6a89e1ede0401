"""Windows: what one queue pair may have in flight, and who is let in when several share a window."""

from mrc_host.config import TransportSettings
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.window import SharedWindow, WindowUser
from mrc_host.verbs_types import QpAttributes
from mrc_host.wire import control
from tests.mrc_host.nic_world import US
from tests.mrc_host.transport.far_end import FIRST_OUT, FarEnd

EAGER = TransportSettings(plane_skew_limit=1 << 20)


class Waiter(WindowUser):
    def __init__(self, window: SharedWindow, *, data: bool = True, again: bool = False) -> None:
        self.window = window
        self.data = data
        self.again = again
        self.called = 0
        window.wait(self)

    def window_opened(self) -> bool:
        self.called += 1
        if self.again:
            self.window.wait(self)
        return self.data

    def others_timed_out(self, now: int) -> None:
        self.called += 1

    def probe_for_others(self, interval: int, now: int) -> bool:
        self.called += 1
        return self.again


def test_waiting_queue_pairs_are_admitted_in_order_as_room_permits():
    window = SharedWindow(CongestionControl(10_000))
    waiters = [Waiter(window) for _ in range(5)]
    window.cc.inflight = 10_000
    window.open(4096)
    assert not any(w.called for w in waiters)
    window.cc.inflight = 3_000
    window.open(4096)
    assert [w.called for w in waiters] == [1, 1, 0, 0, 0]
    window.open(4096)
    assert [w.called for w in waiters] == [1, 1, 1, 1, 0]


def test_those_that_timed_out_are_admitted_after_all_others_until_they_are_answered():
    window = SharedWindow(CongestionControl(4096))
    silent = [Waiter(window) for _ in range(3)]
    for one in silent:
        window.time_out(one, US)
    fresh = Waiter(window)
    called = [one.called for one in silent]
    window.open(4096)
    assert (fresh.called, [one.called for one in silent]) == (1, called)
    window.wait(fresh)
    window.answered(silent[1])
    for expected in (fresh, silent[1], silent[0], silent[2]):
        before = expected.called
        window.open(4096)
        assert expected.called == before + 1
    assert not window.crowded()


def test_one_that_timed_out_also_waits_last_when_it_comes_back():
    window = SharedWindow(CongestionControl(4096))
    silent = Waiter(window)
    window.time_out(silent, US)
    window.open(4096)
    window.wait(silent)
    fresh = Waiter(window)
    window.wait(silent)
    window.open(4096)
    assert (window.waits(silent), window.waits(fresh)) == (True, False)


def test_those_that_timed_out_leave_room_for_a_packet_of_others_if_there_are_any():
    window = SharedWindow(CongestionControl(12_288))
    silent, idle = Waiter(window), Waiter(window)
    window.users = {silent: None, idle: None}
    window.waiting.clear()
    window.time_out(silent, US)
    for inflight, others, let_in in (
        (4_096, True, False),
        (4_095, True, True),
        (12_287, False, True),
        (12_288, False, False),
    ):
        window.users = {silent: None, idle: None} if others else {silent: None}
        window.wait(silent)
        window.cc.inflight = inflight
        window.open(4096)
        assert window.waits(silent) is not let_in


def test_the_first_timeout_is_reported_to_all_others_that_wait():
    window = SharedWindow(CongestionControl(4096))
    first, second, third = (Waiter(window) for _ in range(3))
    window.time_out(first, US)
    window.time_out(second, US)
    assert [one.called for one in (first, second, third)] == [0, 1, 1]


def test_a_queue_pair_with_nothing_to_send_takes_no_room():
    window = SharedWindow(CongestionControl(4096))
    idle, busy = Waiter(window, data=False), Waiter(window)
    window.open(4096)
    assert (idle.called, busy.called, len(window.waiting)) == (1, 1, 0)


def test_a_queue_pair_that_waits_again_is_not_admitted_endlessly():
    window = SharedWindow(CongestionControl(40_960))
    stubborn = Waiter(window, again=True)
    window.open(4096)
    assert stubborn.called == 1


def test_silent_queue_pairs_are_made_to_probe_once_until_acknowledged() -> None:
    window = SharedWindow(CongestionControl(4096))
    silent, woken = Waiter(window, again=True), Waiter(window)
    window.timed_out = {silent: None, woken: None}
    for _ in range(3):
        assert window.probe_timed_out(10 * US, 50 * US)
    assert (silent.called, woken.called) == (1, 1)
    assert window.probe_timed_out(10 * US, 60 * US)
    assert (silent.called, woken.called) == (2, 1)
    silent.again = False
    assert not window.probe_timed_out(10 * US, 70 * US)


def test_the_peers_window_is_respected() -> None:
    end = FarEnd(attributes=QpAttributes(mpr_dest=1, congestion_window=1 << 30), transport=EAGER, size=1 << 20)
    end.write(1 << 20)
    sent = end.data()
    assert max(p.psn for p in sent) == FIRST_OUT - 1 + 127, "PSN < cack + MPR"
    assert max(sent, key=lambda p: p.psn).ack_requested
    end.sack(9)
    assert max(p.psn for p in end.data()) == FIRST_OUT + 9 + 127
    end.sack(9, 0xFFFF, base=2)
    assert all(p.rtx for p in end.data()), "a hole at the start keeps the window shut"


def test_the_congestion_window_is_respected_and_its_last_packet_requests_an_ack() -> None:
    end = FarEnd(attributes=QpAttributes(congestion_window=5 * 17 * 256))  # nominal sizes
    end.write(1 << 17)
    sent = sorted(end.data(), key=lambda p: p.psn)
    assert len(sent) == 5
    assert [p.ack_requested for p in sent] == [True, True, False, False, True], "the first two measure their planes"
    end.sack(1)
    assert len(end.data()) == 2


def test_writes_with_imm_in_flight_respect_the_peers_limit() -> None:
    end = FarEnd(attributes=QpAttributes(max_wimm_dest=3))
    for n in range(10):
        end.write(10, imm=n, wr_id=n)
    assert len(end.data()) == 3
    end.sack(2)
    assert not end.data(), "received is not completed"
    end.ack(2)
    assert len(end.data()) == 2
    assert [c.wr_id for c in end.poll()] == [0, 1]


def test_retransmissions_count_against_the_window() -> None:
    end = FarEnd(attributes=QpAttributes(congestion_window=4 * 4096), planes=1)
    end.write(40 * 4096)
    packets = sorted(end.data(), key=lambda p: p.psn)
    assert len(packets) == 4
    end.nack(packets[0], control.NACK_TRIMMED)
    assert [p.rtx for p in end.data()] == [True]


def shared_window(end: FarEnd) -> tuple[int, int]:
    """Its size and what is used of it, in bytes."""
    gauges = end.nic.hw_counters(end.qpn, end.now)
    return gauges["cwnd_bytes"], gauges["cwnd_used_bytes"]


def test_a_slow_receiver_shrinks_and_restores_its_queue_pairs_window_share() -> None:
    end = FarEnd(transport=TransportSettings(base_rtt=60 * US, assumed_rate=10_000_000_000), size=1 << 22)
    end.write(1 << 22)
    whole, _ = shared_window(end)
    packets = end.data()
    assert shared_window(end)[1] >= whole
    cack = -1
    for _ in range(8):
        end.pass_time(60 * US)
        cack += 8
        end.sack(cack, of=packets[cack], units=(cack + 1) * 16, penalty=64)
        packets += end.data()
    cwnd, used = shared_window(end)
    assert cwnd == whole, "the others' window stays"
    assert used < 0.85 * whole, "this queue pair did not fill it again"
    end.pass_time(60 * US)
    end.sack(cack + 1, of=packets[cack + 1], units=(cack + 2) * 16, restore=True)
    assert end.data()
    assert shared_window(end)[1] >= whole - 4096


def test_the_last_packet_within_a_receiver_limit_requests_an_ack() -> None:
    end = FarEnd(transport=TransportSettings(base_rtt=60 * US, assumed_rate=10_000_000_000), size=1 << 22)
    end.write(1 << 22)
    packets = end.data()
    cack = -1
    for _ in range(40):
        end.pass_time(60 * US)
        cack += 1
        end.sack(cack, of=packets[cack], units=(cack + 1) * 16, penalty=127)
    new = end.data()
    while not new:
        end.pass_time(60 * US)
        cack += 1
        end.sack(cack, of=packets[cack], units=(cack + 1) * 16, penalty=127)
        new = end.data()
    assert new[-1].ack_requested
