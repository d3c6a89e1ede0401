"""Packets that switches marked (ECN) and trimmed on their way to each channel, over time: the same on both backends.

They are counted by the P4 program, so what comes is cumulative, by the channel that the packets go out on. Asking costs
nothing in simulation; in emulation it takes switches and controller some milliseconds, so there may be several time
bins from one sample to the next.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from controller.values import SwitchCounters
from mrc_lab.experiments.running.channel_names import channel_from
from mrc_lab.experiments.running.recording import SIGNAL_COUNTERS, Samples
from topologies.fabric import Fabric


class SignalSampler:
    """Lays counters out by channel."""

    def __init__(self, fabric: Fabric, channels: tuple[str, ...]) -> None:
        number = {name: place for place, name in enumerate(channels)}
        self._rows = {
            (switch.name, port): number[leaving]
            for switch in fabric.switches
            for port in switch.ports
            if (leaving := channel_from(fabric, switch.name, port)) is not None
        }
        self._columns = {f"{name}_packets": column for column, name in enumerate(SIGNAL_COUNTERS)}
        self._last = np.zeros((len(channels), len(SIGNAL_COUNTERS)), dtype=np.int64)

    def sample(self, counters: Iterable[SwitchCounters]) -> Samples:
        """[channel, counter], of a switch that does not answer as it was last."""
        found = self._last.copy()
        for switch in counters:
            for port in switch.ports:
                row = self._rows.get((switch.switch, port.port))
                for count in port.counts:
                    column = self._columns.get(count.name)
                    if row is not None and column is not None:
                        found[row, column] = count.packets
        self._last = found
        return found
