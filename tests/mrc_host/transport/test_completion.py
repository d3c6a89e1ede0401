"""Completion queues: places, backpressure, news."""

from typing import Any

from mrc_host.transport.completion import NicCompletionQueue, WaitingReceiver
from mrc_host.verbs_types import Completion, CompletionOpcode, CompletionStatus


def entry(number: int) -> Completion:
    return Completion(number, 1, CompletionOpcode.WRITE, CompletionStatus.SUCCESS, 1)


class Waiting(WaitingReceiver):
    def __init__(self, queue: NicCompletionQueue) -> None:
        self.queue = queue
        self.got = 0

    def on_cq_room(self) -> None:
        if self.queue.room(self):
            self.queue.push(entry(100))
            self.got += 1


def test_requests_and_arrivals_have_separate_completion_slots() -> None:
    queue = NicCompletionQueue(1, 2, set(), set())
    waiting = Waiting(queue)
    assert queue.reserve()
    assert queue.reserve()
    assert not queue.reserve()
    for number in (1, 2):
        assert queue.room(waiting), "a reserved place is none of an arrival's"
        queue.push(entry(number))
    assert not queue.room(waiting)
    queue.push_reserved(entry(3))
    queue.push_reserved(entry(4))
    assert not queue.reserve(), "a completion keeps its place until it is polled"
    assert [c.wr_id for c in queue.poll(1)] == [1]
    assert waiting.got == 1
    assert not queue.reserve(), "an arrival's place is none of a request's"
    assert [c.wr_id for c in queue.poll(10)] == [2, 3, 4, 100]
    assert queue.reserve()
    assert queue.reserve()
    assert not queue.reserve()


def test_failures_of_unsignaled_requests_take_no_slot_and_count_until_polled() -> None:
    queue = NicCompletionQueue(1, 1, set(), set())
    waiting = Waiting(queue)
    for number in range(3):
        queue.push_failure(entry(number))
    assert queue.failures == {1: 3}
    assert queue.reserve()
    assert queue.room(waiting)
    queue.push(entry(3))
    assert [c.wr_id for c in queue.poll(2)] == [0, 1]
    assert queue.failures == {1: 1}
    assert [c.wr_id for c in queue.poll(2)] == [2, 3]
    assert queue.failures == {}


def test_waiting_receivers_get_room_in_order() -> None:
    queue = NicCompletionQueue(1, 2, set(), set())

    class Greedy(Waiting):
        def on_cq_room(self) -> None:
            while self.queue.room(self):
                self.queue.push(entry(100))
                self.got += 1

    receivers = [Greedy(queue) for _ in range(3)]
    for receiver in receivers:
        receiver.on_cq_room()
    receivers[0].got = 0
    for _ in range(30):
        assert len(queue.poll(1)) == 1
    assert [receiver.got for receiver in receivers] == [10, 10, 10]


def test_poll_returns_the_oldest_completions_up_to_the_limit() -> None:
    queue = NicCompletionQueue(1, 10, set(), set())
    for number in range(5):
        queue.push(entry(number))
    assert [c.wr_id for c in queue.poll(2)] == [0, 1]
    assert [c.wr_id for c in queue.poll(0)] == []
    assert [c.wr_id for c in queue.poll(9)] == [2, 3, 4]


def test_new_completions_are_announced_by_queue_number() -> None:
    ready: set[int] = set()
    queue = NicCompletionQueue(7, 2, ready, set())
    assert not ready
    queue.push(entry(1))
    assert ready == {7}


def test_a_destroyed_receiver_is_not_called() -> None:
    queue = NicCompletionQueue(1, 1, set(), set())
    queue.push(entry(1))
    waiting = Waiting(queue)
    assert not queue.room(waiting)
    queue.forget(waiting)
    queue.poll(1)
    assert waiting.got == 0


def test_unpolled_failures_are_counted_as_they_come_and_go_without_looking_at_all_queue_pairs() -> None:
    class Unlisted(dict[int, int]):
        def values(self) -> Any:
            raise AssertionError("a queue may serve many thousand queue pairs")

    queue = NicCompletionQueue(1, 10, set(), set())
    queue.failures, queue.flushed_receives = Unlisted(), Unlisted()
    for number in range(4):
        queue.push_failure(entry(number))
        queue.push_flushed_receive(entry(number))
    assert queue.unpolled_failures() == 8
    for left in range(7, -1, -1):
        queue.poll(1)
        assert queue.unpolled_failures() == left
