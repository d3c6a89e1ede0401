"""Which uplinks and ports queue pairs use, and when they learn otherwise.

A path is the uplinks that it crosses, so what all queue pairs of a rack know of their paths is a state of the
directions of uplinks, the same for all: they send on every path all the time, and lose packets alike. A direction that
loses everything is found out by those that use it (`detection`), is *out* then, and all paths over it are ASSUMED_BAD
for the streams that have met it; probes go on (`mrc_host/transport/probe_schedule.py`) until enough in a row are
answered. If none was lost, the paths *rest*: they stay outside the rings until one is needed, or more rest than may
(`mrc_host/transport/path_rings.py`). A port of a NIC that loses its carrier is out at once, for its peers too.

Where queue pairs use a part of their paths only (`path_subsets`), a direction is met by those that have a path over it
in use, and a path that they have given up is known to themselves only; probes of one direction are still the same for
all. What replaces a path may be dead as well, and is found out like any other.

Streams that are not active learn nothing; they meet what has died meanwhile once they go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mrc_host.config import PathTimers, TransportSettings
from mrc_host.transport.probe_schedule import FlapDamping, ProbeSchedule
from mrc_lab.scale.detection import Detection, Sending, first_use
from mrc_lab.scale.link_states import LinkStates
from mrc_lab.scale.lossy_paths import LossyPaths, Place
from mrc_lab.scale.network import Booleans, Floats, Integers, Network
from mrc_lab.scale.path_subsets import ACTIVE, BAD, subsets_of
from mrc_lab.scale.rates import UsableLinks
from mrc_lab.scale.round_trips import TierRoundTrips
from mrc_lab.scale.stream_paths import CrossingPaths, StreamPaths
from mrc_lab.scale.streams import Streams
from simulation.seeds import derive, generator
from topologies.parts import Tier

MAX_CHANGES: Final = 200_000  # that are kept; the counters go on
_TRIAL: Final = 2  # packets of a path that replaces another, until it is known to work (mrc_host/transport/paths.py)

At = Callable[[int, Callable[[int], None]], None]
"""Has a function called with the time, at a time."""


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path of a stream went out of use at `time`, or came back. `first_loss` is None of one that came back.

    `pair` is the queue pair of the stream; None: all of them.
    """

    time: int
    stream: int
    plane: int
    turn: int
    first_loss: int | None
    pair: int | None = None


