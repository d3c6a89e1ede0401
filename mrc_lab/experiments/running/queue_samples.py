"""Queue depth and pauses of every channel, from samples of the switches' ports: the same on both backends.

A port's queues are before the channel that begins at the port; what it does by flow control keeps the channel that ends
there silent. NICs have no queues: they choose path and packet when a port is free. So nothing is known of the depth
before their channels, nor of any channel of a switch that does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mrc_lab.experiments.running.channel_names import channel_from, channel_to
from mrc_lab.experiments.running.recording import QUEUE_COUNTERS, Samples
from p4runtime_shim.traffic_manager import PortSample
from topologies.fabric import Fabric

UNKNOWN = -1


class QueueSampler:
    """Lays samples out by channel."""

    def __init__(self, fabric: Fabric, channels: tuple[str, ...]) -> None:
        number = {name: place for place, name in enumerate(channels)}
        self._rows = {
            (switch.name, port): (number[leaving], number[arriving])
            for switch in fabric.switches
            for port in switch.ports
            if (leaving := channel_from(fabric, switch.name, port)) is not None
            and (arriving := channel_to(fabric, switch.name, port)) is not None
        }
        self._last = np.full((len(channels), len(QUEUE_COUNTERS)), UNKNOWN, dtype=np.int64)

    def sample(self, switches: Mapping[str, tuple[int, Mapping[int, PortSample]]]) -> Samples:
        """[channel, counter], of switches by name with the time of each sample; of the others as they were last."""
        found = self._last.copy()
        for name, (time, ports) in switches.items():
            for port, one in ports.items():
                rows = self._rows.get((name, port))
                if rows is not None:
                    leaving, arriving = rows
                    found[leaving, :4] = time, one.bytes, one.peak_bytes, one.byte_ns
                    found[arriving, 4:] = one.silenced_ns, one.silenced_times
        self._last = found
        return found
