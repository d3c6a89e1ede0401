"""Faults as an experiment file names them, and what each is in terms of `topologies.fault_kinds`.

Times count from the beginning of the run. Links, switches and hosts are named as in `topologies`, or by a glob pattern
that may match several; `towards` picks one direction by the name of the receiving node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mrc_lab.experiments.files.kinds import Flag, Text, Whole, a_rate, a_share, a_time, key
from topologies import fault_kinds
from topologies.addressing import entropy_value
from topologies.fabric import Endpoint
from topologies.fault_kinds import Fault

_AT = "when it begins"
_UNTIL = "when it is over; without it, it lasts to the end of the run"
_LINK = "a link such as t0-0:t1-1@p0 or h1@p0, or a pattern"
_TOWARDS = "only the direction towards this node, or pattern"
_CHANCE = "probability for a frame"
_SWITCH = "a switch such as t1-0@p1, or a pattern"


class PlannedFault(Protocol):
    """What all kinds have in common. `line` is where it stands in the file."""

    @property
    def at(self) -> int:
        """When it begins, in ns from the beginning of the run."""

    @property
    def until(self) -> int | None:
        """When it is over; None: at the end of the run."""

    @property
    def line(self) -> int:
        """Line in the file."""

    def build(self) -> Fault:
        """What it is."""


@dataclass(frozen=True, slots=True)
class LinkDown:
    """Links lose their carrier; with `towards` they let nothing through in one direction and nobody is told."""

    at: int = key(a_time(), _AT)
    link: str = key(Text(), _LINK)
    until: int | None = key(a_time(), _UNTIL, default=None)
    towards: str | None = key(Text(), _TOWARDS, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.LinkDown(self.link, self.towards)


@dataclass(frozen=True, slots=True)
class PortDown:
    """A port of a switch (from 1) or NIC (its plane) goes down."""

    at: int = key(a_time(), _AT)
    node: str = key(Text(), "a switch or host")
    port: int = key(Whole(), "its port")
    until: int | None = key(a_time(), _UNTIL, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.PortDown(Endpoint(self.node, self.port))


@dataclass(frozen=True, slots=True)
class SwitchDead:
    """Switches lose power: all their links go down."""

    at: int = key(a_time(), _AT)
    switch: str = key(Text(), _SWITCH)
    until: int | None = key(a_time(), _UNTIL, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.SwitchDead(self.switch)


@dataclass(frozen=True, slots=True)
class SwitchSilent:
    """Switches stay up but forward nothing."""

    at: int = key(a_time(), _AT)
    switch: str = key(Text(), _SWITCH)
    until: int | None = key(a_time(), _UNTIL, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.SwitchSilent(self.switch)


@dataclass(frozen=True, slots=True)
class Loss:
    """Frames are lost at random."""

    at: int = key(a_time(), _AT)
    link: str = key(Text(), _LINK)
    probability: float = key(a_share(), _CHANCE)
    until: int | None = key(a_time(), _UNTIL, default=None)
    towards: str | None = key(Text(), _TOWARDS, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.Loss(self.link, self.probability, self.towards)


@dataclass(frozen=True, slots=True)
class Corruption:
    """One bit of a frame is flipped, unnoticed by the FCS."""

    at: int = key(a_time(), _AT)
    link: str = key(Text(), _LINK)
    probability: float = key(a_share(), _CHANCE)
    until: int | None = key(a_time(), _UNTIL, default=None)
    towards: str | None = key(Text(), _TOWARDS, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.Corruption(self.link, self.probability, self.towards)


@dataclass(frozen=True, slots=True)
class Reordering:
    """Frames are held back, so that later ones overtake them."""

    at: int = key(a_time(), _AT)
    link: str = key(Text(), _LINK)
    probability: float = key(a_share(), _CHANCE)
    hold: int = key(a_time(1), "how long at most")
    until: int | None = key(a_time(), _UNTIL, default=None)
    towards: str | None = key(Text(), _TOWARDS, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.Reordering(self.link, self.probability, self.hold, self.towards)


@dataclass(frozen=True, slots=True)
class PathLoss:
    """Frames on one path (one entropy value) are lost at random."""

    at: int = key(a_time(), _AT)
    plane: int = key(Whole(0, 7), "plane of the path")
    uplink: int = key(Whole(0, 1023), "T0 uplink, that is T1 number, of the path")
    probability: float = key(a_share(), _CHANCE)
    until: int | None = key(a_time(), _UNTIL, default=None)
    source: str = key(Text(), "only frames of this host, or pattern", default="*")
    destination: str = key(Text(), "only frames to this host, or pattern", default="*")
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        ev = entropy_value(self.plane, self.uplink)
        return fault_kinds.PathLoss(ev, self.probability, self.source, self.destination)


@dataclass(frozen=True, slots=True)
class Rate:
    """Links become slower."""

    at: int = key(a_time(), _AT)
    link: str = key(Text(), _LINK)
    rate: int = key(a_rate(), "the lower rate")
    until: int | None = key(a_time(), _UNTIL, default=None)
    towards: str | None = key(Text(), _TOWARDS, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.Rate(self.link, self.rate, self.towards)


@dataclass(frozen=True, slots=True)
class Delay:
    """Frames take longer."""

    at: int = key(a_time(), _AT)
    link: str = key(Text(), _LINK)
    extra: int = key(a_time(1), "how much longer")
    until: int | None = key(a_time(), _UNTIL, default=None)
    towards: str | None = key(Text(), _TOWARDS, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.Delay(self.link, self.extra, self.towards)


@dataclass(frozen=True, slots=True)
class Flap:
    """Links go down and up in turn."""

    at: int = key(a_time(), _AT)
    link: str = key(Text(), _LINK)
    down: int = key(a_time(1), "how long they are down each time")
    up: int = key(a_time(1), "how long they are up each time")
    until: int | None = key(a_time(), _UNTIL, default=None)
    random: bool = key(Flag(), "draw both times from exponential distributions with these means", default=False)
    seed: int = key(Whole(), "what random times are drawn from, besides the run's own seed", default=0)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.Flap(self.link, self.down, self.up, self.random, self.seed)


@dataclass(frozen=True, slots=True)
class ControllerGone:
    """Nobody can write tables."""

    at: int = key(a_time(), _AT)
    until: int | None = key(a_time(), _UNTIL, default=None)
    line: int = 0

    def build(self) -> Fault:
        """What it is."""
        return fault_kinds.ControllerGone()


KINDS: Mapping[str, type[PlannedFault]] = {
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
