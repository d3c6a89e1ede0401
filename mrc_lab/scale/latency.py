"""Times of single packets on an idle network: what rates do not say of the end of a message or of a chunk's way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrc_lab.scale.network import Integers
from topologies.fabric import Fabric, FabricNic
from topologies.ideal_completion import IdealCompletion, PacketSizes
from topologies.parts import Tier


@dataclass(frozen=True, slots=True)
class Latency:
    """Between two hosts whose paths turn at T0s, T1s and T2s, in ns; 0 of a tier where none do.

    `arrival` is from when the last byte of a packet leaves the sender until it has arrived, `completion` until the
    acknowledgement is back.
    """

    arrival: tuple[int, ...]
    completion: tuple[int, ...]

    @classmethod
    def of(cls, fabric: Fabric, sizes: PacketSizes, delay: int) -> Latency:
        """Those of full packets; links that do not say have `delay` ns."""
        ideal = IdealCompletion(fabric, sizes, delay)
        completion, arrival = [0] * len(Tier), [0] * len(Tier)
        for tier, pair in enumerate(example_pairs(fabric)):
            if pair is None:
                continue
            one, other = pair
            whole = ideal.of(one.name, other.name, sizes.mtu)
            link = fabric.nic_link(one, fabric.common_planes(one, other)[0])
            assert link is not None, "common planes have links"
            completion[tier] = whole - int(sizes.frame(sizes.mtu) * 8e9 / link.rate_bps)
            arrival[tier] = completion[tier] - ideal.answer_time(one.name, other.name)
        return cls(tuple(arrival), tuple(completion))

    def completions(self, tiers: Integers) -> Integers:
        """`completion` of pairs of hosts whose paths turn at these tiers."""
        found: Integers = np.array(self.completion)[tiers]
        return found


def example_pairs(fabric: Fabric) -> list[tuple[FabricNic, FabricNic] | None]:
    """Two hosts for each tier where paths turn, which stand for all: racks of one fabric are taken to be alike."""
    first, pod = fabric.nics[0], fabric.pod_of(fabric.nics[0].t0)
    found: list[tuple[FabricNic, FabricNic] | None] = [None] * len(Tier)
    for nic in reversed(fabric.nics[1:]):
        inside = fabric.pod_of(nic.t0) == pod
        found[Tier.T0 if nic.t0 == first.t0 else Tier.T1 if inside else Tier.T2] = first, nic
    return found
