"""The kinds of faults, as frozen values, and what each does to lines and carriers.

Links are named as in `topologies` (``t0-1:t1-3@p2``, ``h4@p1``) or by a glob pattern that may match several. `towards`
picks one direction: the name of the node at the receiving end (a pattern too); None means both.

A link that is down loses its carrier, which both ends see at once. A link cut in one direction keeps it: the classical
half-broken link, which nobody is told about.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from simulation.errors import FaultError
from simulation.line import Impairment
from simulation.seeds import generator
from topologies.fabric import Endpoint, Fabric, Link
from topologies.paths import destination as path_to

_CUT = Impairment(cut=True)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a fault does: impairments by the end that the line leaves, links without carrier, no controller."""

    lines: tuple[tuple[Endpoint, Impairment], ...] = ()
    carrier: tuple[Link, ...] = ()
    controller: bool = False


class Fault(ABC):
    """A kind of fault, with what it names and its figures."""

    __slots__ = ()

    @abstractmethod
    def effect(self, fabric: Fabric) -> Effect:
        """What it does. FaultError or FabricError when it names what is not there or a figure is out of range."""


@dataclass(frozen=True, slots=True)
class LinkDown(Fault):
    """Links go down, or with `towards` let nothing through in one direction while both ends keep their carrier."""

    link: str
    towards: str | None = None

    def effect(self, fabric: Fabric) -> Effect:
        """Lines cut, and carrier gone if both directions are."""
        carrier = fabric.find_links(self.link) if self.towards is None else ()
        return Effect(_lines(fabric, self.link, self.towards, _CUT), carrier)


@dataclass(frozen=True, slots=True)
class PortDown(Fault):
    """A port of a NIC or switch goes down, and with it its link."""

    end: Endpoint

    def effect(self, fabric: Fabric) -> Effect:
        """As its link going down."""
        link = fabric.link_at(self.end)
        if link is None:
            raise FaultError(f"There is no port {self.end.port} of {self.end.node} in fabric {fabric.name}.")
        return _down((link,))


@dataclass(frozen=True, slots=True)
class SwitchDead(Fault):
    """Switches lose power: all their links go down. When they come back, their tables are as before, queues empty."""

    switch: str

    def effect(self, fabric: Fabric) -> Effect:
        """As all its links going down."""
        names = [switch.name for switch in fabric.find_switches(self.switch)]
        return _down(tuple(dict.fromkeys(link for name in names for link in fabric.links_of(name))))


@dataclass(frozen=True, slots=True)
class SwitchSilent(Fault):
    """Switches stay up but forward nothing any more; their neighbours see nothing wrong with the links."""

    switch: str

    def effect(self, fabric: Fabric) -> Effect:
        """Every line towards the switch swallows what it carries."""
        names = {switch.name for switch in fabric.find_switches(self.switch)}
        ends = ((link.lower, link.upper) for link in fabric.links)
        lines = [(a, _CUT) for lower, upper in ends for a, b in ((lower, upper), (upper, lower)) if b.node in names]
        return Effect(tuple(lines))


@dataclass(frozen=True, slots=True)
class Loss(Fault):
    """Frames are lost at random, each with `probability`."""

    link: str
    probability: float
    towards: str | None = None

    def effect(self, fabric: Fabric) -> Effect:
        """Loss on every line named."""
        return Effect(_lines(fabric, self.link, self.towards, Impairment(loss=_chance(self.probability))))


@dataclass(frozen=True, slots=True)
class Corruption(Fault):
    """One bit of a frame is flipped, with `probability`, as if the FCS had missed it."""

    link: str
    probability: float
    towards: str | None = None

    def effect(self, fabric: Fabric) -> Effect:
        """Corruption on every line named."""
        return Effect(_lines(fabric, self.link, self.towards, Impairment(corruption=_chance(self.probability))))


@dataclass(frozen=True, slots=True)
class Reordering(Fault):
    """Frames are held back for up to `hold` ns with `probability`, so that later ones overtake them."""

    link: str
    probability: float
    hold: int
    towards: str | None = None

    def effect(self, fabric: Fabric) -> Effect:
        """Reordering on every line named."""
        if self.hold < 1:
            raise FaultError(f"Frames can be held back for 1 ns or more, not for {self.hold} ns.")
        impairment = Impairment(reorder=_chance(self.probability), hold=self.hold)
        return Effect(_lines(fabric, self.link, self.towards, impairment))


