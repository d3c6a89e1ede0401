"""``port_down``: a port of a NIC or switch goes down."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.fabric import Fabric, LinkEnd
from topologies.fault_targets import link_of_port
from topologies.faults.effect import Effect, links_down
from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import node, whole


@kind()
@dataclass(frozen=True, slots=True)
class PortDown(Fault):
    """A port and its link go down."""

    node: str = node()
    port: int = whole("its port: of a switch from 1, of a host its plane", "1", high=(1 << 32) - 1)

    @property
    def end(self) -> LinkEnd:
        """The port."""
        return LinkEnd(self.node, self.port)

    def effect(self, fabric: Fabric) -> Effect:
        """The port's link has no carrier."""
        return links_down((link_of_port(fabric, self.end),))
