"""Reverse paths: the paths on which SACKs and other answers travel to a peer (docs/protocol.md §3, R3.16).

Each path is in one of five states, and only ``_move`` changes them:

* ``UNTRIED``: nothing is known about it.
* ``GUESSED``: the last answer on its plane took it at random, because no path was confirmed.
* ``CONFIRMED``: own data or a probe got through. Answers take these: a few per plane, about four in all planes
  together, so that losing one costs only a part of the answers.
* ``DOUBTED``: answers that took it may be lost.
* ``LOST``: its probe was not answered.

**Doubt.** When the peer retransmits packets that were acknowledged, or probes for them, answers are being lost *now*:
those sent so long ago that it should have received them. So each confirmed path that carried such an answer, with
nothing confirmed on it since, is in doubt; an answer that has just left says nothing about its path. When the peer
probes, guessed paths are in doubt too, so the next answer takes another.

**Probes.** While answers are sent, one probe per interval is sent: on the path whose confirmation is oldest or, where
confirmed paths are missing, every other time on another one. Paths in doubt, and two untried ones of each plane without
a confirmed path, are probed at once, and then the plane's other paths one after another. Denied paths are not probed,
and what was recorded against them is forgotten when they are allowed.
"""

from __future__ import annotations

import random
from collections.abc import Container
from typing import Final

from mrc_host.transport.round_trip import RoundTrip

UNTRIED: Final = 0
GUESSED: Final = 1
CONFIRMED: Final = 2
DOUBTED: Final = 3
LOST: Final = 4

_MAX_CONFIRMED: Final = 4  # in all planes together, and at least one in each
_UNTRIED_AT_ONCE: Final = 2  # untried paths probed at once in a plane without a confirmed path
_MAX_AT_ONCE: Final = 8  # probes in flight up to which more are sent at once
_MAX_PROBES: Final = 32  # in flight
_PROBE_TIMEOUT: Final = 4  # round trips, or intervals until one is measured, after which a probe counts as lost


class _Path:
    """What is known about one path."""

    __slots__ = ("confirmed", "index", "plane", "state", "used")

    def __init__(self, index: int, plane: int) -> None:
        self.index = index
        self.plane = plane
        self.state = UNTRIED
        self.confirmed = 0  # when something last got through; only in state CONFIRMED
        self.used = -1  # when an answer first took it in this state, or since it was last confirmed; -1 for never


