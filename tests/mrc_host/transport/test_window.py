"""A window that several queue pairs share: who is let in when there is room."""

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.window import SharedWindow, WindowUser


class Waiter(WindowUser):
    def __init__(self, window: SharedWindow, *, data: bool = True, again: bool = False) -> None:
        self.window = window
        self.data = data
        self.again = again
        self.called = 0
        window.waiting[self] = None

    def window_opened(self) -> bool:
        self.called += 1
        if self.again:
            self.window.waiting[self] = None
        return self.data


def test_as_many_are_let_in_as_there_is_room_for_in_the_order_of_their_coming():
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


def test_one_that_has_nothing_to_send_takes_no_room():
    window = SharedWindow(CongestionControl(4096))
    idle, busy = Waiter(window, data=False), Waiter(window)
    window.open(4096)
    assert (idle.called, busy.called, len(window.waiting)) == (1, 1, 0)


def test_one_that_waits_again_at_once_is_not_asked_for_ever():
    window = SharedWindow(CongestionControl(40_960))
    stubborn = Waiter(window, again=True)
    window.open(4096)
    assert stubborn.called == 1
