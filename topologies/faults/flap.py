"""``flap``: links go down and up in turn.

The times are given as how long links are down and up, or as the period and the fraction of it that they are down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.effect import Effect, links_down
from topologies.faults.kind import Intermittent, Spelling, kind
from topologies.faults.parameters import flag, link, share, time, whole


@dataclass(frozen=True, slots=True)
class _Rhythm:
    period: int = time("how often: the time of one down and one up together", "2s", "1s", low=2)
    duty: float = share("the share of the period that links are down", "25%", "50%", default=0.5)

    def times(self) -> Mapping[str, int]:
        """How long links are down, and up."""
        down = round(self.period * self.duty)
        if not 0 < down < self.period:
            raise FabricError("a link that flaps is down for more than 0 % and less than 100 % of the time")
        return {"down": down, "up": self.period - down}


@kind(
    spelling=Spelling(_Rhythm, ("down", "up"), _Rhythm.times),
    order=("period", "duty", "random", "seed"),
)
@dataclass(frozen=True, slots=True)
class Flap(Intermittent):
    """Links go down and up alternately, starting with down: together, or with `random` each at its own times."""

    link: str = link()
    down: int = time("how long they are down each time", "5ms")
    up: int = time("how long they are up each time", "10ms")
    random: bool = flag("draw both times from exponential distributions with these means")
    seed: int = whole("what random times are drawn from, in simulation besides the run's own seed", "7", default=0)

    comes_and_goes: ClassVar[tuple[str, str]] = ("flaps", "flap")
    states: ClassVar[tuple[str, str]] = ("down", "up")

    def times(self) -> tuple[int, int]:
        """How long links are down, and up."""
        return self.down, self.up

    def effect(self, fabric: Fabric) -> Effect:
        """Links without carrier, while they are down."""
        return links_down(fabric.find_links(self.link))
