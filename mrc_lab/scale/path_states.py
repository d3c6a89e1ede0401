"""Which uplinks and ports queue pairs use, and when they learn otherwise.

A path of two racks is an uplink of either, so what all queue pairs of a rack know of their paths is a state of the
directions of its uplinks, the same for all: they send on every path all the time, and lose packets alike. A direction
that loses everything is found out by those that use it (`detection`), is *out* then, and all paths over it are
ASSUMED_BAD for the streams that have met it; probes go on (`mrc_host/transport/probe_schedule.py`) until enough in a
row are answered. If none was lost, the paths *rest*: they stay outside the rings until one is needed, or more rest than
may (`mrc_host/transport/path_rings.py`). A port of a NIC that loses its carrier is out at once, for its peers too.

Streams that are not active learn nothing; they meet what has died meanwhile once they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mrc_host.config import TransportSettings
from mrc_host.transport.probe_schedule import FlapDamping, ProbeSchedule
from mrc_lab.scale.detection import Detection, first_use
from mrc_lab.scale.link_states import LinkStates
from mrc_lab.scale.lossy_paths import LossyPaths
from mrc_lab.scale.network import DOWN, UP, Booleans, Floats, Integers, Network
from mrc_lab.scale.rates import UsableLinks
from mrc_lab.scale.streams import Streams
from simulation.seeds import derive, generator

MAX_CHANGES: Final = 200_000  # that are kept; the counters go on

Uplink = tuple[int, int, int, int]
"""Direction, plane, rack and T1."""
At = Callable[[int, Callable[[int], None]], None]
"""Has a function called with the time, at a time."""


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path of a stream went out of use at `time`, or came back. `first_loss` is None of one that came back."""

    time: int
    stream: int
    plane: int
    t1: int
    first_loss: int | None


