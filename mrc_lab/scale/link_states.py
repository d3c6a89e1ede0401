"""What the faults in force do to links: carrier, probability of loss and rate, as arrays like those of the network.

The fault engine (:mod:`topologies.faults.engine`) says which faults are in force, with the random times of those that
come and go, the same for the same seed as in the packet simulation. Loss and corruption are alike here: a corrupted
packet is discarded by the NIC that receives it. Chances of several faults are independent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mrc_lab.scale.network import Booleans, Floats, Network
from topologies.fabric import LinkKind
from topologies.fault_entries import ALWAYS
from topologies.faults.effect import Effect, combined_shapes

_EITHER_WAY: Final = 2


@dataclass(frozen=True, slots=True)
class LinkStates:
    """States of all links at one time; the first index is the direction.

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
        access = np.repeat(network.access[None], _EITHER_WAY, axis=0)
        uplink = np.repeat(network.uplink[None], _EITHER_WAY, axis=0)
        survival = {LinkKind.NIC_T0: (access > 0).astype(float), LinkKind.T0_T1: (uplink > 0).astype(float)}
        carrier = network.access > 0
        for effect in effects:
            for end, loss, corruption in effect.losses(network.fabric):
                kind, place = network.direction(end)
                survival[kind][place] *= (1 - loss / ALWAYS) * (1 - corruption / ALWAYS)
            for name in effect.down:
                kind, place = network.place(network.fabric.link(name))
                if kind is LinkKind.NIC_T0:
                    carrier[place] = False
        for end, shape in combined_shapes(effects).items():
            if shape.rate_bps is not None:
                kind, place = network.direction(end)
                rates = access if kind is LinkKind.NIC_T0 else uplink
                rates[place] = min(rates[place], shape.rate_bps)
        return cls(carrier, 1 - survival[LinkKind.NIC_T0], access, 1 - survival[LinkKind.T0_T1], uplink)
