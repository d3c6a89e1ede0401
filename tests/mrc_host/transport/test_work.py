"""The send queue: order, statuses, places."""

import random

from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.transport.memory import MemoryTable
from mrc_host.transport.work import SendQueue
from mrc_host.verbs_types import Access, CompletionStatus, WorkRequest, WrOpcode


def make() -> tuple[SendQueue, NicCompletionQueue, WorkRequest]:
    memory = MemoryTable(random.Random(1))
    region = memory.register(0, memoryview(bytearray(100)), Access.LOCAL_WRITE)
    cq = NicCompletionQueue(1, 10, set(), set())
    request = WorkRequest(0, WrOpcode.WRITE, region.address, region.lkey, 10, 0, 0)
    return SendQueue(5, 0, cq, memory, 8), cq, request


def post(queue: SendQueue, request: WorkRequest, wr_id: int, signaled: bool = True, lkey: int | None = None) -> None:
    key = request.lkey if lkey is None else lkey
    queue.post(WorkRequest(wr_id, WrOpcode.WRITE, request.local_address, key, 10, 0, 0, None, signaled))


def test_requests_complete_in_order_and_count_bytes() -> None:
    queue, cq, request = make()
    for wr_id in range(4):
        post(queue, request, wr_id, signaled=wr_id != 2)
        queue.start()
    queue.complete(3)
    assert [(c.wr_id, c.byte_len, c.qpn) for c in cq.poll(9)] == [(0, 10, 5), (1, 10, 5)]
    assert queue.bytes_completed == 30


def test_a_failure_completes_the_oldest_with_its_error_and_flushes_the_rest() -> None:
    queue, cq, request = make()
    for wr_id in range(4):
        post(queue, request, wr_id, signaled=wr_id % 2 == 0)
    queue.start()
    queue.fail(CompletionStatus.RETRY_EXCEEDED, "why")
    assert [(c.wr_id, c.status) for c in cq.poll(9)] == [
        (0, CompletionStatus.RETRY_EXCEEDED),
        (1, CompletionStatus.FLUSHED),
        (2, CompletionStatus.FLUSHED),
        (3, CompletionStatus.FLUSHED),
    ]
    assert cq.reserve(), "no place is left behind"
    queue.fail(CompletionStatus.RETRY_EXCEEDED, "again")
    assert not cq.poll(9)


def test_an_invalid_local_range_fails_only_as_the_oldest_request() -> None:
    queue, _cq, request = make()
    post(queue, request, 1)
    post(queue, request, 2, lkey=request.lkey ^ 1)
    assert not queue.broken_head()
    queue.start()
    assert not queue.broken_head(), "the one before is still on its way"
    queue.complete(1)
    assert queue.broken_head()
