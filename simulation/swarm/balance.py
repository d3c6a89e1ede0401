"""Counts first transmissions by queue pair and plane, from the frames that T0s take in from NICs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from mrc_host.wire import opcodes
from simulation.trace import Trace
from topologies.fabric import Fabric, LinkKind

_NEXT_HEADER: Final = 20
_IPV6: Final = 41
_BTH: Final = 14 + 40 + 40 + 8
_QPN: Final = slice(_BTH + 5, _BTH + 8)
_FLAGS: Final = _BTH + 8
_RTX: Final = 0x20


class PlaneCounts(Trace):
    """A trace that also counts: ``counts[NIC, remote QPN][plane]``."""

    def __init__(self, fabric: Fabric) -> None:
        super().__init__()
        self.counts: dict[tuple[str, int], Counter[int]] = {}
        self._fabric = fabric
        self._senders: dict[tuple[int, int], tuple[str, int]] = {}  # T0's number and port -> NIC and plane

    def start(self, devices: Sequence[str]) -> None:
        """Learn the numbers of the devices."""
        super().start(devices)
        number = {name: position for position, name in enumerate(devices)}
        for link in self._fabric.links:
            if link.kind is LinkKind.NIC_T0:
                self._senders[number[link.upper.node], link.upper.port] = link.lower.node, link.plane

    def frame(self, now: int, device: int, port: int, frame: bytes) -> None:
        """Count data packets that are sent for the first time."""
        super().frame(now, device, port, frame)
        sender = self._senders.get((device, port))
        if sender is None or len(frame) <= _FLAGS or frame[_NEXT_HEADER] != _IPV6:
            return
        if opcodes.WRITE_FIRST <= frame[_BTH] <= opcodes.WRITE_ONLY_IMM and not frame[_FLAGS] & _RTX:
            qpn = int.from_bytes(frame[_QPN], "big")
            self.counts.setdefault((sender[0], qpn), Counter())[sender[1]] += 1
