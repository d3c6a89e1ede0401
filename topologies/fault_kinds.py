"""The vocabulary of faults, the same in both worlds: frozen values that say what is wrong and where.

Links are named as in :class:`Fabric` (``t0-1:t1-3@p2``, ``h4@p1``) or by a glob pattern that may match several; so are
switches. `towards` picks one direction: the name of the node at the receiving end (a pattern too); None means both.
Times are ns. Names become links and their ends in ``fault_places``. What a kind does there is up to the world:
``simulation.fault_effects`` in one, ``controller.fault_effects`` in the other, which cannot make them all.

A link that is down loses its carrier, which both ends see at once. A link cut in one direction keeps it: the classical
half-broken link, which nobody is told about.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Mapping
from dataclasses import dataclass

from topologies.errors import FabricError
from topologies.fabric import Endpoint


class FaultState(enum.Enum):
    """Life of a fault."""

    PENDING = "pending"
    ACTIVE = "active"
    CLEARED = "cleared"


class Fault:
    """A kind of fault, with what it names and its figures."""

    __slots__ = ()

    def check(self) -> None:
        """FabricError, one sentence, when a figure is out of range."""


@dataclass(frozen=True, slots=True)
class LinkDown(Fault):
    """Links go down, or with `towards` let nothing through in one direction while both ends keep their carrier."""

    link: str
    towards: str | None = None


@dataclass(frozen=True, slots=True)
class PortDown(Fault):
    """A port of a NIC or switch goes down, and with it its link."""

    end: Endpoint


@dataclass(frozen=True, slots=True)
class SwitchDead(Fault):
    """Switches lose power: all their links go down. When they come back, their tables are as before, queues empty."""

    switch: str


@dataclass(frozen=True, slots=True)
class SwitchSilent(Fault):
    """Switches stay up but forward nothing any more; their neighbours see nothing wrong with the links."""

    switch: str


@dataclass(frozen=True, slots=True)
class Loss(Fault):
    """Frames are lost at random, each with `probability`."""

    link: str
    probability: float
    towards: str | None = None

    def check(self) -> None:
        """A probability."""
        _check_chance(self.probability)


@dataclass(frozen=True, slots=True)
class Corruption(Fault):
    """One bit of a frame is flipped, with `probability`, as if the FCS had missed it."""

    link: str
    probability: float
    towards: str | None = None

    def check(self) -> None:
        """A probability."""
        _check_chance(self.probability)


@dataclass(frozen=True, slots=True)
class Reordering(Fault):
    """Frames are held back for up to `hold` ns with `probability`, so that later ones overtake them."""

    link: str
    probability: float
    hold: int
    towards: str | None = None

    def check(self) -> None:
        """A probability and a time."""
        _check_chance(self.probability)
        if self.hold < 1:
            raise FabricError(f"frames can be held back for 1 ns or more, not for {self.hold} ns")


@dataclass(frozen=True, slots=True)
class PathLoss(Fault):
    """Frames on one path, that of entropy value `ev`, are lost with `probability`.

    `source` and `destination` are patterns of NIC names; only frames from and to them are lost.
    """

    ev: int
    probability: float = 1.0
    source: str = "*"
    destination: str = "*"

    def check(self) -> None:
        """A probability."""
        _check_chance(self.probability)


@dataclass(frozen=True, slots=True)
class Rate(Fault):
    """Links become slower, down to `bits_per_second` (those that are slower anyway stay as they are)."""

    link: str
    bits_per_second: int
    towards: str | None = None

    def check(self) -> None:
        """A rate."""
        if self.bits_per_second < 1:
            raise FabricError(f"a link's rate is at least 1 b/s, not {self.bits_per_second}")


@dataclass(frozen=True, slots=True)
class Delay(Fault):
    """Frames take `extra` ns longer."""

    link: str
    extra: int
    towards: str | None = None

    def check(self) -> None:
        """A time."""
        if self.extra < 1:
            raise FabricError(f"an added delay is 1 ns or more, not {self.extra} ns")


@dataclass(frozen=True, slots=True)
class Flap(Fault):
    """Links go down for `down` ns and up for `up` ns, in turn; beginning with down.

    With `at_random` every link that matches draws both times from exponential distributions with these means, for
    itself and from `seed` (in simulation together with the world's); else they go down and up together.
    """

    link: str
    down: int
    up: int
    at_random: bool = False
    seed: int = 0

    def check(self) -> None:
        """Two times."""
        if self.down < 1 or self.up < 1:
            raise FabricError(f"a link flaps with times of 1 ns or more, not {self.down} ns down and {self.up} ns up")

    def wait(self, down: bool, chance: random.Random) -> int:
        """How long links stay as they are now."""
        mean = self.down if down else self.up
        return max(1, round(chance.expovariate(1.0) * mean)) if self.at_random else mean


@dataclass(frozen=True, slots=True)
class ControllerGone(Fault):
    """Nobody can write tables. Static entries stay, so traffic does not notice."""


KINDS: Mapping[str, type[Fault]] = {
    "link_down": LinkDown,
    "port_down": PortDown,
    "switch_dead": SwitchDead,
    "switch_silent": SwitchSilent,
    "loss": Loss,
    "corruption": Corruption,
    "reordering": Reordering,
    "path_loss": PathLoss,
    "rate": Rate,
    "delay": Delay,
    "flap": Flap,
    "controller_gone": ControllerGone,
}


def kind_of(fault: Fault) -> str:
    """The name of a fault's kind."""
    return next(name for name, kind in KINDS.items() if type(fault) is kind)


def _check_chance(probability: float) -> None:
    if not 0 < probability <= 1:
        raise FabricError(f"a probability is above 0 and at most 1, not {probability}")
