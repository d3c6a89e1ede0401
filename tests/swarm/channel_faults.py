"""Faults of the swarm's own, which users of the product cannot make: channels that harm what no switch would.

A link that loses one traffic class and carries the other: a switch whose data queue is stuck still forwards what has
priority, and the other way round. And bits that flip anywhere in a frame, in its headers too, as if its FCS had missed
them; the P4 program's fault corrupts only what the NIC's own check covers.

A channel is wrapped by being watched: what arrives passes through :class:`HarmedChannel`, which loses it, changes it,
or delivers it.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mrc_host.config import Dscp
from simulation.core.native import Channel
from simulation.seeds import generator
from simulation.world import SimulatedWorld
from tests.swarm.scenario import FOREVER, ScenarioFault
from topologies.errors import FabricError
from topologies.fabric import LinkEnd
from topologies.fault_targets import directions
from topologies.faults import Fault

_CLASS: Final = 14  # traffic class in a frame: four bits of this byte and four of the next


class TrafficClass(enum.Enum):
    """The two classes (docs/protocol.md §1.10)."""

    DATA = "data"
    CONTROL = "control"

    def values(self, dscp: Dscp) -> tuple[int, ...]:
        """The DSCP values of this class."""
        if self is TrafficClass.DATA:
            return dscp.trimmable, dscp.no_trim, dscp.retransmit
        return dscp.trimmed, dscp.trimmed_lasthop, dscp.control


@dataclass(frozen=True, slots=True)
class ClassLoss(Fault):
    """Frames of one traffic class are lost at random, each with `probability`."""

    link: str
    traffic_class: TrafficClass
    probability: float = 1.0
    towards: str | None = None

    def check(self) -> None:
        """A probability."""
        _check_probability(self.probability)


@dataclass(frozen=True, slots=True)
class BitFlips(Fault):
    """One bit anywhere in a frame is flipped, each frame with `probability`."""

    link: str
    probability: float
    towards: str | None = None

    def check(self) -> None:
        """A probability."""
        _check_probability(self.probability)


ChannelFault = ClassLoss | BitFlips
CHANNEL_FAULTS: Final = (ClassLoss, BitFlips)


def _check_probability(probability: float) -> None:
    if not 0 < probability <= 1:
        raise FabricError(f"a probability is above 0 and at most 1, not {probability}")


class HarmedChannel:
    """What arrives by one channel while there are faults on it. Losses of several faults are independent."""

    def __init__(self, channel: Channel, dscp: Dscp, seed: int) -> None:
        self.faults: list[ChannelFault] = []
        self.harmed = 0  # frames lost or changed
        self._channel = channel
        self._dscp = dscp
        self._random: random.Random = generator(seed, "harmed", channel.name)

    def lost(self, frame: bytes, why: str) -> None:
        """The channel itself loses a frame: its own affair."""

    def arrived(self, frame: bytes, deliver: Callable[[int, bytes], None]) -> None:
        """A frame comes out of the channel."""
        for fault in self.faults:
            if isinstance(fault, ClassLoss) and dscp_of(frame) not in fault.traffic_class.values(self._dscp):
                continue
            if self._random.random() >= fault.probability:
                continue
            self.harmed += 1
            if isinstance(fault, ClassLoss):
                return
            frame = self._flip(frame)
        deliver(self._channel.target.port, frame)

    def _flip(self, frame: bytes) -> bytes:
        bit = self._random.randrange(8 * len(frame))
        flipped = bytearray(frame)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        return bytes(flipped)


class ChannelFaults:
    """These faults of one world."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self.channels: dict[LinkEnd, HarmedChannel] = {}  # by the end that frames leave

    def plan(self, planned: ScenarioFault) -> None:
        """Have a fault hold in its time."""
        fault = planned.fault
        assert isinstance(fault, ChannelFault)
        fault.check()
        for _, source, _ in directions(self._world.fabric, fault.link, fault.towards):
            self._at(planned.start, self._begin, source, fault)
            if planned.end < FOREVER:
                self._at(planned.end, self._end, source, fault)

    def _at(self, when: int, work: Callable[[LinkEnd, ChannelFault], None], end: LinkEnd, fault: ChannelFault) -> None:
        if when <= self._world.now:
            work(end, fault)
        else:
            self._world.clock.at(when, work, end, fault)

    def _begin(self, source: LinkEnd, fault: ChannelFault) -> None:
        channel = self._world.channel(source)
        if source not in self.channels:
            self.channels[source] = HarmedChannel(channel, self._world.fabric.settings.dscp, self._world.seed)
        self.channels[source].faults.append(fault)
        channel.watch(self.channels[source])

    def _end(self, source: LinkEnd, fault: ChannelFault) -> None:
        harmed = self.channels[source]
        harmed.faults.remove(fault)
        if not harmed.faults:
            self._world.channel(source).watch(None)


def dscp_of(frame: bytes) -> int:
    """The DSCP of a frame of IPv6; -1 of one that is too short."""
    return (frame[_CLASS] << 8 | frame[_CLASS + 1]) >> 6 & 63 if len(frame) > _CLASS + 1 else -1
