"""Queue pairs for which their NIC takes no packets any more, as if it had lost them, while it serves all others."""

from __future__ import annotations

from collections import Counter, defaultdict

from mrc_host.nic import Nic
from simulation.world import SimulatedWorld
from tests.models.frames import bth_offset


class MutedQueuePairs:
    """Those of one world. A NIC that restarts has none."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._muted: defaultdict[Nic, Counter[int]] = defaultdict(Counter)  # QPNs, and how often each is muted

    def mute(self, nic: str, qpn: int) -> None:
        """From now on the NIC takes no packet for its queue pair `qpn`."""
        node = self._world.nic_node(nic)
        if node.nic not in self._muted:
            muted = self._muted[node.nic]
            node.filter(lambda frame: not muted[_destination(frame)])
        self._muted[node.nic][qpn] += 1

    def unmute(self, nic: str, qpn: int) -> None:
        """Undo one :meth:`mute`, if the NIC has not restarted since."""
        muted = self._muted.get(self._world.nic_node(nic).nic)
        if muted is not None:
            muted[qpn] -= 1


def _destination(frame: bytes) -> int:
    """The QPN that a frame is for; any number, if it was corrupted."""
    start = bth_offset(frame)
    return int.from_bytes(frame[start + 5 : start + 8], "big")
