"""Frames that switches have lost and corrupted for faults, by channel.

A channel is a link's direction: what a fault does to it the P4 program does at the switch where it ends, or towards a
NIC at the one where it begins. Only switches that have held entries of faults are asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from p4runtime_shim.switch import EmbeddedSwitch
from simulation.core.native import Channel
from simulation.program_counters import ProgramCounters
from topologies.fabric import LinkEnd


class FaultCounts:
    """The counts of one world."""

    def __init__(self) -> None:
        self._counters: dict[str, ProgramCounters] = {}
        self._final: dict[str, tuple[int, int]] | None = None  # lost and corrupted by channel, once switches are freed

    def include(self, name: str, switch: EmbeddedSwitch) -> None:
        """From now on a switch may lose or corrupt frames for faults."""
        if name not in self._counters:
            self._counters[name] = ProgramCounters(switch)

    def lost(self, channels: Iterable[Channel]) -> list[int]:
        """Frames of channels that did not arrive so far, or that the switch at an end lost for a fault."""
        if self._final is not None:
            return [channel.lost + self._final.get(channel.name, (0, 0))[0] for channel in channels]
        read = {name: counters.lost_by_faults() for name, counters in self._counters.items()}
        if not read:
            return [channel.lost for channel in channels]
        return [
            channel.lost
            + sum(read[end.node](end.port, arriving) for end, arriving in _ends(channel) if end.node in read)
            for channel in channels
        ]

    def corrupted(self, channel: Channel) -> int:
        """Frames of a channel that the switch at an end corrupted for a fault."""
        if self._final is not None:
            return self._final.get(channel.name, (0, 0))[1]
        return sum(
            self._counters[end.node].corrupted(end.port, arriving=arriving)
            for end, arriving in _ends(channel)
            if end.node in self._counters
        )

    def keep(self, channels: Iterable[Channel]) -> None:
        """The switches are about to be freed: go on with what they have counted until now."""
        counted = list(channels) if self._counters else []
        self._final = {
            channel.name: (lost - channel.lost, self.corrupted(channel))
            for channel, lost in zip(counted, self.lost(counted), strict=True)
        }


def _ends(channel: Channel) -> tuple[tuple[LinkEnd, bool], ...]:
    """Both ends of a channel, and whether its frames arrive there."""
    return (channel.source, False), (channel.target, True)
