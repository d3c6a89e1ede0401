"""Times of single packets on an idle network: what rates do not say of the end of a message or of a chunk's way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mrc_lab.scale.network import Booleans, Integers
from topologies.fabric import Fabric
from topologies.ideal_completion import IdealCompletion, PacketSizes


@dataclass(frozen=True, slots=True)
class Latency:
    """Between hosts of two racks and of one, in ns.

    `arrival` is from when the last byte of a packet leaves the sender until it has arrived, `completion` until the
    acknowledgement is back.
    """

    arrival: tuple[int, int]
    completion: tuple[int, int]

    @classmethod
    def of(cls, fabric: Fabric, sizes: PacketSizes, delay: int) -> Latency:
        """Those of full packets; links that do not say have `delay` ns. Racks of one fabric are taken to be alike."""
        first = fabric.nics[0]
        beside = next((nic for nic in fabric.nics[1:] if nic.t0 == first.t0), None)
        elsewhere = next((nic for nic in fabric.nics[1:] if nic.t0 != first.t0), None)
        ideal = IdealCompletion(fabric, sizes, delay)
        completion, arrival = [], []
        for other in (elsewhere, beside):
            if other is None:
                completion.append(0)
                arrival.append(0)
                continue
            whole = ideal.of(first.name, other.name, sizes.mtu)
            plane = fabric.common_planes(first, other)[0]
            link = fabric.nic_link(first, plane)
            assert link is not None, "common planes have links"
            sent = int(sizes.frame(sizes.mtu) * 8e9 / link.rate_bps)
            back = ideal.answer_time(first.name, other.name)
            completion.append(whole - sent)
            arrival.append(whole - sent - back)
        return cls((arrival[0], arrival[1]), (completion[0], completion[1]))

    def completions(self, same: Booleans) -> Integers:
        """`completion` of pairs of hosts that have the `same` rack, or not."""
        found: Integers = np.array(self.completion)[same.astype(np.int64)]
        return found
