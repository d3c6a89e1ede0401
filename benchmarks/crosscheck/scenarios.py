"""What both simulators run: a fabric of two tiers, thresholds of its queues, and flows that all begin at once.

A packet of htsim has as many bytes as ours takes on the line with all that is around it, and a flow as many packets.
Then both have the same work for every link, although their headers differ.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from mrc_lab.workloads.htsim.connection_matrix import ConnectionMatrix, MatrixFlow
from mrc_lab.workloads.htsim.topology import FatTree, FatTreeTier

GBPS = 100
LINK_NS = 1000
HOSTS, BELOW_T0, T1S = 128, 8, 8
PAYLOAD = 4096  # bytes of our packets
ACK = 64  # bytes of htsim's control packets
LINKS = 4  # of the longest path
SLOW_SHARE = 4  # htsim's -failed leaves a quarter of the rate


@dataclass(frozen=True, slots=True)
class Constants:
    """Thresholds (packets) and times (ns) for packets of `wire` bytes on the line, as uet-htsim derives them."""

    wire: int

    @property
    def round_trip(self) -> float:
        """Longest path there and back, with a packet and an acknowledgement on every link."""
        return 2 * LINKS * LINK_NS + LINKS * (self.wire + ACK) * 8 / GBPS

    @property
    def product(self) -> float:
        """Bytes of a bandwidth-delay product."""
        return self.round_trip * GBPS / 8

    @property
    def queue(self) -> int:
        """Where queues trim: one bandwidth-delay product."""
        return math.ceil(self.product / self.wire)

    @property
    def ecn_low(self) -> int:
        """Where marking begins."""
        return math.ceil(0.2 * self.queue)

    @property
    def ecn_high(self) -> int:
        """From where on all is marked."""
        return math.ceil(0.8 * self.queue)

    @property
    def step(self) -> int:
        """Where DCQCN marks, all at once."""
        return self.queue // 2

    @property
    def target_delay(self) -> float:
        """Queueing delay that NSCC aims at."""
        return 0.75 * self.round_trip

    @property
    def window(self) -> float:
        """NSCC's largest window and the first, in packets."""
        return 1.5 * self.product / self.wire


@dataclass(frozen=True, slots=True)
class Scenario:
    """Flows of `packets` packets each, from host to host (from 0 on); `t1s` T1s join the T0s, the first may be slow."""

    name: str
    pairs: tuple[tuple[int, int], ...]
    packets: int
    t1s: int = T1S
    slow: bool = False

    def matrix(self, payload: int) -> ConnectionMatrix:
        """The flows, if a packet carries `payload` bytes."""
        flows = (
            MatrixFlow(source, destination, self.packets * payload, 0, number)
            for number, (source, destination) in enumerate(self.pairs, 1)
        )
        return ConnectionMatrix(HOSTS, tuple(flows))

    @property
    def tree(self) -> FatTree:
        """The fabric, all links alike."""
        lower = FatTreeTier(GBPS, BELOW_T0, self.t1s, LINK_NS, 0, BELOW_T0 // self.t1s)
        return FatTree(HOSTS, HOSTS, (lower, FatTreeTier(GBPS, HOSTS // BELOW_T0, 0, LINK_NS)))


def _permutation(seed: int) -> tuple[tuple[int, int], ...]:
    """Each host writes to another, and none below its own T0, so that all flows take the longest path."""
    chance = random.Random(seed)
    while True:
        others = chance.sample(range(HOSTS), HOSTS)
        for host in range(HOSTS):  # swaps, since drawing all again would take for ever
            while host // BELOW_T0 == others[host] // BELOW_T0:
                at = chance.randrange(HOSTS)
                others[host], others[at] = others[at], others[host]
        if all(host // BELOW_T0 != other // BELOW_T0 for host, other in enumerate(others)):
            return tuple(enumerate(others))


def _incast(senders: int) -> tuple[tuple[int, int], ...]:
    """From below other T0s than the receiver's, host 0, as evenly as possible."""
    racks = HOSTS // BELOW_T0 - 1
    return tuple((BELOW_T0 * (1 + number % racks) + number // racks, 0) for number in range(senders))


SCENARIOS = (
    Scenario("permutation", _permutation(1), 512),
    *(Scenario(f"incast {senders}:1", _incast(senders), 256) for senders in (2, 8, 32)),
    Scenario("oversubscribed 4:1", _permutation(2), 128, t1s=2),
    Scenario("a slow T1", _permutation(3), 512, slow=True),
)
