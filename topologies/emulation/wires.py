"""Links whose frames pass the kernel by (`--wire ring`): who is joined to whom, and who inherits which rings.

Two embedded switches of one process hand frames to each other. Any other link has shared-memory rings, made here, so
that they outlive the processes at their ends: a process that is restarted finds them as they were. Links of kernel
switches (``kernel_switch``) are interfaces only. The interfaces of a link stay, for carrier, for the kernels of hosts,
and for frames while somebody captures there or shapes it (p4runtime_shim/engine/driver/port_driver_bypass.c,
mrc_host/driver/nic_driver.py).
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from typing import Any

from mrc_common.frame_rings import FrameRings, RingEnd
from mrc_common.open_files import raise_limit
from topologies import addressing
from topologies.emulation.errors import EmulationError
from topologies.emulation.switch_kind import SwitchKind
from topologies.emulation.wire_kind import WireKind
from topologies.fabric import Fabric, LinkEnd


def check(switch: SwitchKind, wire: WireKind) -> None:
    """Raise EmulationError if such switches have no such wires."""
    if wire is WireKind.VETH:
        return
    if switch is SwitchKind.BMV2:
        raise EmulationError("BMv2 only has the kernel's links: leave out --wire ring, or use embedded switches.")


class FabricWires:
    """The wires of a fabric; `close` when its processes have ended. OSError if descriptors or memory run out."""

    def __init__(self, fabric: Fabric, switch: SwitchKind, wire: WireKind) -> None:
        check(switch, wire)
        self._fabric = fabric
        self._made = ExitStack()
        self._joined: list[tuple[LinkEnd, LinkEnd]] = []
        self._rings: dict[LinkEnd, RingEnd] = {}
        self._used = wire is WireKind.RING
        raise_limit()  # three descriptors a link
        kernel = {one.name for one in fabric.kernel_switches}
        for link in fabric.links if self._used else ():
            if kernel & {link.lower.node, link.upper.node}:
                continue  # the kernel has its interface only
            if switch is SwitchKind.EMBEDDED and link.lower.node not in fabric.nic_names:
                self._joined.append((link.lower, link.upper))
            else:
                rings = self._made.enter_context(FrameRings())
                self._rings[link.lower], self._rings[link.upper] = rings.ends

    def close(self) -> None:
        """Close the descriptors."""
        self._made.close()

    def settings(self, switches: Collection[str], counters: Path) -> dict[str, Any]:
        """Those of a process with these switches, for its configuration file; `counters` is where it counts frames."""
        if not self._used:
            return {}
        joined = [[self._name(near), self._name(far)] for near, far in self._joined if near.node in switches]
        rings = {self._name(end): list(astuple(ring)) for end, ring in self._rings.items() if end.node in switches}
        return {"wires": {"joined": joined, "rings": rings, "counters": str(counters)}}

    def arguments(self, nic: str) -> tuple[str, ...]:
        """Words of the command line of a NIC's agent."""
        ends = {end: ring for end, ring in self._rings.items() if end.node == nic}
        return tuple(word for end, ring in ends.items() for word in ("--ring", f"{self._name(end)}={ring}"))

    def descriptors(self, nodes: Collection[str]) -> tuple[int, ...]:
        """What a process with these nodes must inherit."""
        ends = (ring for end, ring in self._rings.items() if end.node in nodes)
        return tuple(descriptor for ring in ends for descriptor in ring.descriptors)

    def _name(self, end: LinkEnd) -> str:
        return addressing.interface_name(self._fabric, end)
