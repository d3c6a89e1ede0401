"""Capture a link of a simulated world in a pcapng file, with a comment on every packet that something was done to.

There is an interface for each end, with the packets that arrive there, and those that were lost on their way with the
reason. A packet's time is that of its arrival, or of its loss. Why is known exactly: the channel says what it loses; a
switch at an end is observed packet by packet, by the counters of its program and of its queues before and after. Its
decisions are in the comments of the packets that it received (dropped, trimmed, corrupted) and of those that it sent
(trimmed, marked, corrupted), so one packet may be seen with the same decision on two links. What a fault loses towards
a NIC its switch never sends, so it is not on that link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import BinaryIO, Final

from mrc_host.captures.pcapng import PcapngWriter
from p4runtime_shim.switch import EmbeddedSwitch
from p4src import DROP_REASONS
from simulation.core.native import Channel
from simulation.nodes import Node, SwitchNode
from simulation.program_counters import ProgramCounters
from simulation.world import SimulatedWorld

_DSCP: Final = 14
_INNER_ADDRESSES: Final = slice(62, 94)
_TRANSPORT: Final = slice(102, 118)  # what trimming keeps and a switch does not change
_MARKED: Final = 3
_CONTROL_QUEUE: Final = 7


class SimulatedCapture:
    """Captures a link from now on; close() it after the world has run."""

    def __init__(self, world: SimulatedWorld, link: str, stream: BinaryIO) -> None:
        """Write to `stream`, which the caller closes. Raises FabricError for a link that there is not."""
        found = world.fabric.link(link)
        self._clock = world.clock
        ends = (found.upper, found.lower)
        names = [(f"{found.name}{mark}", f"arrived at {end.node}") for end, mark in zip(ends, "><", strict=True)]
        self._writer = PcapngWriter(stream, names, f"link {found.name} of fabric {world.fabric.name}, simulated")
        self.packets = 0
        self.comments: Counter[str] = Counter()  # by the comment's first words, up to a colon
        for interface, end in enumerate(ends):
            channel = world.channel(found.lower if end is found.upper else found.upper)
            channel.watch(_Direction(self, interface, channel, world))

    def write(self, interface: int, frame: bytes, comments: list[str]) -> None:
        """One packet, now."""
        self.packets += 1
        self.comments.update(comment.partition(":")[0] for comment in comments)
        self._writer.packet(interface, self._clock.now, frame, len(frame), "; ".join(comments))


class _Direction:
    """One direction of the link: what its channel reports, and the switches at its ends."""

    def __init__(self, capture: SimulatedCapture, interface: int, channel: Channel, world: SimulatedWorld) -> None:
        self._capture, self._interface, self._channel = capture, interface, channel
        self._departed: dict[int, list[str]] = {}  # by the identity of a frame on its way
        self._trimmed: Counter[bytes] = Counter()  # waiting to leave
        self._sender = _Observed.of(world.node(channel.source.node))
        self._receiver = _Observed.of(world.node(channel.target.node))
        sender = world.node(channel.source.node)
        if isinstance(sender, SwitchNode) and self._sender is not None:
            sender.wrap(self._around_receive, self._around_transmit)

    # ---- what the channel reports -------------------------------------------------------------------------------

    def lost(self, frame: bytes, why: str) -> None:
        """A frame that was sent does not arrive."""
        self._capture.write(self._interface, frame, [*self._departed.pop(id(frame), ()), f"lost on the link: {why}"])

    def arrived(self, frame: bytes, deliver: Callable[[int, bytes], None]) -> None:
        """A frame arrives, and is delivered here so that what becomes of it is seen."""
        comments = self._departed.pop(id(frame), [])
        port = self._channel.target.port
        before = self._receiver.state(port) if self._receiver is not None else None
        deliver(port, frame)
        if self._receiver is not None and before is not None:
            comments += self._receiver.decisions(port, before)
        self._capture.write(self._interface, frame, comments)

    # ---- the switch that sends ----------------------------------------------------------------------------------

    def _around_receive(self, receive: Callable[[int, bytes, int], None]) -> Callable[[int, bytes, int], None]:
        assert self._sender is not None
        sender, port = self._sender, self._channel.port

        def observed(arrival: int, frame: bytes, now: int) -> None:
            before = sender.cell("trimmed_packets", port)
            receive(arrival, frame, now)
            if sender.cell("trimmed_packets", port) > before:
                self._trimmed[_identity(frame)] += 1

        return observed

    def _around_transmit(self, transmit: Callable[[int, int], bytes | None]) -> Callable[[int, int], bytes | None]:
        assert self._sender is not None
        sender, port = self._sender, self._channel.port

        def observed(leaving: int, now: int) -> bytes | None:
            if leaving != port:
                return transmit(leaving, now)
            marked, depth = sender.cell("marked_packets", port), sender.queued(port)
            corrupted = sender.corrupted(port, arriving=False)
            frame = transmit(leaving, now)
            if frame is not None:
                comments = []
                if sender.cell("marked_packets", port) > marked and frame[_DSCP + 1] >> 4 & 3 == _MARKED:
                    comments.append(f"marked by {sender.name}: congestion, {depth:,} bytes in the queue of the port")
                identity = _identity(frame)
                if self._trimmed.get(identity):
                    self._trimmed.subtract((identity,))
                    self._trimmed += Counter()
                    comments.append(f"trimmed by {sender.name}: its queue towards this link was too long")
                if sender.corrupted(port, arriving=False) > corrupted:
                    comments.append(f"corrupted by {sender.name}: a fault flipped one bit")
                if comments:
                    self._departed[id(frame)] = comments
            return frame

        return observed


class _Observed(ProgramCounters):
    """The counters of a switch, and what its queues hold."""

    def __init__(self, name: str, switch: EmbeddedSwitch) -> None:
        super().__init__(switch)
        self.name = name

    @classmethod
    def of(cls, node: Node) -> _Observed | None:
        """Of a node, if it is a switch."""
        return cls(node.name, node.switch) if isinstance(node, SwitchNode) else None

    def queued(self, port: int) -> int:
        """Bytes of data in a port's queues."""
        return sum(queue.bytes for queue in self._switch.queue_stats(port)[:_CONTROL_QUEUE])

    def state(self, port: int) -> tuple[dict[str, int], dict[int, int], int]:
        """Drops by reason, trims by port, and what was corrupted on its arrival at `port`, so far."""
        drops = {reason: self.cell("drop_reasons", cell) for cell, reason in enumerate(DROP_REASONS) if cell}
        own = self._switch.stats()
        for number, stats in own.ports.items():
            drops[f"queue of port {number} full"] = stats.queue_drops
            drops[f"port {number} down"] = stats.down_drops
            drops[f"no headroom left at port {number}"] = stats.headroom_drops
        trims = {number: self.cell("trimmed_packets", number) for number in own.ports}
        return drops, trims, self.corrupted(port, arriving=True)

    def decisions(self, port: int, before: tuple[dict[str, int], dict[int, int], int]) -> list[str]:
        """What it did to the packet that came in at `port` in between."""
        drops, trims, corrupted = self.state(port)
        found = [f"dropped by {self.name}: {reason}" for reason, count in drops.items() if count > before[0][reason]]
        if corrupted > before[2]:
            found.append(f"corrupted by {self.name}: a fault flipped one bit")
        for number, count in trims.items():
            if count > before[1][number]:
                found.append(f"trimmed by {self.name}: {self.queued(number):,} bytes in the queue of port {number}")
        return found


def _identity(frame: bytes) -> bytes:
    """What a frame and its trimmed rest have in common."""
    return frame[_INNER_ADDRESSES] + frame[_TRANSPORT]
