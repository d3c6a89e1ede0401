"""Paths that lose some packets: each stream meets every one of them by chance, on its own.

A lost packet retires the path at once, unless it is the last of its plane (`mrc_host/transport/paths.py`); what is
under way on it may be lost, too. Then probes, which the path loses as it loses data, restore it by and by, each time
later (`mrc_host/transport/probe_schedule.py`). If it lost none of them it rests where paths may, until another path of
its plane fails. How many packets it carries until the next loss is geometric, so the path needs no event but that.

That such a path is out of use changes nothing about the rates here: its stream has others in the plane.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import log1p
from typing import Final, Protocol

from mrc_host.config import PathTimers, TransportSettings
from mrc_host.transport.probe_schedule import FlapDamping, ProbeSchedule

_NEVER: Final = float("inf")

At = Callable[[int, Callable[[int], None]], None]
Place = tuple[int, ...]
"""Stream, plane, where the path turns and, if queue pairs have paths of their own, the queue pair's number."""


class LossySurroundings(Protocol):
    """What lossy paths ask of the others."""

    def path_rate(self, stream: int, plane: int) -> tuple[float, float]:
        """Packets a second on each path of a stream in a plane, and how long (ns) a loss there goes unnoticed."""

    def is_last(self, stream: int, plane: int) -> bool:
        """Whether a plane has no other path for a stream."""

    def lose(self, stream: int, packets: float) -> None:
        """Packets were lost."""

    def resting(self, stream: int) -> int:
        """How many paths of a plane a stream may let rest."""

    def timers(self, stream: int) -> tuple[int, PathTimers]:
        """Round trip (ns) of a stream, and timers of its probes."""

    def note(self, place: Place, now: int, first_loss: int | None) -> None:
        """A path went out of use, or came back."""

    def uses(self, place: Place) -> bool:
        """Whether a path that works is in use, and not a backup."""


class LossyPath:
    """One path of one stream. `left` packets are carried until the next loss, as of time `since`, at `rate` a second.

    It may be `used`, out of use, `resting` or, where queue pairs use a part of their paths, a `backup`. `turn` counts
    what was planned for it, so that what is not wanted any more is not done.
    """

    __slots__ = ("backup", "chance", "left", "loss", "place", "rate", "resting", "since", "turn", "used")

    def __init__(self, place: Place, loss: float, chance: random.Random) -> None:
        self.place = place
        self.loss = loss
        self.chance = chance
        self.left = _NEVER
        self.rate = 0.0
        self.since = 0
        self.turn = 0
        self.used = True
        self.resting = False
        self.backup = False

    def draw(self) -> None:
        """How many packets get through before the next loss."""
        self.left = log1p(-self.chance.random()) / log1p(-self.loss) if self.loss else _NEVER

    def go_on(self, rate: float, now: int) -> None:
        """From now on it carries `rate` packets a second."""
        self.left = max(0.0, self.left - self.rate * (now - self.since) / 1e9)
        self.rate, self.since = rate, now


