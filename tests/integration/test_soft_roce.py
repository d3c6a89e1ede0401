"""The RC baseline against an independent implementation, the kernel's soft-RoCE: writes both ways, errors, losses.

Each write is compared byte for byte, and the counters of the kernel's device say that it took part.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator

import pytest

from mrc_host import verbs
from mrc_host.verbs_types import CompletionStatus, QpAddress, QpAttributes, QpType
from tests.integration import soft_roce
from tests.integration.soft_roce import MTU, SIZE, KernelPeer, Pair
from tests.seeds import SEED

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="devices of soft-RoCE need root"),
    pytest.mark.skipif(bool(soft_roce.missing()), reason=soft_roce.missing() or "none"),
]

LENGTHS = (1, 3, 4, MTU - 1, MTU, MTU + 1, 2 * MTU, 100_001, SIZE)
PATIENT = QpAttributes(timeout=16, retry_count=7, path_mtu=MTU)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with soft_roce.pair(tmp_path_factory.mktemp("rxe")) as made:
        yield made


class Ends:
    """Two connected queue pairs: `ours`, with its memory and queue, and the kernel's."""

    def __init__(self, joined: Pair) -> None:
        self.kernel = KernelPeer(joined.device, joined.address)
        self.context = verbs.open(joined.agent.socket)
        self.pd = self.context.alloc_pd()
        self.cq = self.context.create_cq(256)
        self.mr = self.pd.alloc_mr(SIZE)
        self.qp = self.pd.create_qp(self.cq, self.cq, QpType.RC, PATIENT)
        self.qp.connect(QpAddress(joined.address, self.kernel.qpn, self.kernel.psn))
        self.kernel.connect(self.qp.address)

    def to_kernel(self, data: bytes, *, imm: int | None = None) -> None:
        """Write to the kernel's memory and compare."""
        self.kernel.mr.write(bytes(len(data)), len(data))
        self.mr.buffer[: len(data)] = data
        self.qp.post_write(self.mr, 0, len(data), self.kernel.mr.buf, self.kernel.mr.rkey, imm=imm)
        verbs.check(self.cq.wait(60))
        assert self.kernel.mr.read(len(data), 0) == data

    def to_us(self, data: bytes, *, imm: int | None = None) -> None:
        """Write to our memory and compare."""
        self.kernel.mr.write(data, len(data))
        self.mr.buffer[: len(data)] = bytes(len(data))
        self.kernel.write(len(data), self.mr.remote.address, self.mr.remote.rkey, imm=imm)
        done = self.kernel.completion()
        assert done.status == self.kernel.e.IBV_WC_SUCCESS, done
        assert self.mr.buffer[: len(data)] == data


@pytest.fixture
def ends(joined: Pair) -> Iterator[Ends]:
    made = Ends(joined)
    try:
        yield made
    finally:
        made.kernel.close()
        made.context.close()


def noise(length: int) -> bytes:
    seed = SEED
    print("seed", seed)
    return random.Random(seed).randbytes(length)