class PathStates:
    """What streams use of one network. `changed` is called when their rates are others from now on.

    `active_paths` are those that a queue pair uses at a time, over all planes; None: all.
    """

    def __init__(
        self,
        network: Network,
        streams: Streams,
        settings: TransportSettings,
        trips: TierRoundTrips,
        states: LinkStates,
        at: At,
        changed: Callable[[], None],
        seed: int,
        active_paths: int | None = None,
    ) -> None:
        self._network, self._streams, self._settings, self._trips = network, streams, settings, trips
        self._states, self._at, self._changed = states, at, changed
        self._detection = Detection.of(settings)
        self._damping = FlapDamping(settings.flap_half_life)
        self._present = network.uplinks > 0
        self._out = np.zeros(len(self._present), dtype=bool)
        self._resting: dict[tuple[int, ...], list[int]] = {}  # directions, by those that may replace one another
        self._outside = np.zeros(len(self._present), dtype=bool)  # resting
        self._died = np.zeros(len(self._present), dtype=np.int64)  # serial of its last death
        self._deaths = 0
        self._met = np.zeros(len(streams), dtype=np.int64)  # deaths that a stream knows of while it is not active
        self._paths = StreamPaths(network, streams)
        drawn = np.random.default_rng(derive(seed, "paths"))
        self._subsets = subsets_of(network, streams, self._paths, active_paths, drawn)
        self._trip = trips.times[self._paths.tier]
        self._chance = np.random.default_rng(derive(seed, "losses"))
        self.lossy = LossyPaths(self, settings, at, lambda place: generator(seed, "lossy path", *place))
        self.changes: list[PathChange] = []
        self._unanswered: dict[int, tuple[ProbeSchedule, int]] = {}  # and when the last probe was sent
        self.refresh()

    def refresh(self) -> None:
        """Use from now on what is known by now: many links may have gone out of use at one time."""
        uplinks = self._present & ~self._out & ~self._outside
        self.usable = UsableLinks(self._network, self._states.carrier, uplinks)
        self._planes = self.usable.planes_of(self._streams)
        self._planes_of_each = np.maximum(self._planes.sum(axis=1), 1)

    # ---- links ------------------------------------------------------------------------------------------------------

    def links_changed(self, states: LinkStates, now: int) -> None:
        """Faults have changed what links do."""
        before, self._states = self._states, states
        lost = before.carrier & ~states.carrier
        if lost.any():
            self._ports_lost(lost, now)
        if (before.carrier != states.carrier).any():
            self._changed()
        if (before.uplink_loss != states.uplink_loss).any():
            self._set_lossy(now)
        dead = (states.uplink_loss >= 1) & (before.uplink_loss < 1) & self._present
        self._die(np.flatnonzero(dead).tolist(), now)
        for link in [link for link in self._unanswered if states.uplink_loss[link] < 1]:
            schedule, sent = self._unanswered.pop(link)
            self._await(link, schedule, schedule.next_after(sent, now))

    def _ports_lost(self, lost: Booleans, now: int) -> None:
        """Ports have lost their carrier: what is under way there is sent again on other planes, a round trip later."""
        streams, planes = self._streams, self._planes
        sending = (streams.active & (streams.plane < 0))[:, None]
        touched = (lost[streams.source] | lost[streams.destination]) & planes & sending
        under_way = streams.packets() / self._planes_of_each * touched.sum(axis=1) * self._trip / 1e9

        def again(_: int) -> None:
            streams.lose(np.flatnonzero(streams.active), under_way[streams.active])

        self._at(now + self._settings.base_rtt, again)

    def _set_lossy(self, now: int) -> None:
        """Some uplinks lose a part of what they carry: so do all paths over them."""
        loss = self._states.uplink_loss
        found: dict[tuple[int, ...], float] = {}
        for link in np.flatnonzero((loss > 0) & (loss < 1)).tolist():
            paths = self._paths.over(link)
            chances = 1 - np.prod(1 - loss[self._paths.crossed(paths)], axis=1)
            partly = chances < 1
            paths = paths.of(partly)
            for stream, turn, chance in zip(paths.stream.tolist(), paths.turn.tolist(), chances[partly], strict=True):
                for pair in self._apart(stream):
                    found[(paths.plane, turn, stream, *pair)] = float(chance)
        self.lossy.set({(place[2], *place[:2], *place[3:]): found[place] for place in sorted(found)})
        self._changed()

    def _apart(self, stream: int) -> list[tuple[int, ...]]:
        """How places of a stream's paths end: with a queue pair each, or nothing if one path stands for all."""
        return [()] if self._subsets is None else [(pair,) for pair in range(int(self._streams.qps[stream]))]

    def _die(self, links: Sequence[int], now: int) -> None:
        """Directions of uplinks lose everything from now on."""
        died = [link for link in links if not self._met_by_all(link)]  # probes of the others go unanswered again
        for link in died:
            self._deaths += 1
            self._died[link] = self._deaths
        self._notice(died, now)

    def _met_by_all(self, link: int) -> bool:
        """Whether nobody uses a link since it is out; those that did not meet it may have it as a backup."""
        return self._subsets is None and bool(self._out[link])

    def _notice(self, links: Sequence[int], now: int) -> None:
        """Those that use links find out, all after the same time: the mean, of those that died together."""
        known = []
        used = [(link, paths) for link in links if (paths := self._used(link))]
        if not used:
            return
        working = self.usable.uplinks & (self._states.uplink_loss < 1)
        silent = UsableLinks(self._network, self._states.carrier, working).joined == 0
        for _, paths in used:
            sending = self._on_path(paths.plane, paths.stream, silent)
            known.append(float((first_use(sending.per_path) + self._detection.time(sending)).mean()))
        for link, _ in used:
            self._go_out_at(now + int(np.mean(known)), link, silent, now)

    def _go_out_at(self, when: int, link: int, silent: Booleans, since: int) -> None:
        self._at(when, lambda now: self._goes_out(link, silent, since, now))

    def _goes_out(self, link: int, silent: Booleans, since: int, now: int) -> None:
        if self._met_by_all(link):
            return
        paths = self._used(link)
        self._retire(paths, since, now, silent)
        for stream in paths.stream.tolist() if self.lossy.paths else ():
            self.lossy.wake(stream, paths.plane, now)
        if not self._out[link]:
            self._begin_probes(link, now)

    def _begin_probes(self, link: int, now: int) -> None:
        """A link is out from now on."""
        self._out[link] = True
        resting = self._resting.get(self._alternatives(link)[0])
        if resting:
            if link in resting:
                resting.remove(link)
                self._outside[link] = False
            else:  # it replaces the one that fails
                self._outside[resting.pop(0)] = False
        doublings = self._damping.failed(link, now)
        timers = self._trips.timers[self._paths.longest(link)]
        schedule = ProbeSchedule(timers, self._settings.probe_successes, doublings)
        self._at(now + schedule.interval, lambda time: self._probe(link, schedule, time))
        self._changed()

    def _retire(
        self, paths: CrossingPaths, since: int, now: int, silent: Booleans | None = None, most: float = np.inf
    ) -> None:
        """Paths that lost everything since a time are known to now; each has lost `most` packets at most.

        `silent` are planes where no path works, by the two racks.
        """
        if not paths:
            return
        sending = self._on_path(paths.plane, paths.stream, silent)
        pairs = self._streams.qps[paths.stream] if paths.pair is None else 1
        lost = pairs * np.minimum(self._detection.packets(sending), most)
        self._streams.lose(paths.stream, np.floor(lost + self._chance.random(len(lost))))
        self._note(paths, now, since)
        self._replace(paths, now)

    def _replace(self, paths: CrossingPaths, now: int) -> None:
        """Backups take the places of paths that have failed. Some of them may be dead, too."""
        if self._subsets is None:
            return
        new = self._subsets.retire(paths)
        self._activate(new, now)
        dead = self._dead(new)
        if dead:
            sending = self._on_path(dead.plane, dead.stream)
            known = (first_use(sending.per_path) + self._detection.time(sending)).mean()
            self._at(now + int(known), lambda time: self._replacements_fail(dead, now, time))

    def _replacements_fail(self, paths: CrossingPaths, since: int, now: int) -> None:
        """Paths that have replaced others were found dead, if they still are; who does not send meets them later."""
        assert self._subsets is not None, "others have no backups"
        paths = self._subsets.in_state(self._dead(paths.of(self._streams.active[paths.stream])), ACTIVE)
        self._retire(paths, since, now, most=_TRIAL)
        crossed = np.unique(self._paths.crossed(paths))
        for link in crossed[(self._states.uplink_loss[crossed] >= 1) & ~self._out[crossed]].tolist():
            self._begin_probes(link, now)

    def _dead(self, paths: CrossingPaths) -> CrossingPaths:
        """Those that lose everything."""
        crossed: Floats = self._states.uplink_loss[self._paths.crossed(paths)]
        return paths.of(crossed.max(axis=1, initial=0.0) >= 1)

    def _activate(self, paths: CrossingPaths, now: int) -> None:
        """Backups have come into use."""
        if paths.pair is not None and self.lossy.paths:
            places = zip(paths.stream.tolist(), paths.turn.tolist(), paths.pair.tolist(), strict=True)
            for stream, turn, pair in places:
                self.lossy.activate((stream, paths.plane, turn, pair), now)

    def _probe(self, link: int, schedule: ProbeSchedule, now: int) -> None:
        """A probe of the paths over a link is due."""
        if self._states.uplink_loss[link] >= 1:  # nobody need count the probes until it works again
            self._unanswered[link] = schedule, now
        else:
            schedule.probed(now)
            answered = now + int(self._trips.times[self._paths.longest(link)])
            self._at(answered, lambda time: self._probe_answered(link, schedule, time))

    def _await(self, link: int, schedule: ProbeSchedule, due: int) -> None:
        """The last probe was lost, which is known at `due`."""

        def again(now: int) -> None:
            schedule.lost()
            self._probe(link, schedule, now)

        self._at(due, again)

    def _probe_answered(self, link: int, schedule: ProbeSchedule, now: int) -> None:
        due = schedule.answered(now)
        if due:
            self._at(due, lambda time: self._probe(link, schedule, time))
            return
        self._out[link] = False
        paths = self._met_over(link)
        self._note(paths, now, None)
        if self._subsets is not None:
            self._activate(self._subsets.restore(paths), now)
        elif not schedule.died:
            self._rest(link)
        self._changed()
        if self._states.uplink_loss[link] >= 1:  # it has died again since the last probe
            self._die([link], now)

    def _rest(self, link: int) -> None:
        """A path over a link that never died by its probes rests, if some may."""
        alternatives, paths = self._alternatives(link)
        most = paths // self._settings.backup_share
        if not most:
            return
        resting = self._resting.setdefault(alternatives, [])
        resting.append(link)
        self._outside[link] = True
        if len(resting) > most:
            self._outside[resting.pop(0)] = False

    def _alternatives(self, link: int) -> tuple[tuple[int, ...], int]:
        """What a link shares with those that streams may use instead, of its rack or pod, and how many these are."""
        tier, way, plane, lower, _ = self._network.directions.place(link)
        place = lower if tier is Tier.T0 else lower // self._network.t1s
        return (tier, way, plane, place), self._network.paths_between(Tier(tier + 1))

    # ---- streams ----------------------------------------------------------------------------------------------------

    def began(self, which: Integers, now: int) -> None:
        """Streams have become active, and their rates are known: they meet what has died without them.

        So do streams that have got a plane back, which need not be named.
        """
        unknown = []
        for link in np.flatnonzero((self._states.uplink_loss >= 1) & self._present).tolist():
            if self._out[link]:
                paths = self._used(link)
                fresh = np.isin(paths.stream, which)
                if self._subsets is None:
                    fresh &= self._met[paths.stream] < self._died[link]
                self._retire(paths.of(fresh), now, now)
            else:
                unknown.append(link)
        self._notice(unknown, now)

    def ended(self, which: Integers) -> None:
        """Streams are not active any more: they know of all that has died so far."""
        self._met[which] = self._deaths

    def bad_paths(self) -> Floats:
        """Paths out of use, of each stream; the mean of its queue pairs, where each has its own."""
        if self._subsets is not None:
            return self._subsets.bad()
        streams, paths = self._streams, self._paths
        found = np.zeros(len(streams))
        reached = (self._network.access[streams.source] > 0) & (self._network.access[streams.destination] > 0)
        whole = UsableLinks(self._network, self._states.carrier, self._present).joined
        for met in [None, *np.unique(self._met[~streams.active]).tolist()]:
            known = self._out if met is None else self._out & (self._died <= met)
            which = paths.between & (streams.active if met is None else ~streams.active & (self._met == met))
            if not (known.any() and which.any()):
                continue
            left = UsableLinks(self._network, self._states.carrier, self._present & ~known).joined
            gone = (whole - left)[:, paths.near[which], paths.far[which]].T
            found[which] = (gone * reached[which]).sum(axis=1)
        for stream, lossy in self.lossy.bad().items():
            found[stream] += lossy
        return found

    # ---- what lossy paths ask ---------------------------------------------------------------------------------------

    def path_rate(self, stream: int, plane: int) -> tuple[float, float]:
        """Packets a second on each path of a stream in a plane, and how long (ns) a loss there goes unnoticed."""
        if not self._streams.active[stream] or not self._streams.rate[stream]:
            return 0.0, 0.0
        sending = self._on_path(plane, np.array([stream]))
        (per_path,), (lasts,) = sending.per_path, self._detection.time(sending)
        return float(per_path * (self._streams.qps[stream] if self._subsets is None else 1)), float(lasts)

    def is_last(self, stream: int, plane: int) -> bool:
        """Whether a plane has no other path for a stream."""
        return bool(self.usable.joined[plane, self._paths.near[stream], self._paths.far[stream]] < 2)

    def resting(self, stream: int) -> int:
        """How many paths of a plane a stream may let rest, if those that work again are no backups anyway."""
        if self._subsets is not None:
            return 0
        return self._network.paths_between(Tier(self._paths.tier[stream])) // self._settings.backup_share

    def timers(self, stream: int) -> tuple[int, PathTimers]:
        """Round trip (ns) of a stream, and timers of its probes."""
        return int(self._trip[stream]), self._trips.timers[self._paths.tier[stream]]

    def lose(self, stream: int, packets: float) -> None:
        """Packets were lost."""
        self._streams.lose(np.array([stream]), packets)

    def note(self, place: Place, now: int, first_loss: int | None) -> None:
        """A path went out of use, or came back, unless a link of its that was dead did that already."""
        paths = _at_place(place)
        if self._subsets is not None:
            paths = self._subsets.in_state(paths, BAD if first_loss is None else ACTIVE)
        self._note(paths, now, first_loss)
        if first_loss is not None:
            self._replace(paths, now)
        elif self._subsets is not None:
            self._activate(self._subsets.restore(paths), now)

    def uses(self, place: Place) -> bool:
        """Whether its queue pair has a path in use; without subsets all are that do not fail."""
        return self._subsets is None or bool(self._subsets.in_state(_at_place(place), ACTIVE))

    @property
    def tiers(self) -> list[int]:
        """Where the paths of each stream turn."""
        found: list[int] = self._paths.tier.tolist()
        return found

    # ---- who uses what ----------------------------------------------------------------------------------------------

    def _used(self, link: int) -> CrossingPaths:
        """Paths over a link on which active streams send, if it is not out."""
        paths = self._paths.over(link)
        sending = self._streams.active[paths.stream] & self._planes[paths.stream, paths.plane]
        if self._subsets is not None:
            return self._subsets.in_state(paths.of(sending), ACTIVE)
        return paths.of(sending & self._otherwise(link, paths))

    def _met_over(self, link: int) -> CrossingPaths:
        """Paths over a link that are bad for their streams for no other reason."""
        paths = self._paths.over(link)
        if self._subsets is not None:
            return self._subsets.in_state(paths.of(self._otherwise(link, paths)), BAD)
        known = self._streams.active[paths.stream] | (self._met[paths.stream] >= self._died[link])
        return paths.of(known & self._otherwise(link, paths))

    def _otherwise(self, link: int, paths: CrossingPaths) -> Booleans:
        """Whether all that paths cross beside a link is there and not out."""
        crossed = self._paths.crossed(paths)
        found: Booleans = (self._present[crossed] & (~self._out[crossed] | (crossed == link))).all(axis=1)
        return found

    def _on_path(self, plane: int, stream: Integers, silent: Booleans | None = None) -> Sending:
        """What queue pairs send on each path of a plane: each finds out by its own packets."""
        streams = self._streams
        packets = streams.packets(stream) / streams.qps[stream]
        between = plane, self._paths.near[stream], self._paths.far[stream]
        used = np.maximum(self.usable.joined[between], 1)
        if self._subsets is not None:
            used = np.minimum(used, self._subsets.most[stream])
        per_path = packets / self._planes_of_each[stream] / used
        quiet = np.zeros(len(stream), dtype=bool) if silent is None else silent[between]
        return Sending(per_path, packets, streams.packet[stream], self._trip[stream], quiet)

    def _note(self, paths: CrossingPaths, now: int, first_loss: int | None) -> None:
        """Paths went out of use, or came back."""
        room = max(0, MAX_CHANGES - len(self.changes))
        stream, turn = paths.stream[:room].tolist(), paths.turn[:room].tolist()
        pairs = [None] * len(stream) if paths.pair is None else paths.pair[:room].tolist()
        noted = zip(stream, turn, pairs, strict=True)
        self.changes += [PathChange(now, stream, paths.plane, turn, first_loss, pair) for stream, turn, pair in noted]


def _at_place(place: Place) -> CrossingPaths:
    """One path."""
    stream, plane, turn, *pair = place
    return CrossingPaths(plane, np.array([stream]), np.array([turn]), np.array(pair) if pair else None)