class ReversePaths:
    """Paths for answers to one peer. `members` are the peer's paths by plane; times are ns."""

    __slots__ = (
        "_confirmed", "_guessed", "_interval", "_left", "_members", "_paths", "_probes", "_rng", "_round_trip",
        "_searched", "_silent", "_tried_other",
    )  # fmt: skip

    def __init__(self, rng: random.Random, members: list[list[int]], interval: int) -> None:
        self._rng = rng
        self._members = members
        self._interval = interval
        self._paths: dict[int, _Path] = {}  # all except the untried
        self._confirmed: list[list[_Path]] = [[] for _ in members]  # by plane
        self._guessed: list[_Path | None] = [None for _ in members]  # by plane: the latest guessed path
        self._searched = 0  # planes where answers were lost and no path was confirmed since
        self._silent = 0  # planes where probes were lost and no path was confirmed since
        self._left = 0  # paths still to be probed in planes that are searched
        self._probes: dict[int, tuple[int, int, int]] = {}  # request id -> path, plane, send time
        self._tried_other = False  # whether the last probe of an interval tried a path that was not confirmed
        self._round_trip = RoundTrip()

    # ---- what is known --------------------------------------------------------------------------------------------

    def _move(self, path: _Path, state: int) -> None:
        paths = self._confirmed[path.plane]
        if path.state == CONFIRMED:
            paths.remove(path)
        if state == CONFIRMED:
            paths.append(path)
            self._searched &= ~(1 << path.plane)
            self._silent &= ~(1 << path.plane)
        if state == UNTRIED:
            self._paths.pop(path.index, None)
        else:
            self._paths[path.index] = path
        path.state = state
        path.used = -1

    def _path(self, index: int, plane: int) -> _Path:
        path = self._paths.get(index)
        return _Path(index, plane) if path is None else path

    def state(self, index: int) -> int:
        """State of path `index`."""
        path = self._paths.get(index)
        return UNTRIED if path is None else path.state

    def confirm(self, index: int, plane: int, now: int, bad: bool = False) -> None:
        """A packet on path `index` is known to have arrived; a `bad` path is used only if its plane has no other."""
        path = self._path(index, plane)
        if path.state == CONFIRMED:
            path.used = -1
        else:
            paths = self._confirmed[plane]
            if bad and paths:
                self._move(path, UNTRIED)
                return
            if len(paths) * self._planes() >= _MAX_CONFIRMED:
                self._move(_confirmed_longest_ago(paths), UNTRIED)
            self._move(path, CONFIRMED)
        path.confirmed = now

    def forget(self, index: int) -> None:
        """Path `index` went bad or was denied: answers take others."""
        path = self._paths.get(index)
        if path is not None and path.state == CONFIRMED:
            self._move(path, UNTRIED)

    def allow(self, index: int, plane: int) -> None:
        """Path `index` is allowed again: what was recorded against it or its plane is out of date."""
        path = self._paths.get(index)
        if path is not None and path.state > CONFIRMED:
            self._move(path, UNTRIED)
        self._silent &= ~(1 << plane)

    def _planes(self) -> int:
        """Planes with paths. A loop, since this is done for most SACKs: `sum` would resume a generator for each."""
        planes = 0
        for members in self._members:
            if members:
                planes += 1
        return planes

    # ---- choosing -------------------------------------------------------------------------------------------------

    def planes(self, planes: int, bad: int, anywhere: bool = False) -> int:
        """Which of `planes` (a mask, as is `bad`) should carry answers; 0 when none is suited.

        Excluded are planes where probes were lost; planes where answers were lost and no path was confirmed since, as
        long as there are others, except for an answer that may go `anywhere`; and planes whose paths are all `bad`,
        unless something got through there later than on any other plane. (Otherwise, if one of two NICs considers the
        only working plane bad, they might never find it: answers to the other's probes would not take it.)
        """
        planes &= ~self._silent
        if not anywhere:
            planes = planes & ~self._searched or planes
        if bad:
            newest = self._newest(planes & ~bad)
            for plane in range(len(self._members)):
                if bad >> plane & 1 and self._newest(1 << plane) <= newest:
                    planes &= ~(1 << plane)
        return planes

    def _newest(self, planes: int) -> int:
        """When a path of `planes` was last confirmed; -1 if none is."""
        confirmed = self._confirmed
        return max(
            (path.confirmed for p, paths in enumerate(confirmed) if planes >> p & 1 for path in paths), default=-1
        )

    def choose(self, plane: int, bad: Container[int], denied: Container[int], now: int) -> int:
        """Path for an answer on `plane`, `bad` ones last; -1 when all are `denied`."""
        paths = self._confirmed[plane]
        if paths:
            path = paths[0] if len(paths) == 1 else paths[int(self._rng.random() * len(paths))]
            if path.used < 0:
                path.used = now
            return path.index
        index = self.random_path(plane, bad, denied)
        if index >= 0:
            self._guess(self._path(index, plane), now)
        return index

    def _guess(self, path: _Path, now: int) -> None:
        last = self._guessed[path.plane]
        if last is not None and last is not path and last.state == GUESSED:
            self._move(last, UNTRIED)
        if path.state == UNTRIED:
            self._move(path, GUESSED)
        path.used = now
        self._guessed[path.plane] = path

    def random_path(self, plane: int, bad: Container[int], denied: Container[int]) -> int:
        """A random path of `plane`, confirmed or not; doubted, lost and `bad` ones last. -1 when all are `denied`."""
        members = self._members[plane]
        if not members:
            return -1
        for _ in range(4):
            index = members[int(self._rng.random() * len(members))]
            if not (index in bad or index in denied or self.state(index) > CONFIRMED):
                return index
        allowed = [i for i in members if i not in denied]
        hopeful = [i for i in allowed if i not in bad and self.state(i) <= CONFIRMED]
        return self._rng.choice(hopeful or allowed or [-1])

    def any_path(self, plane: int, denied: Container[int]) -> int:
        """Any path of `plane`, each with the same probability, whatever its state; -1 when all are `denied`."""
        return self._rng.choice([i for i in self._members[plane] if i not in denied] or [-1])

    # ---- doubt ----------------------------------------------------------------------------------------------------

    @property
    def searching(self) -> bool:
        """Whether paths are still to be probed in a plane that lost answers and has no confirmed path."""
        return bool(self._searched and self._left)

    def doubt(
        self,
        planes: int,
        bad: Container[int],
        denied: Container[int],
        now: int,
        probed: bool = False,
        round_trip: int = 0,
    ) -> list[int]:
        """Answers are lost; `probed` if the peer sent a probe. Returns the paths to probe now, in `planes` (a mask).

        `round_trip` is that of data to the peer (ns), 0 if not known: it stands for that of probes until one is
        measured.
        """
        before = now - (2 * (self._round_trip.smoothed or round_trip) or self._interval // _PROBE_TIMEOUT)
        wanted: list[int] = []
        for plane, paths in enumerate(self._confirmed):
            doubtful = [path for path in paths if 0 <= path.used < before]
            for path in doubtful:
                self._move(path, DOUBTED)
            guess = self._guessed[plane]
            if probed and guess is not None and guess.state == GUESSED and guess.used < before:
                self._move(guess, DOUBTED)
            if planes >> plane & 1:
                wanted += [path.index for path in doubtful]
                if not paths:
                    self._searched |= 1 << plane
                    untried = [i for i in self._members[plane] if i not in self._paths]
                    others = [i for i in untried if not (i in bad or i in denied)]
                    wanted += self._rng.sample(others, min(_UNTRIED_AT_ONCE, len(others)))
        under_way = {index for index, _plane, _sent in self._probes.values()}
        self._left = sum(len(members) for p, members in enumerate(self._members) if self._searched >> p & 1)
        return [index for index in wanted if index not in under_way][: max(0, _MAX_AT_ONCE - len(self._probes))]

    # ---- probes ---------------------------------------------------------------------------------------------------

    def next_probe(self, planes: int, bad: Container[int], denied: Container[int]) -> int:
        """An interval has passed: the path to probe in one of the planes in mask `planes`; -1 for none."""
        planes = planes & self._searched or planes
        self._left = max(0, self._left - 1)
        choices = [p for p in range(len(self._members)) if planes >> p & 1]
        if not choices or len(self._probes) >= _MAX_PROBES:
            return -1
        plane = self._rng.choice(choices)
        paths = self._confirmed[plane]
        missing = len(paths) * self._planes() < _MAX_CONFIRMED
        self._tried_other = missing and not (paths and self._tried_other)
        if self._tried_other:
            under_way = {probe[0] for probe in self._probes.values()}
            allowed = [i for i in self._members[plane] if not (i in bad or i in denied or i in under_way)]
            others = [i for i in allowed if self.state(i) != CONFIRMED]
            if others:
                return self._rng.choice([i for i in others if i not in self._paths] or others)
        return _confirmed_longest_ago(paths).index if paths else -1

    def probe_sent(self, request_id: int, index: int, plane: int, now: int) -> None:
        """A probe was sent."""
        self._probes[request_id] = (index, plane, now)

    def probe_answered(self, request_id: int, now: int) -> None:
        """A probe, perhaps one of these, was answered."""
        probe = self._probes.pop(request_id, None)
        if probe is not None:
            self._round_trip.sample(now - probe[2])

    def expire(self, now: int) -> list[int]:
        """Request ids of probes that now count as lost; their paths are not used until something gets through."""
        smoothed = self._round_trip.smoothed
        timeout = _PROBE_TIMEOUT * (min(smoothed, self._interval) if smoothed else self._interval)
        late = [request_id for request_id, (_i, _p, sent) in self._probes.items() if now - sent >= timeout]
        for request_id in late:
            index, plane, _sent = self._probes.pop(request_id)
            self._move(self._path(index, plane), LOST)
            if not self._confirmed[plane]:
                self._silent |= 1 << plane
        return late


def _confirmed_longest_ago(paths: list[_Path]) -> _Path:
    """The first of those; a loop, since this is done for most SACKs, and `min` would call a function for each path."""
    found = paths[0]
    for path in paths:
        if path.confirmed < found.confirmed:
            found = path
    return found
