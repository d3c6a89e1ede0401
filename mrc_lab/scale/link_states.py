"""What the faults in force do to links: carrier, probability of loss and rate, as arrays like those of the network.

The fault engine (:mod:`topologies.faults.engine`) says which faults are in force, with the random times of those that
come and go, the same for the same seed as in the packet simulation. Loss and corruption are alike here: a corrupted
packet is discarded by the NIC that receives it. Chances of several faults are independent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mrc_lab.scale.network import WAYS, Booleans, Floats, Network, way
from topologies.fabric import LinkEnd, LinkKind
from topologies.fault_entries import ALWAYS
from topologies.faults.effect import Effect, combined_shapes


@dataclass(frozen=True, slots=True)
class LinkStates:
    """States of all links at one time: of access links [direction, NIC, plane], of uplinks by number of the direction.

    `access_loss` and `uplink_loss` are probabilities, 1 also of a link without carrier; rates are b/s. `carrier` is by
    NIC and plane: only its own links are known to a NIC.
    """

    carrier: Booleans
    access_loss: Floats
    access_rate: Floats
    uplink_loss: Floats
    uplink_rate: Floats

    def without_nics(self, nics: list[int]) -> LinkStates:
        """The states with nothing to and from some NICs, which keep their carriers."""
        access = self.access_rate.copy()
        access[:, nics] = 0.0
        return replace(self, access_rate=access)

    @classmethod
    def of(cls, network: Network, effects: Iterable[Effect]) -> LinkStates:
        """The states while `effects` are in force."""
        effects = tuple(effects)
        access, uplink = np.repeat(network.access[None], len(WAYS), axis=0), network.uplinks.copy()
        carrier = network.access > 0
        arrives, passes = (access > 0).astype(float), (uplink > 0).astype(float)  # chances
        for effect in effects:
            for end, loss, corruption in effect.losses(network.fabric):
                values, place = _direction(network, end, arrives, passes)
                values[place] *= (1 - loss / ALWAYS) * (1 - corruption / ALWAYS)
            for link in map(network.fabric.link, effect.down):
                if link.kind is LinkKind.NIC_T0:
                    carrier[network.port(link)] = False
        for end, shape in combined_shapes(effects).items():
            if shape.rate_bps is not None:
                rates, place = _direction(network, end, access, uplink)
                rates[place] = min(rates[place], shape.rate_bps)
        return cls(carrier, 1 - arrives, access, 1 - passes, uplink)


def _direction(network: Network, end: LinkEnd, access: Floats, uplinks: Floats) -> tuple[Floats, tuple[int, ...] | int]:
    """Which of both arrays has the direction of a link that leaves `end`, and its index there."""
    link = network.fabric.link_at(end)
    assert link is not None, "faults name ends of links"
    if link.kind is LinkKind.NIC_T0:
        return access, (way(link, end), *network.port(link))
    return uplinks, network.number(link, end)
