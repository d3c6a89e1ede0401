"""Looks at every frame of a queue pair: none may leave on a plane that its end does not keep to.

Data, answers and reliability probes are a queue pair's; what carries the QPN of endpoint operations (path probes, port
status) is between NICs and takes all planes, and so do refusals, which a NIC sends for queue pairs that are no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mrc_host.wire import control, opcodes
from tests.models.frames import BTH, bth_offset
from tests.swarm.applications import Applications
from tests.swarm.channel_faults import BitFlips
from tests.swarm.scenario import EVERY_PLANE, Scenario
from topologies.faults.delay import Delay
from topologies.faults.reordering import Reordering

_WAY: Final = 100_000  # ns that a frame takes to the switch at most, where nothing delays it: 4 KB at 1 Gb/s take 35


class KeptPlanes:
    """Judges the frames of a run as they come to the first switch, where plane and NIC are known by the port."""

    def __init__(self, scenario: Scenario, applications: Applications, report: Callable[[str], None]) -> None:
        self._ends, self._report = applications.ends, report
        self._reported: set[tuple[str, int, int]] = set()
        self._late = _WAY + scenario.delay
        for planned in scenario.faults:
            if isinstance(planned.fault, Delay):
                self._late += planned.fault.extra
            elif isinstance(planned.fault, Reordering):
                self._late += planned.fault.hold

    def frame(self, now: int, nic: str, plane: int, frame: bytes) -> None:
        """A frame of `nic` arrived at its switch of `plane`."""
        start = bth_offset(frame)
        qpn = int.from_bytes(frame[start + 5 : start + 8], "big")
        planes = self._planes(nic, qpn, now)
        if not planes or planes >> plane & 1 or _refusal(frame, start) or (nic, qpn, plane) in self._reported:
            return
        self._reported.add((nic, qpn, plane))
        self._report(
            f"{nic} sent {frame[start]:#x} to QP {qpn:#x} on plane {plane} at {now} ns, though only in {planes:#b}"
        )

    def _planes(self, nic: str, qpn: int, now: int) -> int:
        """Where frames to this queue pair may be: on the planes of lives that were connected to it a moment ago."""
        mask = 0
        for end, _ in self._ends:
            if end.nic != nic:
                continue
            for life in end.lives:
                connected = life.peer is not None and life.peer.qpn == qpn
                if connected and (life.ended is None or life.ended + self._late >= now):
                    mask |= life.attributes.planes
        return mask


def kept_planes(scenario: Scenario, applications: Applications, report: Callable[[str], None]) -> KeptPlanes | None:
    """What judges the frames of a plan; None where none has to, or frames may not be what was sent."""
    if all(pair.planes == EVERY_PLANE for pair in scenario.pairs):
        return None
    if any(isinstance(planned.fault, BitFlips) for planned in scenario.faults):
        return None
    return KeptPlanes(scenario, applications, report)


def _refusal(frame: bytes, start: int) -> bool:
    if frame[start] != opcodes.NACK:
        return False
    return control.parse_nack(frame, start + BTH).reason == control.NACK_UNEXP_EVENT
