"""Completion queues: places, backpressure, news."""

from mrc_host.transport.completion import CompletionQueue, Receiver
from mrc_host.values import Completion, CompletionOpcode, CompletionStatus


def entry(number: int) -> Completion:
    return Completion(number, 1, CompletionOpcode.WRITE, CompletionStatus.SUCCESS, 1)


class Waiting(Receiver):
    def __init__(self, queue: CompletionQueue) -> None:
        self.queue = queue
        self.got = 0

    def room_again(self) -> None:
        if self.queue.room(self):
            self.queue.push(entry(100))
            self.got += 1


def test_reserved_places_are_kept_for_their_owners() -> None:
    queue = CompletionQueue(1, 3, set(), set())
    assert queue.reserve()
    assert queue.reserve()
    waiting = Waiting(queue)
    assert queue.room(waiting)
    queue.push(entry(1))
    assert not queue.room(waiting)
    assert not queue.reserve()
    queue.push_reserved(entry(2))
    queue.push_reserved(entry(3))
    assert [c.wr_id for c in queue.poll(10)] == [1, 2, 3]
    assert waiting.got == 1


def test_poll_takes_oldest_first_and_no_more_than_asked() -> None:
    queue = CompletionQueue(1, 10, set(), set())
    for number in range(5):
        queue.push(entry(number))
    assert [c.wr_id for c in queue.poll(2)] == [0, 1]
    assert [c.wr_id for c in queue.poll(0)] == []
    assert [c.wr_id for c in queue.poll(9)] == [2, 3, 4]


def test_news_is_announced_by_number() -> None:
    ready: set[int] = set()
    queue = CompletionQueue(7, 2, ready, set())
    assert not ready
    queue.push(entry(1))
    assert ready == {7}


def test_a_receiver_that_is_gone_is_not_called() -> None:
    queue = CompletionQueue(1, 1, set(), set())
    queue.push(entry(1))
    waiting = Waiting(queue)
    assert not queue.room(waiting)
    queue.forget(waiting)
    queue.poll(1)
    assert waiting.got == 0
