"""One direction of a link: a transmitter with a rate, a propagation delay, and whatever goes wrong on the way.

A channel takes one frame at a time. The frame occupies it for its length plus Ethernet's own 24 bytes (preamble, FCS,
gap) at the channel's rate; fractions of a nanosecond are carried over while frames are back to back, so the rate is
exact over any stretch of time. When the channel is free again it asks its sender for the next frame; the frame reaches
the other end, whole, one propagation delay after its last bit has left. This is the only place where a rate is applied:
ports of NICs and switches have none of their own here.

What goes wrong is an :class:`Impairment`, the sum of those that active faults ask for. Each kind of chance draws from a
generator of its own per channel, so whether the n-th frame of a channel is lost depends on nothing but the seed and n.
Taking a channel down also loses what is on its way: frames carry the channel's `epoch`, and those of an old one never
arrive.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappush
from typing import Final, Protocol

from simulation.clock import Clock
from simulation.seeds import generator
from simulation.trace import Trace
from topologies import round_trip
from topologies.fabric import LinkEnd

OVERHEAD: Final = round_trip.OVERHEAD
_BITS: Final = 8_000_000_000  # bits a byte, times nanoseconds a second
_CLASS: Final = 14  # traffic class in a frame: four bits of this byte and four of the next
_DESTINATION: Final = slice(38, 54)  # outer IPv6 destination in a frame


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

    def corrupted(self, before: bytes, after: bytes) -> None:
        """A frame goes on changed."""

    def arrived(self, frame: bytes, deliver: Callable[[int, bytes], None]) -> None:
        """A frame arrives; the watcher delivers it to the port it is for."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """What is wrong with a channel. Probabilities are per frame, times in ns.

    `down`: nothing arrives. `reorder`: probability that a frame is held back for up to `hold` ns more, so that later
    ones overtake it. `delay` is added to every frame's. `rate_bps` replaces the channel's rate if it is lower.
    `corruption` flips one bit somewhere in the frame, as if the FCS had missed it. `path_loss` is the probability of
    loss by outer destination address, which on a NIC's own channel names one path; `class_loss` the same by DSCP.
    """

    down: bool = False
    loss: float = 0.0
    corruption: float = 0.0
    reorder: float = 0.0
    hold: int = 0
    delay: int = 0
    rate_bps: int | None = None
    path_loss: Mapping[bytes, float] = field(default_factory=dict)
    class_loss: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChannelStats:
    """Counters of a channel since the beginning. `lost` counts frames lost by chance or while it was down."""

    frames: int
    bytes: int
    lost: int
    corrupted: int
    reordered: int


def combine(parts: Iterable[Impairment]) -> Impairment:
    """The impairment of several faults at once: chances are independent, delays add up, the lowest rate counts."""
    kept = {"loss": 1.0, "corruption": 1.0, "reorder": 1.0}
    paths: dict[bytes, float] = {}
    classes: dict[int, float] = {}
    rates: list[int] = []
    down, hold, delay = False, 0, 0
    for part in parts:
        down |= part.down
        hold = max(hold, part.hold)
        delay += part.delay
        for name in kept:
            kept[name] *= 1.0 - getattr(part, name)
        for address, chance in part.path_loss.items():
            paths[address] = 1.0 - (1.0 - paths.get(address, 0.0)) * (1.0 - chance)
        for dscp, chance in part.class_loss.items():
            classes[dscp] = 1.0 - (1.0 - classes.get(dscp, 0.0)) * (1.0 - chance)
        if part.rate_bps is not None:
            rates.append(part.rate_bps)
    chances = {name: 1.0 - left for name, left in kept.items()}
    rate = min(rates, default=None)
    return Impairment(down=down, hold=hold, delay=delay, rate_bps=rate, path_loss=paths, class_loss=classes, **chances)


class Channel:
    """One direction. `sender` and `receiver` are set once both nodes exist (see `world`)."""

    __slots__ = (
        "_arrive",
        "_base_delay",
        "_base_rate",
        "_clock",
        "_delay",
        "_epoch",
        "_free_at",
        "_heap",
        "_impaired",
        "_impairment",
        "_last_arrival",
        "_not_before",
        "_pull",
        "_random",
        "_rate",
        "_receive",
        "_remainder",
        "_seed",
        "_serial",
        "_to_number",
        "_to_port",
        "_trace",
        "_watcher",
        "bytes",
        "corrupted",
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
        self.frames = self.bytes = self.lost = self.corrupted = self.reordered = 0
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
        self._impairment = Impairment()
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

    def watch(self, watcher: ChannelWatcher) -> None:
        """Report to `watcher`, of which there is one at most, what becomes of every frame from now on."""
        self._watcher = watcher

    def stats(self) -> ChannelStats:
        """Counters so far."""
        return ChannelStats(self.frames, self.bytes, self.lost, self.corrupted, self.reordered)

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
        wrong = self._impairment
        why = self._why_lost(wrong, frame)
        if why:
            self._lose(frame, why)
            return
        if wrong.corruption and self._chance("corruption").random() < wrong.corruption:
            flipped = self._flip(frame, self._chance("bit"))
            if self._watcher is not None:
                self._watcher.corrupted(frame, flipped)
            frame = flipped
        if arrival < self._not_before:
            arrival = self._not_before
        self._last_arrival = arrival
        if wrong.reorder and self._chance("reorder").random() < wrong.reorder:
            self.reordered += 1
            arrival += self._chance("hold").randint(1, max(1, wrong.hold))
        self._schedule_arrival(arrival, frame)

    def _schedule_arrival(self, when: int, frame: bytes) -> None:
        heappush(self._heap, (when, self._serial(), self._arrive, frame, self._epoch))

    def _why_lost(self, wrong: Impairment, frame: bytes) -> str:
        """Why a frame does not arrive; empty if it does."""
        if wrong.down:
            return "nothing passes: link down, power off or blackhole"
        if wrong.loss and self._chance("loss").random() < wrong.loss:
            return self._random_loss()
        if wrong.path_loss and self._path_lost(wrong.path_loss.get(frame[_DESTINATION], 0.0)):
            return "random loss on its path"
        if wrong.class_loss and self._class_lost(wrong.class_loss, frame):
            return "random loss in its traffic class"
        return ""

    def _random_loss(self) -> str:
        return f"random loss of {self._impairment.loss:.3g} of all frames"

    def _lose(self, frame: bytes, why: str) -> None:
        self.lost += 1
        if self._watcher is not None:
            self._watcher.lost(frame, why)

    def _path_lost(self, chance: float) -> bool:
        return bool(chance) and self._chance("path").random() < chance

    def _class_lost(self, losses: Mapping[int, float], frame: bytes) -> bool:
        chance = losses.get((frame[_CLASS] << 8 | frame[_CLASS + 1]) >> 6 & 63, 0.0) if len(frame) > _CLASS + 1 else 0.0
        return bool(chance) and self._chance("class").random() < chance

    def _flip(self, frame: bytes, chance: random.Random) -> bytes:
        self.corrupted += 1
        bit = chance.randrange(8 * len(frame))
        flipped = bytearray(frame)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        return bytes(flipped)

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

    def impair(self, impairment: Impairment) -> None:
        """From now on this is wrong with the channel.

        A frame on the channel keeps the delay it began with, and its rate unless that rises: else a fault that made the
        channel slow would go on after its end for as long as one slow frame takes.
        """
        if impairment.down and not self._impairment.down:
            self._epoch += 1
        rate = self._base_rate if impairment.rate_bps is None else min(impairment.rate_bps, self._base_rate)
        if rate != self._rate:
            if rate > self._rate:
                self._hurry(rate)
            self._rate, self._remainder = rate, 0
        delay = self._base_delay + impairment.delay
        if delay < self._delay:  # a shorter way now, but nobody overtakes what is still on the longer one
            self._not_before = max(self._not_before, self._last_arrival)
        self._impairment = impairment
        by_rate_alone = impairment == Impairment(rate_bps=impairment.rate_bps)
        self._impaired = not by_rate_alone or self._not_before > self._clock.now
        self._delay = delay

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
