"""``link_down``: a cable is pulled, or one of its directions lets nothing through."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric
from topologies.fault_entries import ALWAYS
from topologies.faults.effect import Effect, links_down, lossy
from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import link, towards


@kind(word="down")
@dataclass(frozen=True, slots=True)
class LinkDown(Fault):
    """Both ends lose their carrier; with `towards` one direction drops everything and neither end notices."""

    link: str = link()
    towards: str | None = towards()

    def effect(self, fabric: Fabric) -> Effect:
        """No carrier; in one direction, whose ends do not notice, the loss of everything."""
        if self.towards is None:
            return links_down(fabric.find_links(self.link))
        return lossy(fabric, self.link, self.towards, loss=ALWAYS)