@dataclass(frozen=True, slots=True)
class PathLoss(Fault):
    """Frames on one path, that of entropy value `ev`, are lost with `probability`.

    `source` and `destination` are patterns of NIC names; only frames from and to them are lost.
    """

    ev: int
    probability: float = 1.0
    source: str = "*"
    destination: str = "*"

    def effect(self, fabric: Fabric) -> Effect:
        """Loss by uSID list on the sources' own ports, where the list is still whole."""
        chance = _chance(self.probability)
        lines: list[tuple[Endpoint, Impairment]] = []
        for nic in (nic for nic in fabric.nics if fnmatchcase(nic.name, self.source)):
            by_plane: dict[int, dict[bytes, float]] = {}
            for peer in fabric.nics:
                if peer == nic or not fnmatchcase(peer.name, self.destination):
                    continue
                known = path_to(fabric, nic, peer)
                if self.ev in known.evs:
                    by_plane.setdefault(known.template.plane(self.ev), {})[known.template.address(self.ev)] = chance
            for plane, addresses in by_plane.items():
                lines.append((Endpoint(nic.name, plane), Impairment(path_loss=addresses)))
        if not lines:
            raise FaultError(
                f"No path from {self.source} to {self.destination} in fabric {fabric.name} has entropy value {self.ev}."
            )
        return Effect(tuple(lines))


@dataclass(frozen=True, slots=True)
class Rate(Fault):
    """Links become slower, down to `bits_per_second` (those that are slower anyway stay as they are)."""

    link: str
    bits_per_second: int
    towards: str | None = None

    def effect(self, fabric: Fabric) -> Effect:
        """Rate of every line named."""
        if self.bits_per_second < 1:
            raise FaultError(f"A link's rate is at least 1 bit/s, not {self.bits_per_second}.")
        return Effect(_lines(fabric, self.link, self.towards, Impairment(rate_bps=self.bits_per_second)))


@dataclass(frozen=True, slots=True)
class Delay(Fault):
    """Frames take `extra` ns longer."""

    link: str
    extra: int
    towards: str | None = None

    def effect(self, fabric: Fabric) -> Effect:
        """Delay of every line named."""
        if self.extra < 1:
            raise FaultError(f"An added delay is 1 ns or more, not {self.extra} ns.")
        return Effect(_lines(fabric, self.link, self.towards, Impairment(delay=self.extra)))


@dataclass(frozen=True, slots=True)
class Flap(Fault):
    """Links go down for `down` ns and up for `up` ns, in turn; beginning with down.

    With `at_random` both times are drawn from exponential distributions with these means, from the world's seed.
    """

    link: str
    down: int
    up: int
    at_random: bool = False

    def effect(self, fabric: Fabric) -> Effect:
        """What holds while the links are down."""
        if self.down < 1 or self.up < 1:
            raise FaultError(f"A link flaps with times of 1 ns or more, not {self.down} ns down and {self.up} ns up.")
        return _down(fabric.find_links(self.link))

    def wait(self, down: bool, seed: int, now: int) -> int:
        """How long the links stay as they are now; chance derives from `seed` and the time."""
        mean = self.down if down else self.up
        if not self.at_random:
            return mean
        return max(1, round(generator(seed, now).expovariate(1.0) * mean))


@dataclass(frozen=True, slots=True)
class ControllerGone(Fault):
    """Nobody can write tables. Static entries stay, so traffic does not notice."""

    def effect(self, fabric: Fabric) -> Effect:
        """Nothing but the controller's absence."""
        return Effect(controller=True)


def _chance(probability: float) -> float:
    if not 0 < probability <= 1:
        raise FaultError(f"A probability is above 0 and at most 1, not {probability}.")
    return probability


def _down(links: tuple[Link, ...]) -> Effect:
    lines = tuple((end, _CUT) for link in links for end in (link.lower, link.upper))
    return Effect(lines, links)


def _lines(
    fabric: Fabric, pattern: str, towards: str | None, impairment: Impairment
) -> tuple[tuple[Endpoint, Impairment], ...]:
    """The impairment on the lines of the links that match, in the direction asked for."""
    found = tuple((source, impairment) for source in _sources(fabric.find_links(pattern), towards))
    if not found:
        raise FaultError(f"No link that matches {pattern!r} leads to {towards!r}.")
    return found


def _sources(links: tuple[Link, ...], towards: str | None) -> Iterator[Endpoint]:
    for link in links:
        for source, target in ((link.lower, link.upper), (link.upper, link.lower)):
            if towards is None or fnmatchcase(target.node, towards):
                yield source
