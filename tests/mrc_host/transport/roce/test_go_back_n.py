"""Go-back-N by itself: PSNs, the requests they belong to, and the bytes on the way."""

import random

from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.memory import MemoryTable
from mrc_host.transport.roce.go_back_n import GoBackN
from mrc_host.transport.work import SendQueue
from mrc_host.verbs_types import Access, WorkRequest, WrOpcode

MTU = 1024
FIRST = 100


class Rig:
    """Sends in order, without frames, timers or answers."""

    def __init__(self, *lengths: int) -> None:
        memory = MemoryTable(random.Random(1))
        region = memory.register(0, memoryview(bytearray(64 * MTU)), Access.LOCAL_WRITE)
        self._region = region
        self.cq = NicCompletionQueue(1, 64, set(), set())
        self.sends = SendQueue(0x11, 0, self.cq, memory, 64)
        self.cc = CongestionControl(1 << 20)
        self.sent = GoBackN(self.sends, self.cc, MTU, FIRST)
        for length in lengths:
            self.post(length)

    def post(self, length: int, lkey: int | None = None) -> None:
        region = self._region
        key = region.lkey if lkey is None else lkey
        self.sends.post(WorkRequest(length, WrOpcode.WRITE, region.address, key, length, 0, 0))

    def send(self, count: int) -> list[tuple[int, int, int]]:
        """Up to `count` packets: PSN, wr_id of the request, payload bytes."""
        out: list[tuple[int, int, int]] = []
        while len(out) < count and self.sent.pending():
            psn, wqe = self.sent.send, self.sent.request()
            size = min(MTU, wqe.length - (psn - wqe.first_psn) * MTU)
            self.sent.transmitted(size)
            out.append((psn, wqe.wr_id, size))
        return out

    def completed(self) -> list[int]:
        return [completion.wr_id for completion in self.cq.poll(64)]


def test_requests_get_psns_in_order_as_they_are_started() -> None:
    rig = Rig(2 * MTU + 1, 5, MTU)
    assert rig.sent.pending()
    long, short, full = 2 * MTU + 1, 5, MTU
    assert rig.send(99) == [
        (100, long, MTU), (101, long, MTU), (102, long, 1), (103, short, 5), (104, full, MTU),
    ]  # fmt: skip
    assert not rig.sent.pending()
    assert (rig.sent.una, rig.sent.send, rig.sent.next, rig.sent.max) == (100, 105, 105, 105)
    assert rig.sent.psns_used() == 5


def test_bytes_in_flight_are_those_sent_and_not_acknowledged() -> None:
    rig = Rig(2 * MTU + 1, 5)
    rig.send(4)
    assert rig.cc.inflight == 2 * MTU + 6
    assert rig.sent.acknowledge(101) == MTU
    assert rig.sent.acknowledge(103) == MTU + 1
    assert rig.cc.inflight == 5
    assert rig.completed() == [2 * MTU + 1]
    assert rig.sent.acknowledge(104) == 5
    assert rig.cc.inflight == 0
    assert rig.completed() == [5]


def test_going_back_resends_from_the_first_unacknowledged_packet() -> None:
    rig = Rig(2 * MTU, 3 * MTU, 7)
    first = rig.send(6)
    rig.sent.acknowledge(103)
    assert rig.sent.go_back()
    assert rig.cc.inflight == 0
    assert rig.sent.send == 103 < rig.sent.max == 106
    assert rig.send(99) == first[3:]
    assert rig.sent.psns_used() == 6


def test_going_back_with_nothing_in_flight_does_nothing() -> None:
    rig = Rig(MTU)
    assert not rig.sent.go_back()
    rig.send(1)
    rig.sent.acknowledge(101)
    assert not rig.sent.go_back()


def test_a_late_ack_skips_packets_not_yet_resent() -> None:
    """Bytes that are not on the way any more are not taken off twice."""
    rig = Rig(2 * MTU, 3 * MTU)
    rig.send(5)
    rig.sent.go_back()
    rig.send(1)
    assert rig.sent.acknowledge(104) == MTU
    assert rig.cc.inflight == 0
    assert rig.completed() == [2 * MTU]
    assert rig.send(99) == [(104, 3 * MTU, MTU)]


def test_requests_after_one_with_an_invalid_local_range_are_not_started() -> None:
    rig = Rig(MTU)
    rig.post(5, lkey=12345)
    rig.post(6)
    assert rig.send(99) == [(100, MTU, MTU)]
    assert not rig.sent.pending()
    rig.sent.go_back()
    assert rig.sent.pending(), "what is before it may go again"
