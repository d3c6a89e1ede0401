"""One direction of a link: a transmitter with a rate, a propagation delay, and whatever goes wrong on the way.

A channel takes one frame at a time. The frame occupies it for its length plus Ethernet's own 24 bytes (preamble, FCS,
gap) at the channel's rate; fractions of a nanosecond are carried over while frames are back to back, so the rate is
exact over any stretch of time. When the channel is free again it asks its sender for the next frame; the frame reaches
the other end, whole, one propagation delay after its last bit has left. This is the only place where a rate is applied:
ports of NICs and switches have none of their own here.

What goes wrong here is physical: a channel goes down, and is shaped (:class:`topologies.faults.effect.PortShaping`):
slower, longer, or holding frames back. Random loss and corruption are up to the switches at its ends. Taking a channel
down also loses what is on its way: frames carry the channel's `epoch`, and those of an old one never arrive.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappush
from typing import Final, Protocol

from simulation.clock import Clock
from simulation.seeds import generator
from simulation.trace import Trace
from topologies import round_trip
from topologies.fabric import LinkEnd
from topologies.faults.effect import PortShaping

OVERHEAD: Final = round_trip.OVERHEAD
_BITS: Final = 8_000_000_000  # bits a byte, times nanoseconds a second


class FrameReceiver(Protocol):
    """What a channel delivers to."""

    def receive(self, port: int, frame: bytes) -> None:
        """A frame arrived at `port`."""


class ChannelNode(FrameReceiver, Protocol):
    """A device as its channels see it."""

    def pull(self, channel: Channel, _: object) -> None:
        """`channel`, which leaves this node, is free."""


class ChannelWatcher(Protocol):
    """Who learns what becomes of frames."""

    def lost(self, frame: bytes, why: str) -> None:
        """A frame does not arrive."""

    def arrived(self, frame: bytes, deliver: Callable[[int, bytes], None]) -> None:
        """A frame arrives; the watcher delivers it to the port it is for."""


@dataclass(frozen=True, slots=True)
class ChannelStats:
    """Counters of a channel since the beginning: frames that it took, and what became of them."""

    frames: int
    bytes: int
    lost: int
    corrupted: int
    reordered: int


class Channel:
    """One direction. `sender` and `receiver` are set once both nodes exist (see `world`)."""

    __slots__ = (
        "_arrive",
        "_base_delay",
        "_base_rate",
        "_clock",
        "_delay",
        "_down",
        "_epoch",
        "_free_at",
        "_heap",
        "_impaired",
        "_last_arrival",
        "_not_before",
        "_pull",
        "_random",
        "_rate",
        "_receive",
        "_remainder",
        "_seed",
        "_serial",
        "_shape",
        "_to_number",
        "_to_port",
        "_trace",
        "_watcher",
        "bytes",
        "frames",
        "idle",
        "lost",
        "name",
        "port",
        "reordered",
        "source",
        "target",
    )

    def __init__(self, clock: Clock, name: str, source: LinkEnd, target: LinkEnd, rate: int, delay: int, seed: int):
        self.name = name
        self.source, self.target = source, target
        self.port = source.port
        self.idle = True
        self.frames = self.bytes = self.lost = self.reordered = 0
        self._clock = clock
        self._heap = clock.heap
        self._serial = clock.serial
        self._rate = self._base_rate = rate
        self._delay = self._base_delay = delay
        self._remainder = 0
        self._free_at = 0
        self._epoch = 0
        self._last_arrival = 0  # of the frame that was sent last while something was wrong
        self._not_before = 0  # no frame may arrive earlier
        self._impaired = False
        self._down = False
        self._shape = PortShaping()
        self._seed = seed
        self._random: dict[str, random.Random] = {}
        self._to_port = target.port
        self._to_number = 0
        self._trace: Trace | None = None
        self._watcher: ChannelWatcher | None = None
        self._arrive = self.arrive

    def join(self, sender: ChannelNode, receiver: FrameReceiver, receiver_number: int, trace: Trace | None) -> None:
        """Connect both ends; `receiver_number` is the device's number in traces."""
        self._pull = sender.pull
        self._receive = receiver.receive
        self._to_number = receiver_number
        self._trace = trace

    def watch(self, watcher: ChannelWatcher | None) -> None:
        """Report to `watcher`, of which there is one at most, what becomes of every frame from now on."""
        self._watcher = watcher

    def stats(self, lost_by_switches: int = 0, corrupted: int = 0) -> ChannelStats:
        """Counters so far, with what the switches at its ends have lost and corrupted for faults."""
        return ChannelStats(self.frames, self.bytes, self.lost + lost_by_switches, corrupted, self.reordered)

    # ---- carrying -----------------------------------------------------------------------------------------------

    def send(self, frame: bytes, now: int) -> None:
        """Start a frame; the channel must be free."""
        self.idle = False
        self.frames += 1
        size = len(frame)
        self.bytes += size
        units = (size + OVERHEAD) * _BITS
        if self._free_at == now:
            units += self._remainder
        took, self._remainder = divmod(units, self._rate)
        self._free_at = free = now + took
        heappush(self._heap, (free, self._serial(), self._pull, self, None))
        if self._impaired:
            self._send_impaired(frame, free + self._delay)
        else:
            heappush(self._heap, (free + self._delay, self._serial(), self._arrive, frame, self._epoch))

    def _send_impaired(self, frame: bytes, arrival: int) -> None:
        if self._down:
            self._lose(frame, "nothing passes: link down or power off")
            return
        if arrival < self._not_before:
            arrival = self._not_before
        self._last_arrival = arrival
        shape = self._shape
        if shape.reorder and self._chance("reorder").random() < shape.reorder:
            self.reordered += 1
            arrival += self._chance("hold").randint(1, max(1, shape.hold))
        self._schedule_arrival(arrival, frame)

    def _schedule_arrival(self, when: int, frame: bytes) -> None:
        heappush(self._heap, (when, self._serial(), self._arrive, frame, self._epoch))

    def _lose(self, frame: bytes, why: str) -> None:
        self.lost += 1
        if self._watcher is not None:
            self._watcher.lost(frame, why)

    def _chance(self, kind: str) -> random.Random:
        found = self._random.get(kind)
        if found is None:
            found = self._random[kind] = generator(self._seed, self.name, kind)
        return found

    def arrive(self, frame: bytes, epoch: int) -> None:
        """The last bit has come; event handler."""
        if epoch != self._epoch:
            self._lose(frame, "on its way when the link went down")
            return
        if self._trace is not None:
            self._trace.frame(self._clock.now, self._to_number, self._to_port, frame)
        if self._watcher is not None:
            self._watcher.arrived(frame, self._receive)
        else:
            self._receive(self._to_port, frame)

    # ---- faults -------------------------------------------------------------------------------------------------

    def set_up(self, up: bool) -> None:
        """Take the channel down, which loses what is on its way, or up."""
        if self._down is not up:
            return
        self._down = not up
        if self._down:
            self._epoch += 1
        self._note_impaired()

    def shape(self, shape: PortShaping) -> None:
        """From now on frames are shaped like this; a rate above the channel's own changes nothing.

        A frame on the channel keeps the delay it began with, and its rate unless that rises: else a fault that made the
        channel slow would go on after its end for as long as one slow frame takes.
        """
        rate = self._base_rate if shape.rate_bps is None else min(shape.rate_bps, self._base_rate)
        if rate != self._rate:
            if rate > self._rate:
                self._hurry(rate)
            self._rate, self._remainder = rate, 0
        delay = self._base_delay + shape.delay
        if delay < self._delay:  # a shorter way now, but nobody overtakes what is still on the longer one
            self._not_before = max(self._not_before, self._last_arrival)
        self._shape, self._delay = shape, delay
        self._note_impaired()

    def _note_impaired(self) -> None:
        """Whether more is to be done to a frame than to let it arrive; a lower rate alone is no more work."""
        shape = self._shape
        self._impaired = bool(self._down or shape.delay or shape.reorder) or self._not_before > self._clock.now

    def _hurry(self, rate: int) -> None:
        """What is left of the frame on the channel goes on at `rate`. Its events are looked for among all there are."""
        left = self._free_at - self._clock.now
        saved = left - -(-left * self._rate // rate)
        if saved <= 0:
            return
        heap = self._heap
        free = next((event for event in heap if event[2] is self._pull and event[3] is self), None)
        if free is None:
            return
        for place, (when, serial, handler, a, b) in enumerate(heap):
            if serial == free[1]:
                heap[place] = (when - saved, serial, handler, a, b)
            elif serial == free[1] + 1 and handler is self._arrive:  # unless the frame was lost
                self._last_arrival = max(when - saved, min(when, self._not_before))
                heap[place] = (self._last_arrival, serial, handler, a, b)
        heapify(heap)
        self._free_at -= saved
