"""Kinds of fault that come and go with something else than carriers, for tests alone: no product file names them.

They are no part of `KINDS`, which is complete before a test is imported; :func:`known` adds them for a test that needs
names. Each has its effect for `on` ns and none for `off` ns, in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest import mock

import topologies.faults
from topologies.fabric import Fabric
from topologies.fault_entries import ALWAYS
from topologies.faults.effect import Effect, PortShaping, links_down, lossy, shaped
from topologies.faults.kind import DECLARED, Intermittent, kind
from topologies.faults.parameters import flag, host, link, time, towards, whole
from topologies.faults.path_loss import PathLoss


class _Spells(Intermittent):
    __slots__ = ()
    on: int
    off: int

    def times(self) -> tuple[int, int]:
        return self.on, self.off


@kind()
@dataclass(frozen=True, slots=True)
class LossySpells(_Spells):
    """Links lose everything: table entries."""

    link: str = link()
    on: int = time("how long everything is lost", "5ms")
    off: int = time("how long nothing is lost", "10ms")
    random: bool = flag("draw both times from exponential distributions with these means")
    seed: int = whole("what random times are drawn from", default=0)
    towards: str | None = towards()

    def effect(self, fabric: Fabric) -> Effect:
        return lossy(fabric, self.link, self.towards, loss=ALWAYS)


@kind()
@dataclass(frozen=True, slots=True)
class LossyPathSpells(_Spells):
    """A path loses everything: table entries, of which there are few, on no link."""

    ev: int = whole("entropy value of the path")
    on: int = time("how long everything is lost", "5ms")
    off: int = time("how long nothing is lost", "10ms")
    source: str = host("only frames of this host, or pattern")

    def effect(self, fabric: Fabric) -> Effect:
        return PathLoss(self.ev, source=self.source).effect(fabric)


@kind()
@dataclass(frozen=True, slots=True)
class SlowSpells(_Spells):
    """Links have 10 Mb/s, and that of h4 in plane 0 is down: shapes, and carriers of some links."""

    link: str = link()
    on: int = time("how long they are slow", "5ms")
    off: int = time("how long they are not", "10ms")

    def effect(self, fabric: Fabric) -> Effect:
        slow = shaped(fabric, self.link, None, PortShaping(10_000_000))
        down = links_down(fabric.find_links("h4@p0"))
        return replace(slow, down=down.down, links=tuple(dict.fromkeys((*slow.links, *down.links))))


SPELLS = (LossySpells, LossyPathSpells, SlowSpells)


@contextmanager
def known() -> Iterator[None]:
    """Files, messages and worlds know these kinds by name."""
    more = {one.kind.name: one.kind for one in SPELLS}
    with mock.patch.object(topologies.faults, "KINDS", {**topologies.faults.KINDS, **more}):
        yield


for _kind in SPELLS:  # whoever lists what is declared finds the product's kinds alone
    del DECLARED[_kind.kind.name]
