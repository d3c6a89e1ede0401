"""A schedule driven by hand: what starts when, and when nothing more can."""

from __future__ import annotations

from mrc_lab.workloads.schedules.goal import parse_goal
from mrc_lab.workloads.schedules.progress import NEVER, ScheduleProgress
from tests.mrc_lab.workloads.schedules.test_goal import program


class Driver:
    """Keeps what it was asked for; the clock stands until it is moved."""

    def __init__(self, text: str) -> None:
        self.now = 0
        self.sends: list[int] = []
        self.calcs: list[tuple[tuple[int, int], int]] = []
        self.progress = ScheduleProgress(
            parse_goal(text, "some.goal"), lambda: self.now, self.sends.append, lambda *calc: self.calcs.append(calc)
        )
        self.progress.begin()


def test_calcs_of_a_cpu_take_turns_and_sends_wait_for_what_they_require() -> None:
    sender = "a: calc 100\nb: calc 50\ns: send 10b to 1 tag 1\ns requires b"
    driver = Driver(program(sender, "r: recv 10b from 0 tag 1"))
    assert driver.calcs == [((0, 0), 100)]
    assert not driver.sends
    driver.now = 100
    driver.progress.calculated((0, 0))
    assert driver.calcs[1:] == [((0, 0), 50)]
    driver.now = 150
    driver.progress.calculated((0, 0))
    assert driver.sends == [2]
    assert list(driver.progress.ended) == [100, 150, NEVER, NEVER]
    driver.progress.received(2)
    assert not driver.progress.done  # not before the message is acknowledged
    driver.progress.sent(2)
    assert driver.progress.done
    assert not driver.progress.unread()


def test_a_receive_whose_message_never_comes_is_a_deadlock() -> None:
    driver = Driver(program("s: send 10b to 1 tag 1", "r: recv 10b from -1 tag 2"))
    driver.progress.received(0)
    driver.progress.sent(0)
    assert driver.progress.idle
    assert not driver.progress.done
    assert driver.progress.deadlock().startswith("a deadlock: nothing is under way, but there wait rank 1: recv 10b")
    assert "rank 0: send 10b" in driver.progress.unread()
