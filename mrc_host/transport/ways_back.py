"""Ways back: the paths on which SACKs and other answers travel to a peer (docs/protocol.md §3, R3.16).

Each plane has a few ways known to work, because own data or a probe came through on them, about four in all planes
together; answers take any of them, so a way that dies costs a share of the answers and not all. Where none is known
each answer takes a random path. While answers are sent one probe an interval goes out: on the way whose last
confirmation is oldest, or, where ways are missing, every other time on a path not known yet. A way whose probe is lost
is given up.

When the peer repeats packets that were acknowledged, or asks for them, answers are lost *now*. Then all ways used since
they were last confirmed are in doubt, but for those confirmed so lately that the peer cannot have heard of it: they and
some other paths of their planes are probed at once, the remaining paths one after the other, and only what answers is
used again. When the peer asks, the path that a plane's last answer took because no way was known is in doubt too, so
the next takes another.
Paths that the controller forbids are not probed for this, and held for good when they are allowed again.
"""

from __future__ import annotations

import random
from collections.abc import Container
from typing import Final

from mrc_host.transport.loss import RoundTrip

_WAYS: Final = 4  # kept in all planes together, and one in each at least
_STRANGERS: Final = 2  # other paths of a plane that are tried when all its ways are in doubt
_AT_ONCE: Final = 8  # probes on the way that do not stop one from probing more at once
_MOST_PROBES: Final = 32  # on the way
_PATIENCE: Final = 4  # round trips, or intervals while these are not known, after which a probe counts as lost


class _Way:
    __slots__ = ("confirmed", "index", "used")

    def __init__(self, index: int, now: int) -> None:
        self.index = index
        self.confirmed = now
        self.used = -1


