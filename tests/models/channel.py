"""A channel (`simulation/core/channel.h`): frames are strings of so many bytes, times fractions of a nanosecond."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor

from tests.models.clock import Event, ModelClock
from topologies.round_trip import OVERHEAD

Answer = Callable[[], "bytes | None"]


class ModelChannel:
    """`pull` is asked for a frame when the channel is free, `got` gets what arrives, and `lost` what does not."""

    def __init__(self, clock: ModelClock, rate: int, delay: int) -> None:
        self.clock = clock
        self.own_rate = self.rate = rate
        self.own_delay = self.delay = delay
        self.idle, self.down = True, False
        self.pull: Callable[[], None] = lambda: None
        self.got: Callable[[bytes], None] = lambda frame: None
        self.lost: Callable[[bytes], None] = lambda frame: None
        self.hold_back: Callable[[], int] = lambda: 0
        self._end = Fraction(0)  # of the frame that was sent last
        self._free: Event | None = None
        self._arrival: Event | None = None  # of that frame, if it was not lost
        self._on_the_way: list[Event] = []
        self._latest = self._not_before = 0

    def send(self, frame: bytes) -> None:
        now, self.idle = self.clock.now, False
        begin = self._end if floor(self._end) == now else Fraction(now)
        self._end = begin + Fraction(8 * (len(frame) + OVERHEAD) * 10**9, self.rate)
        self._free = self.clock.at(floor(self._end), self._is_free)
        self._arrival = None
        if self.down:
            self.lost(frame)
            return
        self._latest = max(floor(self._end) + self.delay, self._not_before)
        self._arrival = self.clock.at(self._latest + self.hold_back(), lambda: None)
        self._arrival.run = lambda event=self._arrival: self._arrive(event, frame)
        self._on_the_way.append(self._arrival)

    def _is_free(self) -> None:
        self._free = None
        self.pull()

    def _arrive(self, event: Event, frame: bytes) -> None:
        if event in self._on_the_way:
            self._on_the_way.remove(event)
            self.got(frame)
        else:
            self.lost(frame)

    def set_up(self, up: bool) -> None:
        self.down = not up
        if self.down:
            self._on_the_way.clear()

    def shape(self, rate: int | None, extra_delay: int, hold_back: Callable[[], int]) -> None:
        """A frame on the channel speeds up if the rate rises; none overtakes one that began with a longer delay."""
        rate = min(rate or self.own_rate, self.own_rate)
        left = floor(self._end) - self.clock.now
        if rate > self.rate and self._free is not None:
            saved = left - -(-left * self.rate // rate)
            self._free.when -= saved
            if self._arrival is not None:
                least = min(self._arrival.when, self._not_before)
                self._latest = self._arrival.when = max(self._arrival.when - saved, least)
            self._end -= saved
        if rate != self.rate:
            self._end = Fraction(floor(self._end))
        if self.own_delay + extra_delay < self.delay:
            self._not_before = max(self._not_before, self._latest)
        self.rate, self.delay, self.hold_back = rate, self.own_delay + extra_delay, hold_back