class LossyPaths:
    """All lossy paths. `draw` makes the random generator of one, by its name."""

    def __init__(
        self,
        around: LossySurroundings,
        settings: TransportSettings,
        at: At,
        draw: Callable[[Place], random.Random],
    ) -> None:
        self._around, self._settings, self._at = around, settings, at
        self._draw = draw
        self._damping = FlapDamping(settings.flap_half_life)
        self._numbers: dict[Place, int] = {}  # as the damping knows them
        self.paths: dict[Place, LossyPath] = {}
        self._waiting: dict[tuple[int, int], list[LossyPath]] = {}  # those that rest, by stream and plane

    def set(self, wanted: Mapping[Place, float]) -> None:
        """From now on these paths lose that share of their packets, and no others do."""
        for place in [place for place in self.paths if place not in wanted]:
            self.paths[place].loss = 0.0  # its probes are answered from now on
            if self.paths[place].used or self.paths[place].backup:
                del self.paths[place]
        for place, loss in wanted.items():
            path = self.paths.get(place)
            if path is None:
                path = self.paths[place] = LossyPath(place, loss, self._draw(place))
                path.used = self._around.uses(place)
                path.backup = not path.used
                path.draw()
            elif path.loss != loss:
                path.loss = loss
                path.draw()

    def rates_changed(self, now: int) -> None:
        """Streams have other rates: what is carried until the next loss takes another time."""
        for path in self.paths.values():
            if path.used and path.loss:
                self._plan(path, now)

    def _plan(self, path: LossyPath, now: int) -> None:
        rate, _ = self._around.path_rate(*path.place[:2])
        path.go_on(rate, now)
        path.turn += 1
        if rate and path.loss:
            turn = path.turn
            self._at(now + round(path.left * 1e9 / rate), lambda time: self._loses(path, turn, time))

    def _loses(self, path: LossyPath, turn: int, now: int) -> None:
        if turn != path.turn or not path.used or not path.loss:
            return
        stream, plane = path.place[:2]
        rate, unnoticed = self._around.path_rate(stream, plane)
        if self._around.is_last(stream, plane):
            self._around.lose(stream, 1)
            path.left, path.since = 0.0, now
            path.draw()
            self._plan(path, now)
            return
        after = rate * unnoticed / 1e9
        packets = int(after) + (path.chance.random() < after % 1)
        self._around.lose(stream, 1 + sum(path.chance.random() < path.loss for _ in range(packets)))
        path.used = False
        self.wake(stream, plane, now)
        self._at(now + round(unnoticed), lambda time: self._retired(path, now, time))

    def wake(self, stream: int, plane: int, now: int) -> None:
        """A path of a plane fails: one that rests takes its place."""
        if waiting := self._waiting.get((stream, plane)):
            self._go_back(waiting.pop(0), now)

    def activate(self, place: Place, now: int) -> None:
        """A backup has come into use, which may be one that loses packets."""
        path = self.paths.get(place)
        if path is not None and path.backup:
            self._go_back(path, now)

    def _retired(self, path: LossyPath, since: int, now: int) -> None:
        self._around.note(path.place, now, since)
        number = self._numbers.setdefault(path.place, len(self._numbers))
        doublings = self._damping.failed(number, now)
        _, timers = self._around.timers(path.place[0])
        schedule = ProbeSchedule(timers, self._settings.probe_successes, doublings)
        self._at(now + schedule.interval, lambda time: self._probe(path, schedule, time))

    def _probe(self, path: LossyPath, schedule: ProbeSchedule, now: int) -> None:
        again = schedule.probed(now)
        if path.chance.random() < path.loss:
            self._at(again, lambda time: self._probe_lost(path, schedule, time))
        else:
            trip, _ = self._around.timers(path.place[0])
            self._at(now + trip, lambda time: self._probe_answered(path, schedule, time))

    def _probe_lost(self, path: LossyPath, schedule: ProbeSchedule, now: int) -> None:
        schedule.lost()
        self._probe(path, schedule, now)

    def _probe_answered(self, path: LossyPath, schedule: ProbeSchedule, now: int) -> None:
        due = schedule.answered(now)
        if due:
            self._at(due, lambda time: self._probe(path, schedule, time))
            return
        self._around.note(path.place, now, None)
        if not path.loss:
            self.paths.pop(path.place, None)
        elif not self._around.uses(path.place):
            path.backup = True
        elif (most := self._around.resting(path.place[0])) and not schedule.died:
            waiting = self._waiting.setdefault((path.place[0], path.place[1]), [])
            path.resting = True
            waiting.append(path)
            if len(waiting) > most:
                self._go_back(waiting.pop(0), now)
        else:
            self._go_back(path, now)

    def _go_back(self, path: LossyPath, now: int) -> None:
        """A path is in use again."""
        path.resting = path.backup = False
        path.used = True
        path.draw()
        path.rate, path.since = 0.0, now
        self._plan(path, now)

    def bad(self) -> dict[int, int]:
        """Paths out of use by stream."""
        found: dict[int, int] = {}
        for path in self.paths.values():
            if not (path.used or path.resting or path.backup):
                found[path.place[0]] = found.get(path.place[0], 0) + 1
        return found
