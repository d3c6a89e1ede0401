"""CPU cost of the transport alone: two NIC devices joined in memory, no sockets, no switches.

``host_transport_cpu_*`` is the CPU time of both ends together, divided by the data packets that arrived (4096 bytes
each, every byte verified at the end), with acknowledgements and completions included: the best of many short rounds,
since only other work on the machine makes a round slower. ``python -m benchmarks host`` prints the figures.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from zlib import crc32

from benchmarks.report import Figure
from mrc_host.config import Destination, NicConfig, PortConfig, UsidTemplate
from mrc_host.nic import Nic
from mrc_host.values import (
    Access,
    CompletionStatus,
    QpAddress,
    QpAttributes,
    QpType,
    WorkRequest,
    WrOpcode,
)

BLOCK = 0xFC000000
MESSAGE = 1 << 20
PAYLOAD = 4096
SECONDS = 2.0  # for each figure
BATCH = 8  # frames a port sends before the next is asked


def build_nic(number: int, planes: int, evs: int, seed: int) -> Nic:
    """One of two NICs on direct wires: the uSID list holds the far NIC only."""
    other = 1 - number
    usid = [0x6000 | p << 10 | number for p in range(planes)]
    template = UsidTemplate(BLOCK << 96 | (0x6000 | other) << 80, plane_shifts=(90,), uplink_shift=None)
    paths = tuple(p << 10 | u for p in range(planes) for u in range(evs // planes))
    ports = tuple(
        PortConfig(p, bytes((2, 0, 0, 0, number, p)), bytes((2, 0, 0, 0, other, p)), usid[p], 0, "")
        for p in range(planes)
    )
    destination = Destination("far", bytes(15) + bytes([other + 1]), template, paths)
    return Nic(NicConfig(f"n{number}", bytes(15) + bytes([number + 1]), BLOCK, ports, (destination,)), seed=seed)


class Pair:
    """Two NICs with connected queue pairs and a region each."""

    def __init__(self, qps: int, qp_type: QpType, planes: int = 2, evs: int = 256) -> None:
        self.planes = planes
        self.a, self.b = build_nic(0, planes, evs, 1), build_nic(1, planes, evs, 2)
        self.now = 1
        self.source = bytearray(range(256)) * (MESSAGE // 256)
        self.target = bytearray(MESSAGE)
        rights = Access.LOCAL_WRITE | Access.REMOTE_WRITE
        self.mr_a = self.a.register_memory(0, memoryview(self.source), rights)
        self.mr_b = self.b.register_memory(0, memoryview(self.target), rights)
        self.cq = self.a.create_cq(4096)
        far_cq = self.b.create_cq(4096)
        attributes = QpAttributes()
        self.qpns = [self.a.create_qp(0, qp_type, self.cq, self.cq, attributes) for _ in range(qps)]
        self.far: list[int] = []
        for near in self.qpns:
            far = self.b.create_qp(0, qp_type, far_cq, far_cq, attributes)
            self.far.append(far)
            self.a.connect_qp(near, QpAddress(bytes(15) + b"\2", far), self.now)
            self.b.connect_qp(far, QpAddress(bytes(15) + b"\1", near), self.now)

    def post(self, qpn: int) -> None:
        """One message."""
        a, b = self.mr_a, self.mr_b
        self.a.post_send(qpn, WorkRequest(1, WrOpcode.WRITE, a.address, a.lkey, MESSAGE, b.address, b.rkey), self.now)

    def received(self) -> int:
        """Data packets that arrived so far."""
        return sum(self.b.qp_counters(qpn).data_received for qpn in self.far)

    def step(self) -> None:
        """A batch of frames on each line, one way and then the other, as a driver moves them."""
        self.now += BATCH * 1000
        for sender, receiver in ((self.a, self.b), (self.b, self.a)):
            for port in range(self.planes):
                for _ in range(BATCH):
                    frame = sender.transmit(port, self.now)
                    if frame is None:
                        break
                    receiver.receive(port, frame, self.now)
        for nic in (self.a, self.b):
            due = nic.wakeup()
            if due is not None and due <= self.now:
                nic.tick(self.now)


def _cpu_per_packet(qps: int, qp_type: QpType, seconds: float) -> float:
    """Microseconds of CPU per data packet, both ends together."""
    pair = Pair(qps, qp_type)
    for qpn in pair.qpns:
        pair.post(qpn)
        pair.post(qpn)
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        before = pair.received()
        start = time.process_time()
        for _ in range(4):
            for _ in range(32):
                pair.step()
            for completion in pair.a.poll_cq(pair.cq, 1024):
                assert completion.status is CompletionStatus.SUCCESS, completion
                pair.post(completion.qpn)
        spent = time.process_time() - start
        best = min(best, spent * 1e6 / (pair.received() - before))
    left = 2 * qps
    while left:
        pair.step()
        left -= len(pair.a.poll_cq(pair.cq, 1024))
    assert pair.target == pair.source
    return best


def _idle_memory(qps: int = 64) -> float:
    """KiB per connected idle queue pair with 256 EVs."""
    pair = Pair(0, QpType.MRC)
    cq = pair.a.create_cq(16)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(qps):
        qpn = pair.a.create_qp(0, QpType.MRC, cq, cq, QpAttributes())
        pair.a.connect_qp(qpn, QpAddress(bytes(15) + b"\2", number + 16), pair.now)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / qps / 1024


def measure() -> Iterator[Figure]:
    """All figures of this file."""
    copies = _copy_and_check()
    yield Figure("host_transport_copy_and_crc", copies, "us/packet")
    for name, qps, kind in (("mrc_1qp", 1, QpType.MRC), ("mrc_64qp", 64, QpType.MRC), ("rc_1qp", 1, QpType.RC)):
        cost = _cpu_per_packet(qps, kind, SECONDS)
        yield Figure(f"host_transport_cpu_{name}", cost, "us/packet", cost / copies, "host_transport_copy_and_crc")
    yield Figure("host_transport_idle_qp_memory", _idle_memory(), "KiB")


def _copy_and_check() -> float:
    """What no implementation gets around: checksum and copy of 4096 bytes at either end."""
    payload, target = bytes(PAYLOAD + 36), bytearray(PAYLOAD)
    best = float("inf")
    for _ in range(50):
        start = time.process_time()
        for _ in range(200):
            crc32(payload)
            frame = b"".join((payload, b"tail"))
            crc32(frame)
            target[:] = memoryview(frame)[:PAYLOAD]
        best = min(best, (time.process_time() - start) * 1e6 / 200)
    return best
