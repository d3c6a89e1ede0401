"""Bad paths to one peer: each is probed on behalf of all queue pairs that consider it bad, until it works again.

When a path is probed, and when it is restored, is its ``ProbeSchedule``; a path that fails again and again is probed
less often (``FlapDamping``). The probes travel in the data class, since that is what was lost.

The whole NIC sends at most one background probe per ``probe_spacing``. A path that is due reserves the next free time
slot and is probed then, so that all are probed in the order in which they became due, whatever peer they lead to and
however late the NIC is woken.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod

from mypy_extensions import trait

from mrc_host.config import PathTimers
from mrc_host.transport.ev_probes import EvProbes
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.probe_schedule import FlapDamping, ProbeSchedule
from mrc_host.verbs_types import PathReason


@trait
class PathUser(ABC):
    """A queue pair, as its paths see it."""

    __slots__ = ()

    @abstractmethod
    def path_probed_good(self, index: int, reason: PathReason, lossy: bool, now: int) -> None:
        """A path watched as bad works; `lossy` if it did all the time, by its probes."""


class _Watched:
    """A bad path."""

    __slots__ = ("due", "pending", "plane", "probing", "reserved", "since", "users")

    def __init__(self, plane: int, now: int, probing: ProbeSchedule) -> None:
        self.users: dict[PathUser, None] = {}
        self.plane = plane
        self.since = now
        self.probing = probing
        self.due = 0
        self.reserved = False  # `due` is the time slot reserved for its probe
        self.pending = -1  # request id in flight, -1 for none


class BadPaths:
    """Background probes to one peer."""

    __slots__ = ("_damping", "_due", "_kind", "_nic", "_of_user", "_probes", "_timers", "_watched", "of_plane")

    def __init__(self, nic: NicContext, timers: PathTimers, probes: EvProbes, ports: int, kind: int) -> None:
        self._nic = nic
        self._timers = timers
        self._kind = kind  # class of the probes
        self._damping = FlapDamping(nic.transport.flap_half_life)
        self._probes = probes
        self._watched: dict[int, _Watched] = {}
        self._of_user: dict[PathUser, dict[int, None]] = {}  # the paths that each watches
        self._due: list[tuple[int, int]] = []
        self.of_plane = [0] * ports  # number of bad paths

    def __contains__(self, index: object) -> bool:
        return index in self._watched

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, user: PathUser, index: int, plane: int, now: int) -> int:
        """`user` considers path `index` bad; returns when to call `run`."""
        watched = self._watched.get(index)
        if watched is None:
            successes = self._nic.transport.probe_successes
            probing = ProbeSchedule(self._timers, successes, self._damping.failed(index, now))
            watched = self._watched[index] = _Watched(plane, now, probing)
            self.of_plane[plane] += 1
            self._schedule(index, watched, now + probing.interval)
        watched.users[user] = None
        self._of_user.setdefault(user, {})[index] = None
        return watched.due

    def unwatch(self, user: PathUser, index: int) -> None:
        """`user` no longer watches path `index`."""
        watched = self._watched.get(index)
        if watched is not None and user in watched.users:
            del watched.users[user]
            self._forget(user, index)
            if not watched.users:
                self._damping.undo(index)
                self._drop(index)

    def leave(self, user: PathUser) -> None:
        """`user` was disconnected."""
        for index in list(self._of_user.get(user, ())):
            self.unwatch(user, index)

    def _forget(self, user: PathUser, index: int) -> None:
        paths = self._of_user[user]
        del paths[index]
        if not paths:
            del self._of_user[user]

    def _drop(self, index: int) -> _Watched:
        watched = self._watched.pop(index)
        self.of_plane[watched.plane] -= 1
        self._probes.cancel(watched.pending)
        return watched

    def _works(self, index: int, reason: PathReason, lossy: bool, now: int) -> None:
        users = self._drop(index).users
        for user in users:
            self._forget(user, index)
        for user in users:
            user.path_probed_good(index, reason, lossy, now)

    def plane_up(self, plane: int, cleared_since: int, now: int) -> None:
        """A plane is usable again: restore the paths that went bad at `cleared_since` or later, probe the others."""
        for index, watched in list(self._watched.items()):
            if watched.plane != plane:
                continue
            if watched.since >= cleared_since:
                self._damping.undo(index)
                self._works(index, PathReason.PORT_UP, False, now)
            else:
                watched.probing.start_again()
                self._schedule(index, watched, now)

    # ---- probing --------------------------------------------------------------------------------------------------

    def _schedule(self, index: int, watched: _Watched, when: int, reserved: bool = False) -> None:
        watched.due = when
        watched.reserved = reserved
        heapq.heappush(self._due, (when, index))

    def next_time(self) -> int:
        """When to call `run`, 0 for never."""
        return self._due[0][0] if self._due else 0

    def run(self, usable: int, now: int) -> bool:
        """Send the probes that are due on planes in mask `usable`; returns whether there were any."""
        due = self._due
        sent = False
        while due and due[0][0] <= now:
            when, index = heapq.heappop(due)
            watched = self._watched.get(index)
            if watched is None or watched.due != when:
                continue
            if not usable >> watched.plane & 1:
                watched.due = 0  # probed again when the plane comes up
                continue
            if not watched.reserved:
                slot = self._nic.probe_slot(now)
                if slot > now:
                    self._schedule(index, watched, slot, True)
                    continue
            self._probe(index, watched, now)
            sent = True
        return sent

    def _probe(self, index: int, watched: _Watched, now: int) -> None:
        if watched.pending >= 0:
            self._probes.cancel(watched.pending)
            watched.probing.lost()
        watched.pending = self._probes.send(index, watched.plane, self._kind)
        self._schedule(index, watched, watched.probing.probed(now))

    def answered(self, index: int, request_id: int, now: int) -> int:
        """A probe on path `index` was answered; returns when to call `run`, 0 if nothing is due for this path."""
        watched = self._watched.get(index)
        if watched is None or watched.pending != request_id:
            return 0
        watched.pending = -1
        due = watched.probing.answered(now)
        if not due:
            self._works(index, PathReason.PROBE, not watched.probing.died, now)
            return 0
        self._schedule(index, watched, due)
        return watched.due
