"""The rates of all streams between two changes: max-min fair over NIC ports and the uplinks of racks and pods.

A sprayed stream loads the planes that both its ends can use equally, since no plane may get ahead of another
(`mrc_host/transport/plane_balance.py`); so the plane with the least room limits all of it. In a plane it shares the
uplinks of its racks, and of its pods if these are two, with the others (`sharing`). A stream of RC loads the links of
its one path. Acknowledgements load the way back.

A port, or all uplinks of a rack or pod, is an *end*, with a constraint in each plane. Where all streams of an end use
the same planes, they load it alike in all of these, so that only the tightest can hold them back: the others are left
out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrc_lab.scale.link_states import LinkStates
from mrc_lab.scale.max_min import Uses, max_min
from mrc_lab.scale.network import DOWN, LOWER_TIERS, UP, WAYS, Booleans, Floats, Integers, Network
from mrc_lab.scale.reach import joined, over_t2s
from mrc_lab.scale.sharing import PlaneLinks, UplinkCapacity, shared_capacity
from mrc_lab.scale.streams import Streams


@dataclass(frozen=True)
class UsableLinks:
    """What queue pairs use now: `ports` [NIC, plane], and `uplinks` by number of the direction."""

    network: Network
    ports: Booleans
    uplinks: Booleans

    @cached_property
    def joined(self) -> Integers:
        """Paths between racks, by plane and the two racks."""
        network, used = self.network, self.uplinks.astype(np.float32)
        below, above = (network.directions.of_tier(used, tier) for tier in LOWER_TIERS)
        over = over_t2s(above[UP], above[DOWN], network.pods)
        found: Integers = np.rint(joined(below[UP], below[DOWN], over, network.pod)).astype(np.int64)
        return found

    def planes_of(self, streams: Streams) -> Booleans:
        """The planes of each stream [stream, plane]."""
        usable = self.ports[streams.source] & self.ports[streams.destination]
        near, far = self.network.rack[streams.source], self.network.rack[streams.destination]
        usable &= (self.joined[:, near, far] > 0).T | (near == far)[:, None]
        return usable


@dataclass(frozen=True, slots=True)
class _Loads:
    """What streams (by place in `flow`) load at ends, for each b/s of their rate in one plane, and their planes."""

    flow: Integers
    planes: Booleans
    at: Integers
    end: Integers
    load: Floats


class Rates:
    """Computes rates on one network.

    Numbers of ends: NICs upwards and downwards, then racks, then pods. Numbers of constraints of sprayed streams are
    those of an end and plane, those of RC: ports of NICs in both directions, then directions of uplinks.
    """

    def __init__(self, network: Network, streams: Streams) -> None:
        self._network, self._streams = network, streams
        self._sprayed = bool((streams.plane < 0).all())
        self._near, self._far = network.rack[streams.source], network.rack[streams.destination]
        self._ports = network.nics * network.planes
        self._groups = int(streams.group.max(initial=-1)) + 1

    def compute(self, states: LinkStates, usable: UsableLinks, waiting: Booleans) -> Floats:
        """The rate of every stream, b/s of payload; 0 of those that are not active, have no way or are waiting."""
        streams = self._streams
        planes = usable.planes_of(streams)
        able = streams.active & (planes.any(axis=1) if self._sprayed else ~waiting)
        flow = np.flatnonzero(able)
        if not len(flow):
            return np.zeros(len(streams))
        limit = np.full(self._groups, np.inf)
        np.minimum.at(limit, streams.group[flow], streams.most[flow])
        stopped = streams.active & ~able
        limit[streams.group[stopped]] = 0.0  # one member that cannot go on stops the others

        def fill(uses: Uses, capacity: Floats) -> Floats:
            return np.where(able, max_min(uses, capacity, streams.group, limit)[streams.group], 0.0)

        if not self._sprayed:
            return fill(self._single_uses(flow), np.concatenate([states.access_rate.reshape(-1), states.uplink_rate]))
        uplinks = np.where(usable.uplinks, states.uplink_rate, 0.0)
        bundles = self._bundles(uplinks)
        loads = self._sprayed_loads(flow, planes[flow])
        capacity = _by_end(states.access_rate, bundles)
        rate = fill(_tightest(loads, capacity), capacity.reshape(-1))
        shared = self._shared(self._demand(loads, rate), uplinks)
        if all((some == every).all() for some, every in zip(shared, bundles, strict=True)):
            return rate
        capacity = _by_end(states.access_rate, shared)
        return fill(_tightest(loads, capacity), capacity.reshape(-1))

    # ---- sprayed ------------------------------------------------------------------------------------------------

    def _bundles(self, uplinks: Floats) -> UplinkCapacity:
        """All uplinks of racks and pods together [direction, plane, rack or pod]."""
        network = self._network
        below, above = (network.directions.of_tier(uplinks, tier) for tier in LOWER_TIERS)
        by_pod = above.reshape(len(WAYS), network.planes, network.pods, -1)
        return UplinkCapacity(below.sum(axis=3), by_pod.sum(axis=3))

    def _sprayed_loads(self, flow: Integers, planes: Booleans) -> _Loads:
        streams, network = self._streams, self._network
        out, back = streams.line[flow], streams.answer[flow]
        near, far = self._near[flow], self._far[flow]
        pods = network.pod[near], network.pod[far]
        levels = [  # streams, their ends, and how many of these there are
            (np.arange(len(flow)), (streams.source[flow], streams.destination[flow]), network.nics),
            (np.flatnonzero(near != far), (near, far), network.racks),
            (np.flatnonzero(pods[0] != pods[1]), pods, network.pods),
        ]
        found = []
        first = 0
        for at, ends, count in levels:
            source, destination = ends[0][at], ends[1][at]
            up, down = first, first + count
            found += [(at, up + source, out[at]), (at, down + destination, out[at])]
            found += [(at, up + destination, back[at]), (at, down + source, back[at])]
            first += len(WAYS) * count
        where, end, load = (np.concatenate(part) for part in zip(*found, strict=True))
        return _Loads(flow, planes, where, end, load / planes.sum(axis=1)[where])

    def _demand(self, loads: _Loads, rate: Floats) -> Floats:
        """What racks send to others at these rates, by plane and the two racks."""
        streams, flow, racks = self._streams, loads.flow, self._network.racks
        near, far = self._near[flow], self._far[flow]
        each = np.where(near == far, 0.0, rate[flow] / loads.planes.sum(axis=1))
        pairs = np.concatenate([near * racks + far, far * racks + near])
        sent = np.concatenate([streams.line[flow] * each, streams.answer[flow] * each])
        found = np.empty((self._network.planes, racks, racks))
        for plane, used in enumerate(loads.planes.T):
            found[plane].flat = np.bincount(pairs, weights=sent * np.tile(used, 2), minlength=racks * racks)
        return found

    def _shared(self, demand: Floats, uplinks: Floats) -> UplinkCapacity:
        """What racks and pods carry [direction, plane, rack or pod]."""
        network = self._network
        below, above = (network.directions.of_tier(uplinks, tier) for tier in LOWER_TIERS)
        planes = [
            shared_capacity(asked, PlaneLinks(below[:, plane], above[:, plane], network.pod))
            for plane, asked in enumerate(demand)
        ]
        return UplinkCapacity(*(np.stack(part, axis=1) for part in zip(*planes, strict=True)))

    # ---- one path -----------------------------------------------------------------------------------------------

    def _single_uses(self, flow: Integers) -> Uses:
        streams = self._streams
        plane, out, back = streams.plane[flow], streams.line[flow], streams.answer[flow]
        source, destination = streams.source[flow], streams.destination[flow]
        found = [(flow, self._port(UP, source, plane), out), (flow, self._port(DOWN, destination, plane), out)]
        found += [(flow, self._port(UP, destination, plane), back), (flow, self._port(DOWN, source, plane), back)]
        who = flow[streams.turn[flow] >= 0]
        crossed = self._network.crossed(self._near[who], self._far[who], streams.plane[who], streams.turn[who])
        for number in crossed.T:
            found.append((who, 2 * self._ports + number, streams.line[who]))
        return Uses(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _port(self, way: int, nic: Integers, plane: Integers) -> Integers:
        return way * self._ports + nic * self._network.planes + plane


def _by_end(access: Floats, uplinks: UplinkCapacity) -> Floats:
    """Capacities of ends, by plane."""
    return np.concatenate([*access, *uplinks.racks.transpose(0, 2, 1), *uplinks.pods.transpose(0, 2, 1)])


def _tightest(loads: _Loads, capacity: Floats) -> Uses:
    """The constraints that may hold streams back: one of each end whose streams all use the same planes.

    `capacity` is by end and plane.
    """
    ends, planes = capacity.shape
    mask = (loads.planes @ (1 << np.arange(planes)))[loads.at]
    least, most = np.full(ends, 1 << planes), np.zeros(ends, dtype=np.int64)
    np.minimum.at(least, loads.end, mask)
    np.maximum.at(most, loads.end, mask)
    used = (least[:, None] >> np.arange(planes)) & 1
    tightest = np.where(used, capacity, np.inf).argmin(axis=1)
    alike = (least == most)[loads.end]
    end = loads.end[alike]
    some = np.flatnonzero(~alike)
    which, plane = np.nonzero(loads.planes[loads.at[some]])
    rest = some[which]
    return Uses(
        loads.flow[np.concatenate([loads.at[alike], loads.at[rest]])],
        np.concatenate([end * planes + tightest[end], loads.end[rest] * planes + plane]),
        np.concatenate([loads.load[alike], loads.load[rest]]),
    )
