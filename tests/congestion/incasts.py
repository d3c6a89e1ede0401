"""Random incasts: what they cost in retransmissions, beside the open model of Ultra Ethernet.

8 to 32 hosts, below the receiver's own T0 and others at random, write 1 MiB each to one at the same time, at 100 Gb/s.
For each new packet there may be 1.05 times as many retransmissions as in uet-htsim, in the mean of ten seeds on 128
nodes without marks on the last hop (docs/congestion.md).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from simulation.world import SimulatedWorld
from tests.congestion.flows import US, Flow, fabric_of

_HOSTS = 64
_SIZE = 1 << 20
_PACKETS = _SIZE // 4096
_HTSIM = ((8, 0.391), (32, 0.795))  # senders, retransmissions for each new packet
_TIME = 20_000 * US


@dataclass(frozen=True)
class Incast:
    """A world: the hosts that send to h1, and whether the last hop marks."""

    senders: tuple[str, ...]
    marks: bool

    @classmethod
    def random(cls, seed: int) -> Incast:
        """The world of a seed."""
        rng = random.Random(seed)
        hosts = rng.sample(range(2, _HOSTS + 1), rng.randint(8, 32))
        return cls(tuple(f"h{host}" for host in hosts), rng.random() < 0.5)

    @property
    def limit(self) -> float:
        """Retransmissions that it may have for each new packet."""
        (few, least), (many, most) = _HTSIM
        return 1.05 * (least + (most - least) * (len(self.senders) - few) / (many - few))


def cost(incast: Incast, seed: int) -> float:
    """Retransmissions for each new packet; all writes have to end."""
    with SimulatedWorld(fabric_of(1, 8, t0=8, hosts=_HOSTS, ecn_lasthop=incast.marks), seed=seed) as world:
        attributes = world.attributes()
        flows = [Flow(world, host, "h1", attributes, size=_SIZE, depth=1, endless=False) for host in incast.senders]
        while world.now < _TIME and not all(flow.done for flow in flows):
            world.run(world.now + 100 * US)
        assert all(flow.done for flow in flows), f"writes did not end in {_TIME // US} us"
        return sum(flow.qp.counters().retransmitted for flow in flows) / (_PACKETS * len(flows))


def check(seed: int) -> str:
    """Run the world of a seed: what is wrong with it, or nothing."""
    incast = Incast.random(seed)
    got = cost(incast, seed)
    if got <= incast.limit:
        return ""
    return f"{got:.3f} retransmissions for each new packet, more than {incast.limit:.3f}: {incast}"