def packets(length: int) -> int:
    return -(-length // MTU)


def test_writes_of_many_sizes_arrive_at_soft_roce_which_counts_their_packets(ends: Ends) -> None:
    for length in LENGTHS:
        before, sent_again = ends.kernel.counters(), ends.qp.counters().retransmitted
        ends.to_kernel(noise(length))
        # On a busy machine an acknowledgement may come after the timeout. Nothing is lost here, so whatever was sent
        # again is a duplicate.
        again = ends.qp.counters().retransmitted - sent_again
        ends.kernel.advanced(before, "rcvd_pkts", packets(length) + again)
        ends.kernel.advanced(before, "sent_pkts", 1)  # it acknowledges
        ends.kernel.advanced(before, "duplicate_request", again)
        after = ends.kernel.counters()
        assert after["rcvd_pkts"] == before["rcvd_pkts"] + packets(length) + again, length
        assert after["duplicate_request"] == before["duplicate_request"] + again, length
        assert after["out_of_seq_request"] == before["out_of_seq_request"], length


def test_writes_of_soft_roce_of_many_sizes_arrive_here(ends: Ends) -> None:
    for length in LENGTHS:
        before = ends.kernel.counters()
        ends.to_us(noise(length))
        ends.kernel.advanced(before, "sent_pkts", packets(length))
        ends.kernel.advanced(before, "rcvd_pkts", 1)  # we acknowledge
    assert ends.qp.counters().data_received == sum(map(packets, LENGTHS))


def test_many_writes_at_once_both_ways(ends: Ends) -> None:
    half, count, size = SIZE // 2, 16, 20_000
    ours, theirs = noise(count * size), noise(count * size)
    ends.mr.buffer[: count * size] = ours
    ends.kernel.mr.write(theirs, len(theirs))
    for number in range(count):
        at = number * size
        target = ends.kernel.mr.buf + half + at
        ends.qp.post_write(ends.mr, at, size, target, ends.kernel.mr.rkey, wr_id=number)
        ends.kernel.write(size, ends.mr.remote.address + half + at, ends.mr.remote.rkey)
    for number in range(count):
        assert verbs.check(ends.cq.wait(60)).wr_id == number
        assert ends.kernel.completion().status == ends.kernel.e.IBV_WC_SUCCESS
    assert ends.kernel.mr.read(count * size, half) == ours
    assert all(ends.mr.buffer[half + n * size : half + (n + 1) * size] == theirs[:size] for n in range(count))


def test_immediate_data_arrive_both_ways(ends: Ends) -> None:
    for length in (0, 5, 3 * MTU + 1):
        ends.kernel.receive()
        ends.to_kernel(noise(length), imm=0x01020304)
        done = ends.kernel.completion()
        assert done.status == ends.kernel.e.IBV_WC_SUCCESS
        assert done.byte_len == length
        assert done.imm_data.to_bytes(4, sys.byteorder) == bytes((1, 2, 3, 4)), "libibverbs has it in network order"
        ends.to_us(noise(length), imm=int.from_bytes(bytes((10, 11, 12, 13)), sys.byteorder))
        arrived = verbs.check(ends.cq.wait(60))
        assert (arrived.imm, arrived.byte_len) == (0x0A0B0C0D, length)


def test_a_receiver_that_is_not_ready_is_waited_for(ends: Ends) -> None:
    before = ends.kernel.counters()
    ends.qp.post_write(ends.mr, 0, 100, ends.kernel.mr.buf, ends.kernel.mr.rkey, imm=1)
    ends.kernel.advanced(before, "send_rnr_err", 2)
    ends.kernel.receive()
    verbs.check(ends.cq.wait(60))
    assert ends.qp.counters().retransmitted >= 2


@pytest.mark.parametrize("wrong", ["key", "range"])
def test_a_wrong_remote_range_is_refused_both_ways(joined: Pair, wrong: str) -> None:
    ends = Ends(joined)
    off, key = (0, 1) if wrong == "key" else (SIZE - 10, 0)
    ends.qp.post_write(ends.mr, 0, 100, ends.kernel.mr.buf + off, ends.kernel.mr.rkey ^ key << 8)
    assert ends.cq.wait(60).status is CompletionStatus.REMOTE_ACCESS_ERROR
    ends.kernel.close()
    ends = Ends(joined)
    ends.kernel.write(100, ends.mr.remote.address + off, ends.mr.remote.rkey ^ key << 8)
    assert ends.kernel.completion().status == ends.kernel.e.IBV_WC_REM_ACCESS_ERR
    ends.kernel.close()


@pytest.fixture
def lossy(joined: Pair) -> Iterator[None]:
    """Every 10th packet to soft-RoCE is lost, and every 10th that it sends, on average."""
    joined.tc("qdisc", "add", "dev", "DEV", "clsact")
    try:
        for side in ("ingress", "egress"):
            words = ["protocol", "ipv6", "matchall", "action", "gact", "pass", "random", "netrand", "drop", "10"]
            joined.tc("filter", "add", "dev", "DEV", side, *words)
        yield
    finally:
        joined.tc("qdisc", "del", "dev", "DEV", "clsact")


def test_both_recover_from_losses(ends: Ends, lossy: None) -> None:
    for _ in range(4):
        ends.to_kernel(noise(200_000))
        ends.to_us(noise(200_000))
    assert ends.qp.counters().retransmitted > 0
