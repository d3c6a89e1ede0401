"""The paths of one queue pair: which entropy values may carry the next packet (docs/protocol.md §3).

A path has one or several entropy values (``entropy_values``), numbered as there; a path's number is that of its first.
Each plane has a ring of *active* values, walked by a cursor, and a list of *backups*; all planes start with the same
number of active values. A value can be skipped; all other states are those of its path, since all its values take the
same links. Where several share a path, equally many of each path are active, or paths would carry unequal load. The
rules:

* ECN or a trim: the value goes from GOOD to SKIP, and its path's other values stay in use, so a path where some packets
  are marked carries so much less. When the cursor reaches a value in SKIP, it makes it GOOD and moves on, at most once
  per packet, so a value is skipped for about one rotation. When all values of a ring are in SKIP, a GOOD backup whose
  path is not in the ring replaces one of them (as in published Fig 14), which becomes a backup.
* Loss or ALWAYS_SKIP: the path is ASSUMED_BAD at once. Backups of the *same plane* replace its values, so planes stay
  equal. Without backups the ring shrinks, down to the plane's floor (its share of `ev_min_active`, at least one path).
  At the floor, paths stay in use as long as anything gets through on them. A dead path becomes bad even there, though
  it keeps its place in the ring. A plane with only bad paths is not in ``good_planes``; it carries data only when every
  plane is like that, and then its bad paths take turns. After timeouts without progress its requester may rely on none
  of this (``any_allowed``).
* A path that replaces another, or has just returned, is on *trial* while there are others: it carries two packets until
  one of them is known to have arrived. The backup of a dead path may well be dead too.
* A path whose marked packets take much longer than those of other paths carries fewer packets (``path_weights``).
* Successful probes, or the controller: -> GOOD. Each value of the path replaces a bad one in the ring, fills a gap,
  becomes a backup, or takes the place of one whose path has more than its share. A path that was never dead by its
  probes, but loses packets, *rests* first: it is a backup until one is needed or more paths of its plane rest than one
  in `backup_share`. Where all values are active at first, so that all paths carry the same, such paths are the backups.
* Controller: any -> DENIED, DENIED -> GOOD. A denied path is never used.

After each rotation the ring is reshuffled a little, so that queue pairs do not use paths in the same order.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from mypy_extensions import trait

from mrc_host.transport.path import BAD as BAD
from mrc_host.transport.path import DENIED, GOOD, OUTSIDE, SKIP, Path
from mrc_host.transport.path_rings import PathRings
from mrc_host.transport.path_selection import HOLD, PathSelection
from mrc_host.transport.path_weights import PathWeights
from mrc_host.verbs_types import PathReason, PathState
from mrc_host.wire.control import NACK_NAMES, NACK_TRIMMED, NACK_TRIMMED_LASTHOP

STATES: Final = (PathState.GOOD, PathState.SKIP, PathState.ASSUMED_BAD, PathState.DENIED)
_RESHUFFLED: Final = 2  # exchanges per rotation
_TRIAL: Final = 2  # packets
_TRIMS: Final = (NACK_NAMES[NACK_TRIMMED], NACK_NAMES[NACK_TRIMMED_LASTHOP])  # reasons of losses
_Item = TypeVar("_Item")


@trait
class PathListener(ABC):
    """Is notified when a path becomes usable or unusable (SKIP does not count)."""

    __slots__ = ()

    @abstractmethod
    def path_changed(
        self, index: int, old: int, new: int, reason: PathReason, first_loss: int | None, now: int
    ) -> None:
        """Path `index` went from state `old` to `new`."""

    def path_skip_changed(self, value: int, old: int, new: int, reason: PathReason) -> None:  # noqa: B027 - optional
        """Entropy value `value` went from GOOD to SKIP or back; does nothing by default, since this is frequent."""

    def packet_lost(self, index: int, psn: int, sent: int, why: str) -> None:  # noqa: B027 - optional
        """Packet `psn`, sent on path `index` at time `sent`, was declared lost; does nothing by default."""


class PathSet:
    """States, active rings and backups of all paths. Sets of planes are bit masks; lists are indexed by plane."""

    __slots__ = (
        "_allowed",
        "_backup_share",
        "_cursor",
        "_doubted",
        "_floor",
        "_good",
        "_listener",
        "_oblivious",
        "_paths",
        "_per_path",
        "_plane_of",
        "_resort",
        "_rings",
        "_rng",
        "_selection",
        "_skipped",
        "_universe",
        "each",
        "good_planes",
        "open_planes",
        "planes",
        "restored_at",
        "trial",
        "weights",
    )

    def __init__(
        self,
        plane_of: bytes,
        *,
        active_paths: int | None,
        backup_share: int,
        ev_min_active: int,
        rng: random.Random,
        listener: PathListener,
        universe: Sequence[int] | None = None,
        oblivious: bool = False,
        selection: PathSelection | None = None,
        per_path: int = 1,
    ) -> None:
        """`plane_of[i]` is the plane of path i; `universe` lists the values that may be used (None: all).

        Path i has the values i, i + paths, i + 2 * paths ..., `per_path` in all. The other arguments are described with
        QpAttributes and TransportSettings. With `oblivious` nothing that happens on a path changes its state, so there
        are no backups either; a controller can still deny it. `selection` chooses among usable values for new packets.
        """
        self._plane_of = plane_of
        self._rng = rng
        self._paths = len(plane_of)
        self._per_path = per_path
        self._universe = None if universe is None else _by_path(universe, len(plane_of))
        paths_by_plane = self._paths_by_plane()
        present = [plane for plane, paths in enumerate(paths_by_plane) if paths]
        members = self._shuffled_values(paths_by_plane)
        spares = [0 if oblivious else self._spares(paths, backup_share) for paths in paths_by_plane]
        target = min([len(members[plane]) - spares[plane] for plane in present])
        if active_paths is not None:
            target = max(1, min(target, active_paths // len(present)))
        self._listener = listener
        self.each = [Path(GOOD if self._universe is None else OUTSIDE) for _ in plane_of]
        for index in self._universe or ():
            self.each[index].state = GOOD
        self._rings = PathRings(self.each, plane_of, members, target)
        self._backup_share = backup_share
        most = min([len(paths_by_plane[plane]) for plane in present])
        self._floor = min(max(1, -(-ev_min_active // len(present))), target, most)
        self._cursor = [0] * len(members)
        self._resort = [0] * len(members)  # paths of each plane that were taken in turn, not by the ring
        self._good = [len(paths) for paths in self._rings.paths]  # usable paths in each ring
        self.planes = sum([1 << plane for plane in present])
        self.good_planes = self.planes
        self._allowed = [len(paths) for paths in paths_by_plane]  # paths of each plane that are not denied
        self.open_planes = self.planes  # planes that have such a path
        self.restored_at: dict[int, int] = {}
        self._doubted: dict[int, int] = {}  # by bad path: what arrives late restores it if sent at this time or later
        self.trial: dict[int, int] = {}  # paths not yet known to work -> packets that they may still carry
        self.weights = PathWeights(len(members))
        self._skipped: set[int] = set()  # values
        self._oblivious = oblivious
        self._selection = selection

    def _paths_by_plane(self) -> list[list[int]]:
        """The paths of each plane that may be used."""
        found: list[list[int]] = [[] for _ in range(max(self._plane_of, default=0) + 1)]
        for index in range(self._paths) if self._universe is None else self._universe:
            found[self._plane_of[index]].append(index)
        return found

    def _shuffled_values(self, paths_by_plane: list[list[int]]) -> list[list[int]]:
        """The values of each plane in random order, but so that a path's second comes after the first of all."""
        universe, draw = self._universe, self._rng.getrandbits
        values: list[list[int]] = [[] for _ in paths_by_plane]
        for turn in range(self._per_path):
            before = turn * self._paths
            for plane, paths in enumerate(paths_by_plane):
                if universe is None:
                    layer = [before + index for index in paths]
                else:
                    layer = [universe[index][turn] for index in paths if turn < len(universe[index])]
                _shuffle(layer, draw)
                values[plane] += layer
        return values

    def _spares(self, paths: list[int], share: int) -> int:
        """How many values of a plane with these paths are backups: one in `share` of each path's.

        Of all where each path has only one. Where each has several but too few, none is: holding back some would use
        paths unequally.
        """
        if self._per_path == 1:
            return len(paths) // share
        if self._universe is None:
            return len(paths) * (self._per_path // share)
        return sum([len(self._universe[index]) // share for index in paths])

    def values(self, index: int) -> Sequence[int]:
        """The values of path `index` that may be used."""
        if self._universe is not None:
            return self._universe.get(index, ())
        return range(index, self._paths * self._per_path, self._paths)

    def _value(self, index: int) -> int:
        """A value of path `index` for the next packet, for which that was chosen: they take turns."""
        values = self.values(index)
        return values[self.each[index].sent % len(values)]

    def path(self, value: int) -> int:
        """The path of an entropy value."""
        return value % self._paths

    # ---- choosing ----

    def next(self, plane: int, avoid: int) -> int:
        """Value for the next packet on `plane`, not of path `avoid` if there is another; -1 when the plane has none."""
        ring = self._rings.active[plane]
        each = self.each
        paths = self._paths
        if self._selection is not None and avoid < 0:
            chosen = self._chosen(plane, ring)
            if chosen >= 0:
                return chosen
            if chosen == HOLD:
                return -1
        count = len(ring)
        at = self._cursor[plane]
        unskipped = False
        skipped_value = held = -1
        skipped = self._skipped
        any_skipped = len(skipped) > 0
        trial = self.trial
        weights = self.weights
        slow = weights.slow
        for _ in range(count):
            if at >= count:
                at = 0
                self._reshuffle(ring)
            value = ring[at]
            at += 1
            index = value % paths
            path = each[index]
            if path.state != GOOD:
                continue
            if any_skipped and value in skipped:
                if not unskipped:
                    self._end_skip(value)
                    unskipped = True
                skipped_value = value
            elif index != avoid:
                if (slow and weights.sits_out(index)) or (trial and self._on_trial(index, avoid)):
                    held = value
                    continue
                self._cursor[plane] = at
                path.sent += 1
                return value
        self._cursor[plane] = at
        if skipped_value >= 0:
            skipped_value = self._swap_in_backup(plane, skipped_value, avoid)
        else:
            skipped_value = held if held >= 0 else self._last_resort(plane, avoid)
        if skipped_value >= 0:
            each[skipped_value % paths].sent += 1
        return skipped_value

    def _chosen(self, plane: int, ring: list[int]) -> int:
        """What the path selection chooses, if that is usable; HOLD if it wants none; otherwise -1."""
        assert self._selection is not None
        chosen = self._selection.choose(plane, ring)
        if not 0 <= chosen < self._paths * self._per_path:
            return HOLD if chosen == HOLD else -1
        index = chosen % self._paths
        path = self.each[index]
        if path.state >= BAD or self._plane_of[index] != plane or chosen not in self.values(index):
            return -1
        path.sent += 1
        return chosen

    def _end_skip(self, value: int) -> None:
        self._skipped.discard(value)
        self._listener.path_skip_changed(value, SKIP, GOOD, PathReason.ROTATION)

    def take(self, index: int) -> int:
        """Use path `index` for the next packet, whoever's turn it is: one of its values, -1 if it is not in use."""
        path = self.each[index]
        if path.state >= BAD or not self._rings.held[index]:
            return -1
        value = self._value(index)
        path.sent += 1
        return value

    def _on_trial(self, index: int, avoid: int) -> bool:
        """Whether a path on trial must wait until a packet gets through; retransmissions never take such a path."""
        left = self.trial.get(index, -1)
        if left > 0 and avoid < 0:
            self.trial[index] = left - 1
            return False
        return left >= 0

    def _swap_in_backup(self, plane: int, value: int, avoid: int) -> int:
        """All values of the ring are in SKIP: put a GOOD backup of another path in the place of `value`.

        `value` if there is none.
        """
        rings, paths = self._rings, self._paths
        for place, backup in enumerate(rings.backups[plane]):
            index = backup % paths
            if rings.held[index] or self.each[index].state != GOOD or backup in self._skipped or index == avoid:
                continue
            rings.trade(plane, rings.active[plane].index(value), place)
            if value in self._skipped:  # otherwise the cursor has just ended its skip
                self._end_skip(value)
            return backup
        return value

    def _last_resort(self, plane: int, avoid: int) -> int:
        """A value of a plane without usable paths, except perhaps `avoid`: of that, or a bad one; -1 if all are denied.

        No bad path is known to work better than another, so those outside the ring take turns too.
        """
        each = self.each
        if avoid >= 0 and each[avoid].state < BAD and self._plane_of[avoid] == plane:
            return self._value(avoid)
        return self._in_turn(plane, avoid, [index for index in self._rings.members(plane) if each[index].state == BAD])

    def any_allowed(self, plane: int, avoid: int) -> int:
        """Value for a packet that is to rely on nothing known: all paths not denied take turns, as `next` otherwise.

        Not in the order of the ring, in which paths that do not work may alternate with others.
        """
        each = self.each
        value = self._in_turn(
            plane, avoid, [index for index in self._rings.members(plane) if each[index].state < DENIED]
        )
        if value >= 0:
            each[value % self._paths].sent += 1
        return value

    def _in_turn(self, plane: int, avoid: int, choice: list[int]) -> int:
        """A value of the next path of `choice`, not `avoid` if there is another; -1 if there is none."""
        if not choice:
            return -1
        turn = self._resort[plane]
        self._resort[plane] = turn + 1
        index = choice[turn % len(choice)]
        if index == avoid:
            self._resort[plane] = turn + 2
            index = choice[(turn + 1) % len(choice)]
        return self._value(index)

    def has_spare(self, plane: int) -> bool:
        """Whether a path of `plane` that is not in its ring is usable."""
        return self._rings.has_spare(plane)

    def _reshuffle(self, ring: list[int]) -> None:
        count = len(ring)
        if count > 2:
            rng = self._rng
            for _ in range(_RESHUFFLED):
                a, b = int(rng.random() * count), int(rng.random() * count)
                ring[a], ring[b] = ring[b], ring[a]

    # ---- transitions ----

    def skip(self, value: int, reason: PathReason = PathReason.ECN) -> None:
        """ECN mark or trim: skip the value for about a rotation."""
        path = self.each[value % self._paths]
        if reason is PathReason.TRIMMED:
            path.trimmed += 1
            if self._selection is not None:
                self._selection.on_trim(value)
        else:
            path.marked += 1
        if path.state == GOOD and not self._oblivious and value not in self._skipped:
            self._skipped.add(value)
            self._listener.path_skip_changed(value, GOOD, SKIP, reason)

    def stands_out(self, index: int, least: int, now: int) -> bool:
        """A marked packet's round trip is known: whether its path is slower than others, and is used less from now on.

        `least` is the shortest round trip of the path's plane in ns.
        """
        if self._oblivious:
            return False
        plane = self._plane_of[index]
        return self.weights.marked(index, plane, self._rings.paths[plane], self.each, least, now)

    def measured(self, index: int, rtt: int) -> None:
        """A SACK answered a packet of this path after `rtt` ns."""
        path = self.each[index]
        path.round_trip_before = path.round_trip
        path.round_trip = rtt

    def answered(self, value: int, rtt: int, marked: bool) -> None:
        """A SACK answered a packet of this value for the first time: let the selection know."""
        if self._selection is not None:
            self._selection.on_ack(value, rtt, marked)

    def count_lost(self, value: int, psn: int, sent: int, why: str) -> None:
        """A packet with this value was declared lost; this alone does not change its path's state."""
        index = value % self._paths
        self.each[index].lost += 1
        if self._selection is not None and why not in _TRIMS:
            self._selection.on_loss(value)
        self._listener.packet_lost(index, psn, sent, why)

    def retire(self, index: int, reason: PathReason, first_loss: int | None, now: int, alive: bool = False) -> bool:
        """Take a path out of use as bad; False when it was bad already, or is denied.

        A packet sent before the path was last restored says nothing about it now. A path that is `alive`, because other
        packets get through on it, stays in use when its plane is down to the floor.
        """
        old = self._state(index)
        if old >= BAD or self._oblivious or (alive and self._at_floor(index)):
            return False
        if first_loss is not None and self.restored_at and first_loss < self.restored_at.get(index, 0):
            return False
        self._doubted[index] = now if first_loss is None else first_loss
        self.trial.pop(index, None)
        self._leave(index, BAD)
        self._listener.path_changed(index, old, BAD, reason, first_loss, now)
        return True

    def _at_floor(self, index: int) -> bool:
        """Whether retiring this path would leave its plane with fewer usable active paths than the minimum."""
        plane = self._plane_of[index]
        if self._good[plane] > self._floor or not self._rings.held[index]:
            return False
        return not self.has_spare(plane)

    def exchange(self, value: int) -> int:
        """A spare path takes the place of that of a value just chosen; returns its value for the packet, or -1.

        Nothing is known to work, so the other may be no worse: it stays usable, as the last of the backups.
        """
        index = value % self._paths
        plane = self._plane_of[index]
        if not self._rings.held[index] or not self.has_spare(plane):
            return -1
        ring = self._rings.active[plane]
        at = next(place for place, other in enumerate(ring) if other % self._paths == index)
        self._rings.stand_back(index)
        self._count_good(plane)
        self.each[index].sent -= 1
        self.each[ring[at] % self._paths].sent += 1
        return ring[at]

    def disprove(self, index: int, sent: int, now: int) -> bool:
        """What was sent on a path at time `sent` has arrived although it was declared lost: a bad path is restored.

        False when it stays bad: the packet was sent before the loss that retired the path, and so says nothing about
        what happened since.
        """
        if self._selection is not None:
            self._selection.on_false_loss(index)
        if self.each[index].state != BAD:
            return True
        return sent >= self._doubted[index] and self.restore(index, PathReason.ARRIVED, now)

    def restore(self, index: int, reason: PathReason, now: int, lossy: bool = False) -> bool:
        """Make a bad path GOOD again, one that is `lossy` to rest first; False when it was not bad."""
        if self.each[index].state != BAD:
            return False
        self._return(index, now, lossy)
        self._listener.path_changed(index, BAD, GOOD, reason, None, now)
        return True

    def deny(self, index: int, denied: bool, now: int) -> bool:
        """Controller's command: never use the path, or use it again. False when nothing changed."""
        old = self._state(index) if index < len(self.each) else OUTSIDE
        if old == OUTSIDE or denied == (old == DENIED):
            return False
        plane = self._plane_of[index]
        self._allowed[plane] += -1 if denied else 1
        bit = 1 << plane
        self.open_planes = self.open_planes | bit if self._allowed[plane] else self.open_planes & ~bit
        if denied:
            if old != BAD:
                self._leave(index, DENIED)
            self.each[index].state = DENIED
            self._listener.path_changed(index, old, DENIED, PathReason.CONTROLLER, None, now)
        else:
            self._return(index, now)
            self._listener.path_changed(index, DENIED, GOOD, PathReason.CONTROLLER, None, now)
        return True

    def _leave(self, index: int, state: int) -> None:
        """A path became unusable: replace its values by backups of its own plane, or remove them from the ring."""
        self.each[index].state = state
        self._rings.resting.pop(index, None)
        self.weights.forget(index)
        values = self.values(index)
        if self._skipped:
            self._skipped.difference_update(values)
        if self._selection is not None:
            for value in values:
                self._selection.on_unusable(value)
        if self._rings.held[index]:
            for replacing in self._rings.leave(index, self._floor):
                self.trial[replacing] = _TRIAL
            self._count_good(self._plane_of[index])

    def _return(self, index: int, now: int, lossy: bool = False) -> None:
        """A path is usable again; if it may rest, the one that has rested longest may have to come back."""
        self.each[index].state = GOOD
        self.restored_at[index] = now
        if lossy and not self._rings.held[index]:
            back = self._rings.rest(index, self._allowed[self._plane_of[index]] // self._backup_share, self._floor)
        else:
            back = index
        if back >= 0:
            absent = not self._rings.held[back]
            self._rings.come_back(back)
            if absent and self._rings.held[back]:
                self.trial[back] = _TRIAL
        self._count_good(self._plane_of[index])

    def _count_good(self, plane: int) -> None:
        """The paths in a ring or their states changed."""
        each = self.each
        self._good[plane] = sum([each[index].state < BAD for index in self._rings.paths[plane]])
        if self._good[plane]:
            self.good_planes |= 1 << plane
        else:
            self.good_planes &= ~(1 << plane)

    # ---- looking ----

    def count(self, state: PathState) -> int:
        """How many paths are in `state`."""
        wanted = STATES.index(state)
        return sum(self._state(index) == wanted for index in range(self._paths))

    def universe(self) -> list[int]:
        """All paths that may ever be used."""
        return [index for index, path in enumerate(self.each) if path.state != OUTSIDE]

    def bad(self, index: int) -> bool:
        """Whether a path is out of use: bad or denied."""
        return self.each[index].state >= BAD

    def denied(self, index: int) -> bool:
        """Whether the controller denies a path."""
        return self.each[index].state == DENIED

    def state(self, index: int) -> PathState:
        """State of one path: SKIP if all of its values are."""
        return STATES[self._state(index)]

    def _state(self, index: int) -> int:
        state = self.each[index].state
        if state == GOOD and self._skipped and self.skipped(index) == len(self.values(index)):
            return SKIP
        return state

    def skipped(self, index: int) -> int:
        """How many of them are in SKIP."""
        return sum([value in self._skipped for value in self.values(index)]) if self._skipped else 0

    def active(self, plane: int) -> tuple[int, ...]:
        """Paths in the active ring of `plane`."""
        return tuple(self._rings.paths[plane])


def _by_path(universe: Sequence[int], paths: int) -> dict[int, list[int]]:
    """The values of a universe by path."""
    found: dict[int, list[int]] = {}
    for value in universe:
        found.setdefault(value % paths, []).append(value)
    return found


def _shuffle(items: list[_Item], draw: Callable[[int], int]) -> None:
    """As ``shuffle`` of the generator whose ``getrandbits`` is `draw`, which takes much longer than compiled code."""
    bits = len(items).bit_length()
    for last in range(len(items) - 1, 0, -1):
        if not last + 1 >> bits - 1:  # it has a bit less than before
            bits -= 1
        chosen = draw(bits)
        while chosen > last:
            chosen = draw(bits)
        items[last], items[chosen] = items[chosen], items[last]
