"""Flows that always have data to send, and the fabrics on which random congestion is tried."""

from __future__ import annotations

from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpType
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.queues import QueueProfile

US = 1_000
GIGABIT = 1_000_000_000
_PAYLOAD = 4096
OVERHEAD = 142 + 24  # bytes of a packet on the wire besides its payload


def fabric_of(
    planes: int,
    t1: int,
    *,
    t0: int = 2,
    hosts: int = 2,
    rate: int = 100 * GIGABIT,
    trimming: bool = True,
    ecn_lasthop: bool = False,
    retransmissions_first: bool = True,
) -> Fabric:
    """A fabric with the queue thresholds that Ultra Ethernet advises."""
    queues = QueueProfile(trimming=trimming, ecn_lasthop=ecn_lasthop, retransmissions_first=retransmissions_first)
    return multi_plane_clos(planes=planes, t0=t0, t1=t1, hosts=hosts, rate_bps=rate, queues=queues)


def line_rate(rate: int) -> float:
    """What one port of `rate` bit/s carries of data."""
    return rate * _PAYLOAD / (_PAYLOAD + OVERHEAD)


class Flow:
    """Writes from one host to another, `depth` at a time, if `endless` one after another."""

    def __init__(
        self, world: SimulatedWorld, source: str, target: str, attributes: QpAttributes, kind: QpType = QpType.MRC,
        size: int = 1 << 20, depth: int = 32, endless: bool = True,
    ) -> None:  # fmt: skip
        near, far = world.open(source), world.open(target)
        near_pd, far_pd = near.alloc_pd(), far.alloc_pd()
        self._local, self._remote = near_pd.alloc_mr(size), far_pd.alloc_mr(size)
        self._cq, far_cq = near.create_cq(1024), far.create_cq(1024)
        self.qp = near_pd.create_qp(self._cq, self._cq, kind, attributes)
        self.far_qp = far_pd.create_qp(far_cq, far_cq, kind, attributes)
        self.qp.connect(self.far_qp.address)
        self.far_qp.connect(self.qp.address)
        self._endless = endless
        self._left = depth
        for number in range(depth):
            self.qp.write(self._local, self._remote.remote, wr_id=number)
        world.spawn(self._refill())

    async def _refill(self) -> None:
        while True:
            completion = await self._cq.next()
            assert completion.status is CompletionStatus.SUCCESS, completion
            if self._endless:
                self.qp.write(self._local, self._remote.remote, wr_id=completion.wr_id)
            else:
                self._left -= 1

    @property
    def done(self) -> bool:
        """Whether all writes have completed."""
        return self._left == 0

    def packets_received(self) -> int:
        """Packets of data that have arrived."""
        return self.far_qp.counters().data_received

    def received(self) -> int:
        """Bytes that have arrived, with those of unfinished writes."""
        return self.packets_received() * _PAYLOAD