class WaysBack:
    """Paths for answers to one peer. `members` are the peer's paths by plane; times are ns."""

    __slots__ = (
        "_blind", "_guesses", "_interval", "_left", "_members", "_probes", "_rng", "_silent", "_strange", "_trip",
        "_ways", "distrusted",
    )  # fmt: skip

    def __init__(self, rng: random.Random, members: list[list[int]], interval: int) -> None:
        self._rng = rng
        self._members = members
        self._interval = interval
        self._ways: list[list[_Way]] = [[] for _ in members]
        self._silent: set[int] = set()  # paths in doubt, or whose last probe was lost
        self._guesses: dict[int, tuple[int, int]] = {}  # by plane: path of the last answer that knew no way, and when
        self._probes: dict[int, tuple[int, int, int]] = {}  # request id -> path, plane, when sent
        self._strange = False  # whether the last probe of an interval tried a path not known yet
        self._trip = RoundTrip()
        self._left = 0  # paths still to be tried where none is left
        self._blind = 0  # planes whose ways are all in doubt
        self.distrusted = 0  # planes that have no way while probes were lost there

    # ---- what works -----------------------------------------------------------------------------------------------

    def works(self, index: int, plane: int, now: int, bad: bool = False) -> None:
        """A packet is known to have come through on path `index`; one held for `bad` is better than no way only."""
        self._silent.discard(index)
        self.distrusted &= ~(1 << plane)
        self._blind &= ~(1 << plane)
        ways = self._ways[plane]
        for way in ways:
            if way.index == index:
                way.confirmed = now
                return
        if bad and ways:
            return
        present = sum(1 for members in self._members if members)
        if len(ways) * present >= _WAYS:
            ways.remove(min(ways, key=_confirmed))
        ways.append(_Way(index, now))

    def forget(self, index: int, plane: int) -> None:
        """Path `index` is found bad, or forbidden."""
        self._ways[plane] = [way for way in self._ways[plane] if way.index != index]

    def trust(self, index: int, plane: int) -> None:
        """Path `index` is allowed again: what was held against it or its plane is out of date."""
        self._silent.discard(index)
        self.distrusted &= ~(1 << plane)

    def newest(self, planes: int) -> int:
        """When a way in one of the planes in mask `planes` was last confirmed; -1 where none is known."""
        return max((w.confirmed for p, ways in enumerate(self._ways) if planes >> p & 1 for w in ways), default=-1)

    # ---- choosing -------------------------------------------------------------------------------------------------

    def choose(self, plane: int, bad: Container[int], denied: Container[int], now: int) -> int:
        """Path for an answer on `plane`; -1 when all are `denied`. Those known as `bad` come last."""
        ways = self._ways[plane]
        if ways:
            way = ways[0] if len(ways) == 1 else ways[int(self._rng.random() * len(ways))]
            way.used = now
            return way.index
        index = self.stranger(plane, bad, denied)
        if index >= 0:
            self._guesses[plane] = index, now
        return index

    def stranger(self, plane: int, bad: Container[int], denied: Container[int]) -> int:
        """A random path of `plane`, whether known to work or not; -1 when all are `denied`. Those `bad` come last."""
        members = self._members[plane]
        if not members:
            return -1
        for _ in range(4):
            index = members[int(self._rng.random() * len(members))]
            if not (index in bad or index in denied or index in self._silent):
                return index
        allowed = [i for i in members if i not in denied]
        hopeful = [i for i in allowed if i not in bad and i not in self._silent]
        return self._rng.choice(hopeful or allowed or [-1])

    def any_path(self, plane: int, denied: Container[int]) -> int:
        """Any path of `plane` with the same chance, whatever is known of it; -1 when all are `denied`."""
        return self._rng.choice([i for i in self._members[plane] if i not in denied] or [-1])

    # ---- probes ---------------------------------------------------------------------------------------------------

    @property
    def sought(self) -> bool:
        """Whether paths are still to be tried in a plane whose ways are all in doubt."""
        return bool(self._blind and self._left)

    def doubt(
        self, planes: int, bad: Container[int], denied: Container[int], now: int, asked: bool = False
    ) -> list[int]:
        """Answers are lost, perhaps the peer `asked`: the paths to probe now, of the planes in mask `planes`."""
        wanted: list[int] = []
        known = now - (2 * self._trip.smoothed or self._interval // _PATIENCE)  # by the peer
        for plane, (index, when) in list(self._guesses.items()):
            if asked and when < known:
                del self._guesses[plane]
                if not any(way.index == index and way.confirmed > when for way in self._ways[plane]):
                    self._silent.add(index)
        for plane, ways in enumerate(self._ways):
            doubtful = [way.index for way in ways if way.used >= way.confirmed and way.confirmed < known]
            if doubtful:
                self._silent.update(doubtful)
                self._ways[plane] = [way for way in ways if way.index not in doubtful]
            if not planes >> plane & 1:
                continue
            if not self._ways[plane]:
                self._blind |= 1 << plane
            wanted += doubtful
            if not self._ways[plane]:
                unknown = [i for i in self._members[plane] if i not in self._silent]
                strangers = [i for i in unknown if not (i in bad or i in denied)]
                wanted += self._rng.sample(strangers, min(_STRANGERS, len(strangers)))
        under_way = {index for index, _plane, _sent in self._probes.values()}
        self._left = sum(len(members) for plane, members in enumerate(self._members) if self._blind >> plane & 1)
        return [index for index in wanted if index not in under_way][: max(0, _AT_ONCE - len(self._probes))]

    def due(self, planes: int, bad: Container[int], denied: Container[int]) -> int:
        """An interval has passed: the path to probe in one of the planes in mask `planes`; -1 for none."""
        planes = planes & self._blind or planes
        self._left = max(0, self._left - 1)
        choices = [p for p in range(len(self._members)) if planes >> p & 1]
        if not choices or len(self._probes) >= _MOST_PROBES:
            return -1
        plane = self._rng.choice(choices)
        ways = self._ways[plane]
        present = sum(1 for members in self._members if members)
        known = {way.index for way in ways}
        self._strange = len(ways) * present < _WAYS and not (ways and self._strange)
        if self._strange:
            under_way = {probe[0] for probe in self._probes.values()}
            allowed = [i for i in self._members[plane] if not (i in bad or i in denied)]
            strangers = [i for i in allowed if not (i in known or i in under_way)]
            if strangers:
                return self._rng.choice([i for i in strangers if i not in self._silent] or strangers)
        return min(ways, key=_confirmed).index if ways else -1

    def probed(self, request_id: int, index: int, plane: int, now: int) -> None:
        """A probe was sent."""
        self._probes[request_id] = (index, plane, now)

    def answered(self, request_id: int, now: int) -> None:
        """A probe, perhaps one of these, came back."""
        probe = self._probes.pop(request_id, None)
        if probe is not None:
            self._trip.sample(now - probe[2])

    def lost(self, now: int) -> list[int]:
        """Request ids of probes that count as lost now; their paths are not used until something comes through."""
        smoothed = self._trip.smoothed
        patience = _PATIENCE * (min(smoothed, self._interval) if smoothed else self._interval)
        late = [request_id for request_id, (_i, _p, sent) in self._probes.items() if now - sent >= patience]
        for request_id in late:
            index, plane, _sent = self._probes.pop(request_id)
            self._silent.add(index)
            self.forget(index, plane)
            if not self._ways[plane]:
                self.distrusted |= 1 << plane
        return late


def _confirmed(way: _Way) -> int:
    return way.confirmed
