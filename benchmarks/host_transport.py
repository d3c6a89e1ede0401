"""CPU cost of the transport alone: two NIC devices joined in memory, no sockets, no switches.

``host_transport_cpu_*`` is the CPU time of both ends together, divided by the data packets that arrived (4096 bytes
each, every byte verified at the end), with acknowledgements and completions included: the best of many short rounds,
since only other work on the machine makes a round slower. MRC runs under NSCC, ``mrc_fixed`` with a fixed window.
``host_transport_recovery`` is the time from sending a packet on a path that has just failed to its retransmission, the
longest of all such packets, in round trips, in simulation.

Measurements are those of the compiled transport (``mrc_host.compiled``), and ``host_transport_plain_*`` those of the
same sources in plain Python; each comes from a process of its own. ``python -m benchmarks host`` prints them.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.compiled_and_plain import COMPILED, measure_each
from benchmarks.report import Measurement, report
from mrc_host import compiled

if __name__ == "__main__" and sys.argv[1] == COMPILED:
    compiled.use()  # before anything imports the transport

from benchmarks.sim_fabric import write_messages
from mrc_host.back_to_back import nic_config
from mrc_host.checksum import crc32
from mrc_host.config import ProtocolSettings, TransportSettings
from mrc_host.nic import Nic
from mrc_host.verbs_types import (
    Access,
    CompletionStatus,
    NsccProfile,
    QpAddress,
    QpAttributes,
    QpType,
    WorkRequest,
    WrOpcode,
)
from simulation.world import SimulatedWorld
from topologies.addressing import entropy_value
from topologies.clos import multi_plane_clos
from topologies.faults.path_loss import PathLoss

REGION = 1 << 20
MOST = 1 << 27  # bytes posted at once, by all queue pairs together
PAYLOAD = 4096
SECONDS = 2.0  # for each measurement
BASE_RTT = 1_000_000  # ns, as between processes; which NSCC has to know
CASES = (
    ("mrc_1qp", 1, QpType.MRC, "nscc"),
    ("mrc_64qp", 64, QpType.MRC, "nscc"),
    ("mrc_1000qp", 1000, QpType.MRC, "nscc"),
    ("mrc_fixed_1qp", 1, QpType.MRC, "fixed"),
    ("mrc_fixed_64qp", 64, QpType.MRC, "fixed"),
    ("rc_1qp", 1, QpType.RC, "nscc"),
)
RECOVERY_AT = 50_000  # ns: two of eight messages have arrived
BATCH = 8  # frames a port sends before the next is asked
ONE_WAY = 4_000  # ns a frame is under way, so that round trips are measured: one of 0 counts as unknown


def build_nic(number: int, planes: int, evs: int, seed: int, congestion: str = "nscc") -> Nic:
    """One of two NICs back to back."""
    transport = TransportSettings(
        congestion=congestion,
        base_rtt=BASE_RTT,
        assumed_rate=10_000_000_000,
        nscc=NsccProfile(base_rtt_floor=BASE_RTT),  # as emulated fabrics have it
    )
    config = nic_config(number, planes=planes, uplinks=evs // planes)
    return Nic(replace(config, settings=ProtocolSettings(transport=transport)), seed=seed)


class Pair:
    """Two NICs with connected queue pairs and a region each."""

    def __init__(self, qps: int, qp_type: QpType, congestion: str = "nscc", planes: int = 2, evs: int = 256) -> None:
        self.planes = planes
        self.message = min(REGION, 1 << (MOST // 2 // max(qps, 1)).bit_length() - 1)
        self.a, self.b = (build_nic(number, planes, evs, number + 1, congestion) for number in range(2))
        self.now = 1
        self.source = bytearray(range(256)) * (REGION // 256)
        self.target = bytearray(REGION)
        rights = Access.LOCAL_WRITE | Access.REMOTE_WRITE
        self.mr_a = self.a.register_memory(0, memoryview(self.source), rights)
        self.mr_b = self.b.register_memory(0, memoryview(self.target), rights)
        self.cq = self.a.create_cq(4096)
        far_cq = self.b.create_cq(4096)
        attributes = QpAttributes()
        self.qpns = [self.a.create_qp(0, qp_type, self.cq, self.cq, attributes) for _ in range(qps)]
        self.place = {qpn: number for number, qpn in enumerate(self.qpns)}
        self.far: list[int] = []
        for near in self.qpns:
            far = self.b.create_qp(0, qp_type, far_cq, far_cq, attributes)
            self.far.append(far)
            self.a.connect_qp(near, self.b.qp_address(far), self.now)
            self.b.connect_qp(far, self.a.qp_address(near), self.now)

    def post(self, qpn: int) -> None:
        """One message: the region, or where there are many queue pairs, a part of it, another one for each."""
        a, b, length = self.mr_a, self.mr_b, self.message
        offset = self.place[qpn] * length % REGION
        request = WorkRequest(1, WrOpcode.WRITE, a.address + offset, a.lkey, length, b.address + offset, b.rkey)
        self.a.post_send(qpn, request, self.now)

    def received(self) -> int:
        """Data packets that arrived so far."""
        return sum(self.b.qp_counters(qpn).data_received for qpn in self.far)

    def step(self) -> None:
        """A batch of frames on each line, one way and then the other, as a driver moves them."""
        for sender, receiver in ((self.a, self.b), (self.b, self.a)):
            self.now += ONE_WAY
            for port in range(self.planes):
                for _ in range(BATCH):
                    frame = sender.transmit(port, self.now - ONE_WAY)
                    if frame is None:
                        break
                    receiver.receive(port, frame, self.now)
        for nic in (self.a, self.b):
            due = nic.wakeup()
            if due is not None and due <= self.now:
                nic.tick(self.now)


def _cpu_per_packet(qps: int, qp_type: QpType, congestion: str, seconds: float) -> float:
    """Microseconds of CPU per data packet, both ends together."""
    pair = Pair(qps, qp_type, congestion)
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
            for completion in pair.a.poll_cq(pair.cq, 1024, pair.now):
                assert completion.status is CompletionStatus.SUCCESS, completion
                pair.post(completion.qpn)
        spent = time.process_time() - start
        best = min(best, spent * 1e6 / (pair.received() - before))
    left = 2 * qps
    while left:
        pair.step()
        left -= len(pair.a.poll_cq(pair.cq, 1024, pair.now))
    assert pair.target == pair.source
    return best


def _idle_memory(qps: int = 64) -> float:
    """KiB per connected idle queue pair with 256 EVs."""
    pair = Pair(0, QpType.MRC)
    cq = pair.a.create_cq(16)
    far = pair.a.config.destinations[0].address
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(qps):
        qpn = pair.a.create_qp(0, QpType.MRC, cq, cq, QpAttributes())
        pair.a.connect_qp(qpn, QpAddress(far, number + 16, 0), pair.now)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / qps / 1024


def measure() -> Iterator[Measurement]:
    """All measurements of this file, each of the two kinds of transport in a process of its own."""
    return measure_each("benchmarks.host_transport")


def _measurements(prefix: str) -> Iterator[Measurement]:
    """The measurements of the transport as it is in this process."""
    copies = _copy_and_check()
    yield Measurement(f"{prefix}_copy_and_crc", copies, "us/packet")
    for name, qps, kind, congestion in CASES:
        cost = _cpu_per_packet(qps, kind, congestion, SECONDS)
        yield Measurement(f"{prefix}_cpu_{name}", cost, "us/packet", cost / copies, f"{prefix}_copy_and_crc")
    yield Measurement(f"{prefix}_idle_qp_memory", _idle_memory(), "KiB")
    yield Measurement(f"{prefix}_recovery", _recovery(), "round trips")


def _recovery() -> float:
    """Round trips from a packet's loss on a path that stops working, one of 256, to its retransmission: the longest.

    RuntimeError if no packet was lost, or a timeout was needed.
    """
    events: list[Mapping[str, Any]] = []
    fabric = multi_plane_clos(planes=4, t0=2, t1=64, hosts=2)
    with SimulatedWorld(fabric, seed=1, rate=100_000_000_000) as world:
        world.faults.add(PathLoss(ev=entropy_value(1, 17), source="h1", destination="h2"), at=RECOVERY_AT)
        world.nic("h1").set_trace(events.append)
        world.run(write_messages(world, "h1", "h2", 8))
        round_trip = world.timing.round_trip
    sent: dict[int, list[int]] = {}  # by PSN
    for event in events:
        if event["event"] == "send" and event["op"] == "write":
            sent.setdefault(event["psn"], []).append(event["t"])
    lost = [event["why"] for event in events if event["event"] == "lost"]
    repeated = [times[1] - times[0] for times in sent.values() if len(times) > 1]
    if "timeout" in lost or not repeated:
        raise RuntimeError(f"the dead path was not found by the packets behind it, but: {lost}")
    return max(repeated) / round_trip


def _copy_and_check() -> float:
    """What no implementation gets around: the transport's checksum and a copy of 4096 bytes at either end."""
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


if __name__ == "__main__":
    report(_measurements("host_transport" if sys.argv[1] == COMPILED else "host_transport_plain"))
