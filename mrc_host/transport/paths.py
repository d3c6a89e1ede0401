"""The paths of one queue pair: which entropy values may carry the next packet (docs/protocol.md §3).

Each path is an index into the destination's EVs and has a state. Each plane has a ring of *active* paths, walked by a
cursor, and a list of *backups*; all planes start with the same number of active paths, chosen at random. The rules:

* ECN or a trim: GOOD -> SKIP. When the cursor reaches a SKIP path, it makes it GOOD and moves on, at most once per
  packet, so a path is skipped for about one rotation. When all paths of a ring are in SKIP and a backup is GOOD, the
  backup replaces one of them (as in published Fig 14), which becomes a backup.
* Loss or ALWAYS_SKIP: -> ASSUMED_BAD at once. A backup of the *same plane* replaces the path, so planes stay equal.
  Without a backup the ring shrinks, down to the plane's floor (its share of `ev_min_active`, at least one). At the
  floor, paths stay in use as long as anything gets through on them. A dead path becomes bad even there, though it keeps
  its place in the ring. A plane with only bad paths is not in ``good_planes``; it carries data only when every plane is
  like that, and then its bad paths take turns. After timeouts without progress its requester may rely on none of this
  (``any_allowed``).
* A path that replaces another, or has just returned, is on *trial* while there are others: it carries two packets until
  one of them is known to have arrived. The backup of a dead path may well be dead too.
* A path whose marked packets take much longer than those of other paths carries fewer packets (``path_weights``).
* Successful probes, or the controller: -> GOOD. The path replaces a bad one in the ring, fills a gap, or becomes a
  backup.
* Controller: any -> DENIED, DENIED -> GOOD. A denied path is never used.

After each rotation the ring is reshuffled a little, so that queue pairs do not use paths in the same order.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from mypy_extensions import trait

from mrc_host.transport.path import Path
from mrc_host.transport.path_selection import PathSelection
from mrc_host.transport.path_weights import PathWeights
from mrc_host.values import PathReason, PathState

GOOD: Final = 0
SKIP: Final = 1
BAD: Final = 2
DENIED: Final = 3
_OUTSIDE: Final = 4  # a path of the peer that is not in this queue pair's universe

STATES: Final = (PathState.GOOD, PathState.SKIP, PathState.ASSUMED_BAD, PathState.DENIED)
_RESHUFFLED: Final = 2  # exchanges per rotation
_TRIAL: Final = 2  # packets


@trait
class PathListener(ABC):
    """Is notified when a path becomes usable or unusable (SKIP does not count)."""

    __slots__ = ()

    @abstractmethod
    def path_changed(
        self, index: int, old: int, new: int, reason: PathReason, first_loss: int | None, now: int
    ) -> None:
        """Path `index` went from state `old` to `new`."""

    def path_skip_changed(self, index: int, old: int, new: int, reason: PathReason) -> None:  # noqa: B027 - optional
        """Path `index` went from GOOD to SKIP or back; does nothing by default, since this is frequent."""

    def packet_lost(self, index: int, psn: int, sent: int, why: str) -> None:  # noqa: B027 - optional
        """Packet `psn`, sent on path `index` at time `sent`, was declared lost; does nothing by default."""


class PathSet:
    """States, active rings and backups of all paths. Sets of planes are bit masks; lists are indexed by plane."""

    __slots__ = (
        "_active",
        "_allowed",
        "_backups",
        "_cursor",
        "_doubted",
        "_floor",
        "_good",
        "_listener",
        "_oblivious",
        "_plane_of",
        "_resort",
        "_rng",
        "_selection",
        "_target",
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
    ) -> None:
        """`plane_of[i]` is the plane of path i; `universe` lists the paths that may be used (None: all).

        The other arguments are described with QpAttributes and TransportSettings. With `oblivious` nothing that happens
        on a path changes its state, so there are no backups either; a controller can still deny it. `selection`
        chooses among usable paths for new packets.
        """
        count = max(plane_of, default=0) + 1
        members: list[list[int]] = [[] for _ in range(count)]
        for index in range(len(plane_of)) if universe is None else universe:
            members[plane_of[index]].append(index)
        present = [m for m in members if m]
        target = min(len(m) - (0 if oblivious else len(m) // backup_share) for m in present)
        if active_paths is not None:
            target = max(1, min(target, active_paths // len(present)))
        for m in members:
            _shuffle(m, rng)
        self._plane_of = plane_of
        self._rng = rng
        self._listener = listener
        self._target = target
        self._floor = min(max(1, -(-ev_min_active // len(present))), target)
        self.each = [Path(GOOD if universe is None else _OUTSIDE) for _ in plane_of]
        for index in universe or ():
            self.each[index].state = GOOD
        self._active = [m[:target] for m in members]
        self._backups = [m[target:] for m in members]
        self._cursor = [0] * count
        self._resort = [0] * count  # paths of each plane that were taken in turn, not by the ring
        self._good = [len(a) for a in self._active]  # usable paths in each ring
        self.planes = sum(1 << p for p, m in enumerate(members) if m)
        self.good_planes = self.planes
        self._allowed = [len(m) for m in members]  # paths of each plane that are not denied
        self.open_planes = self.planes  # planes that have such a path
        self.restored_at: dict[int, int] = {}
        self._doubted: dict[int, int] = {}  # by bad path: what arrives late restores it if sent at this time or later
        self.trial: dict[int, int] = {}  # paths not yet known to work -> packets that they may still carry
        self.weights = PathWeights(count)
        self._oblivious = oblivious
        self._selection = selection

    # ---- choosing ----

    def next(self, plane: int, avoid: int) -> int:
        """Path for the next packet on `plane`, not `avoid` if there is another; -1 when the plane has none."""
        ring = self._active[plane]
        each = self.each
        if self._selection is not None and avoid < 0:
            chosen = self._selection.choose(plane, ring)
            if 0 <= chosen < len(each) and each[chosen].state < BAD and self._plane_of[chosen] == plane:
                each[chosen].sent += 1
                return chosen
        count = len(ring)
        at = self._cursor[plane]
        unskipped = False
        skipped_path = held = -1
        trial = self.trial
        weights = self.weights
        slow = weights.slow
        for _ in range(count):
            if at >= count:
                at = 0
                self._reshuffle(ring)
            index = ring[at]
            at += 1
            path = each[index]
            if path.state == GOOD:
                if index != avoid:
                    if (slow and weights.sits_out(index)) or (trial and self._on_trial(index, avoid)):
                        held = index
                        continue
                    self._cursor[plane] = at
                    path.sent += 1
                    return index
            elif path.state == SKIP:
                if not unskipped:
                    path.state = GOOD
                    unskipped = True
                    self._listener.path_skip_changed(index, SKIP, GOOD, PathReason.ROTATION)
                skipped_path = index
        self._cursor[plane] = at
        if skipped_path >= 0:
            skipped_path = self._swap_in_backup(plane, skipped_path, avoid)
        else:
            skipped_path = held if held >= 0 else self._last_resort(plane, avoid)
        if skipped_path >= 0:
            each[skipped_path].sent += 1
        return skipped_path

    def take(self, index: int) -> bool:
        """Use path `index` for the next packet, whoever's turn it is; False if it is not in use."""
        usable = self.each[index].state < BAD and index in self._active[self._plane_of[index]]
        if usable:
            self.each[index].sent += 1
        return usable

    def _on_trial(self, index: int, avoid: int) -> bool:
        """Whether a path on trial must wait until a packet gets through; retransmissions never take such a path."""
        left = self.trial.get(index, -1)
        if left > 0 and avoid < 0:
            self.trial[index] = left - 1
            return False
        return left >= 0

    def _swap_in_backup(self, plane: int, index: int, avoid: int) -> int:
        """All paths of the ring are in SKIP: put a GOOD backup in the place of `index`; `index` if there is none."""
        each, backups = self.each, self._backups[plane]
        for place, backup in enumerate(backups):
            if each[backup].state == GOOD and backup != avoid:
                ring = self._active[plane]
                ring[ring.index(index)] = backup
                backups[place] = index
                if each[index].state == SKIP:  # otherwise the cursor has just ended its skip
                    each[index].state = GOOD
                    self._listener.path_skip_changed(index, SKIP, GOOD, PathReason.ROTATION)
                return backup
        return index

    def _last_resort(self, plane: int, avoid: int) -> int:
        """A path of a plane without usable ones, except perhaps `avoid`: that, or a bad one; -1 if all are denied.

        No bad path is known to work better than another, so those outside the ring take turns too.
        """
        each = self.each
        if avoid >= 0 and each[avoid].state < BAD and self._plane_of[avoid] == plane:
            return avoid
        return self._in_turn(plane, avoid, [index for index in self._members(plane) if each[index].state == BAD])

    def any_allowed(self, plane: int, avoid: int) -> int:
        """Path for a packet that is to rely on nothing known: all that are not denied take turns, as `next` otherwise.

        Not in the order of the ring, in which paths that do not work may alternate with others.
        """
        each = self.each
        index = self._in_turn(plane, avoid, [index for index in self._members(plane) if each[index].state < DENIED])
        if index >= 0:
            each[index].sent += 1
        return index

    def _members(self, plane: int) -> tuple[int, ...]:
        return (*self._active[plane], *self._backups[plane])

    def _in_turn(self, plane: int, avoid: int, choice: list[int]) -> int:
        """The next of `choice`, not `avoid` if there is another; -1 if there is none."""
        if not choice:
            return -1
        turn = self._resort[plane]
        self._resort[plane] = turn + 1
        index = choice[turn % len(choice)]
        if index == avoid:
            self._resort[plane] = turn + 2
            index = choice[(turn + 1) % len(choice)]
        return index

    def has_spare(self, plane: int) -> bool:
        """Whether a backup of `plane` is usable."""
        return any(self.each[index].state < BAD for index in self._backups[plane])

    def _reshuffle(self, ring: list[int]) -> None:
        count = len(ring)
        if count > 2:
            rng = self._rng
            for _ in range(_RESHUFFLED):
                a, b = int(rng.random() * count), int(rng.random() * count)
                ring[a], ring[b] = ring[b], ring[a]

    # ---- transitions ----

    def skip(self, index: int, reason: PathReason = PathReason.ECN) -> None:
        """ECN mark or trim: skip the path for about a rotation."""
        path = self.each[index]
        if reason is PathReason.TRIMMED:
            path.trimmed += 1
            if self._selection is not None:
                self._selection.on_trim(index)
        else:
            path.marked += 1
        if path.state == GOOD and not self._oblivious:
            path.state = SKIP
            self._listener.path_skip_changed(index, GOOD, SKIP, reason)

    def stands_out(self, index: int, least: int, now: int) -> bool:
        """A marked packet's round trip is known: whether its path is slower than others, and is used less from now on.

        `least` is the shortest round trip of the path's plane in ns.
        """
        if self._oblivious:
            return False
        plane = self._plane_of[index]
        return self.weights.marked(index, plane, self._active[plane], self.each, least, now)

    def measured(self, index: int, rtt: int) -> None:
        """A SACK answered a packet of this path after `rtt` ns."""
        path = self.each[index]
        path.round_trip_before = path.round_trip
        path.round_trip = rtt

    def answered(self, index: int, rtt: int, marked: bool) -> None:
        """A SACK answered a packet of this path for the first time: let the selection know."""
        if self._selection is not None:
            self._selection.on_ack(index, rtt, marked)

    def count_lost(self, index: int, psn: int, sent: int, why: str) -> None:
        """A packet on path `index` was declared lost; this alone does not change the path's state."""
        self.each[index].lost += 1
        if self._selection is not None:
            self._selection.on_loss(index)
        self._listener.packet_lost(index, psn, sent, why)

    def retire(self, index: int, reason: PathReason, first_loss: int | None, now: int, alive: bool = False) -> bool:
        """Take a path out of use as bad; False when it was bad already, or is denied.

        A packet sent before the path was last restored says nothing about it now. A path that is `alive`, because other
        packets get through on it, stays in use when its plane is down to the floor.
        """
        old = self.each[index].state
        if old >= BAD or self._oblivious or (alive and self._at_floor(index)):
            return False
        if first_loss is not None and self.restored_at and first_loss < self.restored_at.get(index, 0):
            return False
        self.each[index].state = BAD
        self._doubted[index] = now if first_loss is None else first_loss
        self.trial.pop(index, None)
        self._leave(index)
        self._listener.path_changed(index, old, BAD, reason, first_loss, now)
        return True

    def _at_floor(self, index: int) -> bool:
        """Whether retiring this path would leave its plane with fewer usable active paths than the minimum."""
        plane = self._plane_of[index]
        if self._good[plane] > self._floor or index not in self._active[plane]:
            return False
        return not self.has_spare(plane)

    def exchange(self, index: int, reason: PathReason, first_loss: int | None, now: int) -> int:
        """Retire an active path just chosen; returns the backup that replaces it, for the same packet, or -1."""
        plane = self._plane_of[index]
        ring = self._active[plane]
        if index not in ring or not self.has_spare(plane):
            return -1
        at = ring.index(index)
        if not self.retire(index, reason, first_loss, now):
            return -1
        self.each[index].sent -= 1
        self.each[ring[at]].sent += 1
        return ring[at]

    def disprove(self, index: int, sent: int, now: int) -> bool:
        """What was sent on a path at time `sent` has arrived although it was declared lost: a bad path is restored.

        False when it stays bad: the packet was sent before the loss that retired the path, and so says nothing about
        what happened since.
        """
        if self.each[index].state != BAD:
            return True
        return sent >= self._doubted[index] and self.restore(index, PathReason.ARRIVED, now)

    def restore(self, index: int, reason: PathReason, now: int) -> bool:
        """Make a bad path GOOD again; False when it was not bad."""
        if self.each[index].state != BAD:
            return False
        self._return(index, now)
        self._listener.path_changed(index, BAD, GOOD, reason, None, now)
        return True

    def deny(self, index: int, denied: bool, now: int) -> bool:
        """Controller's command: never use the path, or use it again. False when nothing changed."""
        old = self.each[index].state if index < len(self.each) else _OUTSIDE
        if old == _OUTSIDE or denied == (old == DENIED):
            return False
        plane = self._plane_of[index]
        self._allowed[plane] += -1 if denied else 1
        bit = 1 << plane
        self.open_planes = self.open_planes | bit if self._allowed[plane] else self.open_planes & ~bit
        if denied:
            self.each[index].state = DENIED
            if old != BAD:
                self._leave(index)
            self._listener.path_changed(index, old, DENIED, PathReason.CONTROLLER, None, now)
        else:
            self._return(index, now)
            self._listener.path_changed(index, DENIED, GOOD, PathReason.CONTROLLER, None, now)
        return True

    def _leave(self, index: int) -> None:
        """A path became unusable: replace it by a backup of its own plane, or remove it from the ring."""
        self.weights.forget(index)
        if self._selection is not None:
            self._selection.on_unusable(index)
        plane = self._plane_of[index]
        ring, backups, each = self._active[plane], self._backups[plane], self.each
        if index not in ring:
            return
        at = ring.index(index)
        for choice, backup in enumerate(backups):
            if each[backup].state < BAD:
                ring[at] = backup
                backups[choice] = index
                self.trial[backup] = _TRIAL
                return
        self._good[plane] -= 1
        if len(ring) > self._floor:
            del ring[at]
            backups.append(index)
        if self._good[plane] == 0:
            self.good_planes &= ~(1 << plane)

    def _return(self, index: int, now: int) -> None:
        """A path is usable again: it replaces a bad one in the ring, fills a gap, or stays a backup."""
        plane = self._plane_of[index]
        ring, backups, each = self._active[plane], self._backups[plane], self.each
        each[index].state = GOOD
        self.restored_at[index] = now
        if index not in ring:
            kept = next((at for at, other in enumerate(ring) if each[other].state >= BAD), -1)
            if kept >= 0:
                backups[backups.index(index)] = ring[kept]
                ring[kept] = index
            elif len(ring) < self._target:
                backups.remove(index)
                ring.append(index)
            else:
                return
            self.trial[index] = _TRIAL
        self._good[plane] += 1
        self.good_planes |= 1 << plane

    # ---- looking ----

    def count(self, state: PathState) -> int:
        """How many paths are in `state`."""
        return sum(path.state == STATES.index(state) for path in self.each)

    def universe(self) -> list[int]:
        """All paths that may ever be used."""
        return [index for index, path in enumerate(self.each) if path.state != _OUTSIDE]

    def bad(self, index: int) -> bool:
        """Whether a path is out of use: bad or denied."""
        return self.each[index].state >= BAD

    def denied(self, index: int) -> bool:
        """Whether the controller denies a path."""
        return self.each[index].state == DENIED

    def state(self, index: int) -> PathState:
        """State of one path."""
        return STATES[self.each[index].state]

    def active(self, plane: int) -> tuple[int, ...]:
        """Paths in the active ring of `plane`."""
        return tuple(self._active[plane])


def _shuffle(items: list[int], rng: random.Random) -> None:
    """The same as ``rng.shuffle``, which takes six times as long as when compiled here: each queue pair needs it."""
    for last in range(len(items) - 1, 0, -1):
        bits = (last + 1).bit_length()
        chosen = rng.getrandbits(bits)
        while chosen > last:
            chosen = rng.getrandbits(bits)
        items[last], items[chosen] = items[chosen], items[last]
