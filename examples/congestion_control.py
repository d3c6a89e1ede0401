"""A congestion control of your own, against NSCC, in an incast: three hosts write to one.

A controller gets acknowledgements, marks, trims and losses, and returns a window in bytes, ``cwnd``
(docs/congestion.md). This one adds a packet each round trip, and halves the window when a packet was marked or trimmed,
at most once a round trip: the classic AIMD. Run it with ``.venv/bin/python examples/congestion_control.py``.
"""

from __future__ import annotations

import asyncio

from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.congestion import CongestionControl
from mrc_host.verbs_types import QpAttributes
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos

MTU, ROUND_TRIP = 4096, 12_000  # bytes, ns
LENGTH = 1 << 20


class Aimd(CongestionControl):
    """Additive increase, multiplicative decrease."""

    def __init__(self, cwnd: int) -> None:
        super().__init__(cwnd)
        self._halved = -ROUND_TRIP

    def on_ack(
        self, acked: int, received: int, rtt: int, marked: bool, now: int, penalty: int = 0, restore: bool = False
    ) -> None:
        """Grow by a packet a window; shrink on a mark."""
        if marked:
            self._halve(now)
        else:
            self.cwnd += MTU * acked // self.cwnd

    def on_trim(self, size: int, now: int, rtt: int = 0) -> None:
        """A queue was full."""
        self._halve(now)

    def _halve(self, now: int) -> None:
        if now - self._halved >= ROUND_TRIP:
            self._halved = now
            self.cwnd = max(self.cwnd // 2, MTU)


async def incast(world: SimulatedWorld, congestion: str) -> tuple[int, int, int]:
    """Hosts h1 to h3 write to h4; returns when all is done (ns), packets, and retransmissions."""
    target = world.open("h4")
    attributes = world.attributes(QpAttributes(cc_profile=congestion))

    async def write(host: str) -> tuple[int, int]:
        context = world.open(host)
        pd, far_pd = context.alloc_pd(), target.alloc_pd()
        source, region = pd.alloc_mr(LENGTH), far_pd.alloc_mr(LENGTH)
        cq = context.create_cq()
        qp = pd.create_qp(cq, attributes=attributes)
        far_qp = far_pd.create_qp(target.create_cq(), attributes=attributes)
        qp.connect(far_qp.endpoint())
        far_qp.connect(qp.endpoint())
        qp.write(source, region.remote)
        await cq.next()
        return qp.counters().data_sent, qp.counters().retransmitted

    counts = await asyncio.gather(*(write(host) for host in ("h1", "h2", "h3")))
    return world.now, sum(sent for sent, _ in counts), sum(again for _, again in counts)


def main() -> None:
    """Print a line for each congestion control."""
    fabric = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)
    own = {"aimd": Algorithm(lambda link: Aimd(link.window))}
    for name in ("none", "aimd", "nscc"):
        with SimulatedWorld(fabric, seed=1, rate=100_000_000_000, congestion=own) as world:
            took, sent, again = world.run(incast(world, name)) or (0, 0, 0)
            print(f"{name:5} {took / 1000:6.1f} us, {sent} packets, {again} of them sent again")


if __name__ == "__main__":
    main()