class PathStates:
    """What streams use of one network. `changed` is called when their rates are others from now on."""

    def __init__(
        self,
        network: Network,
        streams: Streams,
        settings: TransportSettings,
        states: LinkStates,
        at: At,
        changed: Callable[[], None],
        seed: int,
    ) -> None:
        self._network, self._streams, self._settings = network, streams, settings
        self._states, self._at, self._changed = states, at, changed
        self._detection = Detection.of(settings)
        self._damping = FlapDamping(settings.flap_half_life)
        shape = states.uplink_loss.shape
        self._out = np.zeros(shape, dtype=bool)
        self._resting: dict[tuple[int, int, int], list[int]] = {}  # by direction, plane and rack: T1s
        self._outside = np.zeros(shape, dtype=bool)  # resting
        self._died = np.zeros(shape, dtype=np.int64)  # serial of its last death
        self._deaths = 0
        self._met = np.zeros(len(streams), dtype=np.int64)  # deaths that a stream knows of while it is not active
        self._near, self._far = network.rack[streams.source], network.rack[streams.destination]
        self._between = (self._near != self._far) & (streams.plane < 0)
        self._ends = tuple(_by_rack(at, self._between, network.racks) for at in (self._near, self._far))
        self._chance = np.random.default_rng(derive(seed, "losses"))
        self._resting_most = network.t1s // settings.backup_share
        self.lossy = LossyPaths(
            self, settings, self._resting_most, at, lambda place: generator(seed, "lossy path", *place)
        )
        self.changes: list[PathChange] = []
        self._unanswered: dict[Uplink, tuple[ProbeSchedule, int]] = {}  # and when the last probe was sent
        self.refresh()

    def refresh(self) -> None:
        """Use from now on what is known by now: many links may have gone out of use at one time."""
        present = self._network.uplink > 0
        self.usable = UsableLinks(self._states.carrier, present & ~self._out & ~self._outside)
        self._planes = self.usable.planes_of(self._streams, self._network)
        self._planes_of_each = np.maximum(self._planes.sum(axis=1), 1)

    # ---- links ------------------------------------------------------------------------------------------------------

    def links_changed(self, states: LinkStates, now: int) -> None:
        """Faults have changed what links do."""
        before, self._states = self._states, states
        lost = before.carrier & ~states.carrier
        if lost.any():
            self._ports_lost(lost)
        if (before.carrier != states.carrier).any():
            self._changed()
        if (before.uplink_loss != states.uplink_loss).any():
            self._set_lossy(now)
        dead = (states.uplink_loss >= 1) & (before.uplink_loss < 1) & (self._network.uplink > 0)
        self._die([_uplink(place) for place in np.argwhere(dead)], now)
        for link in [link for link in self._unanswered if states.uplink_loss[link] < 1]:
            schedule, sent = self._unanswered.pop(link)
            self._await(link, schedule, schedule.next_after(sent, now))

    def _ports_lost(self, lost: Booleans) -> None:
        """Ports have lost their carrier: what is under way there is sent again on other planes."""
        streams, planes = self._streams, self._planes
        sending = (streams.active & (streams.plane < 0))[:, None]
        touched = (lost[streams.source] | lost[streams.destination]) & planes & sending
        under_way = streams.packets() / self._planes_of_each * touched.sum(axis=1) * self._settings.base_rtt / 1e9
        streams.lose(streams.active, under_way[streams.active])

    def _set_lossy(self, now: int) -> None:
        """Some uplinks lose a part of what they carry: so do all paths over them."""
        loss = self._states.uplink_loss
        lossy = (loss > 0) & (loss < 1)
        places, losses = [], []
        for plane, t1 in np.argwhere(lossy.any(axis=(0, 2))).tolist():
            survival = (1 - loss[UP, plane, self._near, t1]) * (1 - loss[DOWN, plane, self._far, t1])
            for stream in np.flatnonzero(self._between & (survival < 1) & (survival > 0)).tolist():
                places.append((stream, plane, t1))
                losses.append(float(1 - survival[stream]))
        self.lossy.set(np.array(places, dtype=np.int64).reshape(-1, 3), losses, now)
        self._changed()

    def _die(self, links: Sequence[Uplink], now: int) -> None:
        """Directions of uplinks lose everything from now on."""
        died = [link for link in links if not self._out[link]]  # probes of the others go unanswered again
        for link in died:
            self._deaths += 1
            self._died[link] = self._deaths
        self._notice(died, now)

    def _notice(self, links: Sequence[Uplink], now: int) -> None:
        """Those that use links find out, all after the same time: the mean, of those that died together."""
        known = []
        used = [(link, users) for link in links if len(users := self._users(link))]
        for link, users in used:
            sending = self._on_path(link[1], users)
            known.append(float((first_use(sending[0]) + self._detection.time(*sending)).mean()))
        for link, _ in used:
            self._go_out_at(now + int(np.mean(known)), link, now)

    def _go_out_at(self, when: int, link: Uplink, since: int) -> None:
        self._at(when, lambda now: self._goes_out(link, since, now))

    def _goes_out(self, link: Uplink, since: int, now: int) -> None:
        if self._out[link]:
            return
        users = self._users(link)
        self._count_lost(link[1], users)
        self._note(link, users, now, since)
        for stream in users.tolist() if self.lossy.paths else ():
            self.lossy.wake(stream, link[1], now)
        self._out[link] = True
        resting = self._resting.get(link[:3])
        if resting:
            if link[3] in resting:
                resting.remove(link[3])
                self._outside[link] = False
            else:  # it replaces the one that fails
                self._outside[(*link[:3], resting.pop(0))] = False
        key = int(np.ravel_multi_index(link, self._out.shape))
        needed, doublings = self._settings.probe_successes, self._damping.failed(key, now)
        schedule = ProbeSchedule(self._settings.path_timers, needed, doublings)
        self._at(now + schedule.interval, lambda time: self._probe(link, schedule, time))
        self._changed()

    def _count_lost(self, plane: int, users: Integers) -> None:
        if len(users):
            lost = self._streams.qps[users] * self._detection.packets(*self._on_path(plane, users))
            self._streams.lose(users, np.floor(lost + self._chance.random(len(users))))

    def _probe(self, link: Uplink, schedule: ProbeSchedule, now: int) -> None:
        """A probe of the paths over a link is due."""
        if self._states.uplink_loss[link] >= 1:  # nobody need count the probes until it works again
            self._unanswered[link] = schedule, now
        else:
            schedule.probed(now)
            self._at(now + self._settings.base_rtt, lambda time: self._probe_answered(link, schedule, time))

    def _await(self, link: Uplink, schedule: ProbeSchedule, due: int) -> None:
        """The last probe was lost, which is known at `due`."""

        def again(now: int) -> None:
            schedule.lost()
            self._probe(link, schedule, now)

        self._at(due, again)

    def _probe_answered(self, link: Uplink, schedule: ProbeSchedule, now: int) -> None:
        due = schedule.answered(now)
        if due:
            self._at(due, lambda time: self._probe(link, schedule, time))
            return
        self._note(link, self._met_by(link), now, None)
        self._out[link] = False
        if not schedule.died:
            self._rest(link)
        self._changed()
        if self._states.uplink_loss[link] >= 1:  # it has died again since the last probe
            self._die([link], now)

    def _rest(self, link: Uplink) -> None:
        """A path over a link that never died by its probes rests, if some may."""
        way, plane, rack, _ = link
        if not self._resting_most:
            return
        resting = self._resting.setdefault(link[:3], [])
        resting.append(link[3])
        self._outside[link] = True
        if len(resting) > self._resting_most:
            self._outside[(way, plane, rack, resting.pop(0))] = False

    # ---- streams ----------------------------------------------------------------------------------------------------

    def began(self, which: Integers, now: int) -> None:
        """Streams have become active, and their rates are known: they meet what has died without them.

        So do streams that have got a plane back, which need not be named.
        """
        unknown = []
        for place in np.argwhere((self._states.uplink_loss >= 1) & (self._network.uplink > 0)):
            link = _uplink(place)
            users = self._users(link)
            if self._out[link]:
                fresh = users[np.isin(users, which) & (self._met[users] < self._died[link])]
                self._count_lost(link[1], fresh)
                self._note(link, fresh, now, now)
            else:
                unknown.append(link)
        self._notice(unknown, now)

    def ended(self, which: Integers) -> None:
        """Streams are not active any more: they know of all that has died so far."""
        self._met[which] = self._deaths

    def bad_paths(self) -> Floats:
        """Paths out of use, of each stream."""
        found = np.zeros(len(self._streams))
        over: dict[tuple[int, int], tuple[list[Uplink], list[Uplink]]] = {}  # by plane and T1
        for link in map(_uplink, np.argwhere(self._out)):
            found[self._met_by(link)] += 1
            over.setdefault((link[1], link[3]), ([], []))[link[0]].append(link)
        for ups, downs in over.values():  # a path of which both uplinks are out counts once
            for up in ups:
                for down in downs:
                    found[np.intersect1d(self._met_by(up), self._met_by(down))] -= 1
        for stream, paths in self.lossy.bad().items():
            found[stream] += paths
        return found

    # ---- what lossy paths ask ---------------------------------------------------------------------------------------

    def path_rate(self, stream: int, plane: int) -> tuple[float, float]:
        """Packets a second on each path of a stream in a plane, and how long (ns) a loss there goes unnoticed."""
        if not self._streams.active[stream] or not self._streams.rate[stream]:
            return 0.0, 0.0
        sending = self._on_path(plane, np.array([stream]))
        (per_path,), (lasts,) = sending[0], self._detection.time(*sending)
        return float(per_path * self._streams.qps[stream]), float(lasts)

    def is_last(self, stream: int, plane: int) -> bool:
        """Whether a plane has no other path for a stream."""
        return bool(self.usable.joined[plane, self._near[stream], self._far[stream]] < 2)

    def lose(self, stream: int, packets: float) -> None:
        """Packets were lost."""
        self._streams.lose(np.array([stream]), packets)

    def note(self, stream: int, plane: int, t1: int, now: int, first_loss: int | None) -> None:
        """A path went out of use, or came back."""
        self._note((UP, plane, 0, t1), np.array([stream]), now, first_loss)

    # ---- who uses what ----------------------------------------------------------------------------------------------

    def _end(self, link: Uplink) -> Integers:
        """Streams that have the rack of a link at the end of its direction."""
        return self._ends[link[0]][link[2]]

    def _users(self, link: Uplink) -> Integers:
        """Active streams that send over a link."""
        way, plane, _, t1 = link
        other, rack = (DOWN, self._far) if way == UP else (UP, self._near)
        at = self._end(link)
        taken = self._streams.active[at] & ~self._out[other, plane, rack[at], t1]
        found: Integers = at[taken & self._planes[at, plane]]
        return found

    def _met_by(self, link: Uplink) -> Integers:
        """Streams for which the paths over a link are bad."""
        at = self._end(link)
        found: Integers = at[self._streams.active[at] | (self._met[at] >= self._died[link])]
        return found

    def _on_path(self, plane: int, users: Integers) -> tuple[Floats, Floats, Floats]:
        """Packets a second of a queue pair on each path of a plane and in all, and the bytes of payload of each.

        Each queue pair of a stream finds out by its own packets.
        """
        streams = self._streams
        packets = streams.packets(users) / streams.qps[users]
        planes = self._planes_of_each[users]
        paths = np.maximum(self.usable.joined[plane, self._near[users], self._far[users]], 1)
        return packets / planes / paths, packets, streams.packet[users]

    def _note(self, link: Uplink, users: Integers, now: int, first_loss: int | None) -> None:
        """The paths over a link went out of use, or came back."""
        _, plane, _, t1 = link
        room = max(0, MAX_CHANGES - len(self.changes))
        self.changes += [PathChange(now, stream, plane, t1, first_loss) for stream in users[:room].tolist()]


def _by_rack(rack: Integers, wanted: Booleans, racks: int) -> list[Integers]:
    """Numbers of the streams that are wanted, by rack."""
    chosen = np.flatnonzero(wanted)
    order = np.argsort(rack[chosen], kind="stable")
    return np.split(chosen[order], np.cumsum(np.bincount(rack[chosen], minlength=racks))[:-1])


def _uplink(place: Integers) -> Uplink:
    way, plane, rack, t1 = place.tolist()
    return way, plane, rack, t1
