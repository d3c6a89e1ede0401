"""The rates of all streams between two changes: max-min fair over NIC ports and the uplinks of racks.

A sprayed stream loads the planes that both its ends can use equally, since no plane may get ahead of another
(`mrc_host/transport/plane_balance.py`); so the plane with the least room limits all of it. In a plane it shares the
uplinks of its racks with the others (`sharing`). A stream of RC loads the links of its one path. Acknowledgements load
the way back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrc_lab.scale.link_states import LinkStates
from mrc_lab.scale.max_min import Uses, max_min
from mrc_lab.scale.network import DIRECTIONS, DOWN, UP, Booleans, Floats, Integers, Network
from mrc_lab.scale.sharing import shared_capacity
from mrc_lab.scale.streams import Streams


@dataclass(frozen=True)
class UsableLinks:
    """What queue pairs use now: `ports` [NIC, plane], and `uplinks` [direction, plane, rack, T1]."""

    ports: Booleans
    uplinks: Booleans

    @cached_property
    def joined(self) -> Integers:
        """Paths between racks, by plane and the two racks."""
        up, down = self.uplinks.astype(np.float32)
        found: Integers = np.rint(np.matmul(up, down.transpose(0, 2, 1))).astype(np.int64)
        return found

    def planes_of(self, streams: Streams, network: Network) -> Booleans:
        """The planes of each stream [stream, plane]."""
        usable = self.ports[streams.source] & self.ports[streams.destination]
        near, far = network.rack[streams.source], network.rack[streams.destination]
        usable &= (self.joined[:, near, far] > 0).T | (near == far)[:, None]
        return usable


@dataclass(frozen=True, slots=True)
class _Between:
    """Streams between racks, in each of their planes: what they load there and back, for each b/s of their rate."""

    who: Integers
    plane: Integers
    out: Floats
    back: Floats


class Rates:
    """Computes rates on one network. Numbers of constraints: ports of NICs in both directions, then uplinks."""

    def __init__(self, network: Network, streams: Streams) -> None:
        self._network, self._streams = network, streams
        self._sprayed = bool((streams.plane < 0).all())
        self._near, self._far = network.rack[streams.source], network.rack[streams.destination]
        self._ports = network.nics * network.planes
        self._groups = int(streams.group.max(initial=-1)) + 1

    def compute(self, states: LinkStates, usable: UsableLinks, waiting: Booleans) -> Floats:
        """The rate of every stream, b/s of payload; 0 of those that are not active, have no way or are waiting."""
        streams = self._streams
        planes = usable.planes_of(streams, self._network)
        able = streams.active & (planes.any(axis=1) if self._sprayed else ~waiting)
        flow = np.flatnonzero(able)
        if not len(flow):
            return np.zeros(len(streams))
        ports = np.concatenate([states.access_rate[way].reshape(-1) for way in DIRECTIONS])
        limit = np.full(self._groups, np.inf)
        np.minimum.at(limit, streams.group[flow], streams.most[flow])
        stopped = streams.active & ~able
        limit[streams.group[stopped]] = 0.0  # one member that cannot go on stops the others

        def fill(uses: Uses, uplinks: Floats) -> Floats:
            capacity = np.concatenate([ports, uplinks.reshape(-1)])
            return np.where(able, max_min(uses, capacity, streams.group, limit)[streams.group], 0.0)

        if not self._sprayed:
            return fill(self._single_uses(flow), states.uplink_rate)
        uses, between = self._sprayed_uses(flow, planes)
        uplinks = np.where(usable.uplinks, states.uplink_rate, 0.0)
        bundles = uplinks.sum(axis=3)
        rate = fill(uses, bundles)
        capacity = self._capacity(self._demand(between, rate), uplinks)
        return rate if (capacity == bundles).all() else fill(uses, capacity)

    # ---- sprayed ------------------------------------------------------------------------------------------------

    def _sprayed_uses(self, flow: Integers, planes: Booleans) -> tuple[Uses, _Between]:
        streams = self._streams
        at, plane = np.nonzero(planes[flow])
        who = flow[at]
        share = 1.0 / planes[who].sum(axis=1)
        out, back = streams.line[who] * share, streams.answer[who] * share
        source, destination = streams.source[who], streams.destination[who]
        found = [(who, self._port(UP, source, plane), out), (who, self._port(DOWN, destination, plane), out)]
        found += [(who, self._port(UP, destination, plane), back), (who, self._port(DOWN, source, plane), back)]
        between = self._near[who] != self._far[who]
        who, plane, out, back = who[between], plane[between], out[between], back[between]
        near, far = self._near[who], self._far[who]
        found += [(who, self._rack(UP, plane, near), out), (who, self._rack(DOWN, plane, far), out)]
        found += [(who, self._rack(UP, plane, far), back), (who, self._rack(DOWN, plane, near), back)]
        return _together(found), _Between(who, plane, out, back)

    def _demand(self, between: _Between, rate: Floats) -> Floats:
        """What racks send to others at these rates, by plane and the two racks."""
        racks, planes = self._network.racks, self._network.planes
        near, far, sent = self._near[between.who], self._far[between.who], rate[between.who]
        there = (between.plane * racks + near) * racks + far
        back = (between.plane * racks + far) * racks + near
        found = np.bincount(
            np.concatenate([there, back]),
            weights=np.concatenate([between.out * sent, between.back * sent]),
            minlength=planes * racks * racks,
        )
        demand: Floats = found.reshape(planes, racks, racks).astype(float)
        return demand

    def _capacity(self, demand: Floats, uplinks: Floats) -> Floats:
        """What racks carry, by direction, plane and rack."""
        found = np.zeros((len(DIRECTIONS), *demand.shape[:2]))
        for plane, asked in enumerate(demand):
            if self._network.t1s:
                found[:, plane] = shared_capacity(asked, uplinks[UP, plane], uplinks[DOWN, plane])
        return found

    def _port(self, way: int, nic: Integers, plane: Integers) -> Integers:
        return way * self._ports + nic * self._network.planes + plane

    def _rack(self, way: int, plane: Integers, rack: Integers) -> Integers:
        return 2 * self._ports + (way * self._network.planes + plane) * self._network.racks + rack

    # ---- one path -----------------------------------------------------------------------------------------------

    def _single_uses(self, flow: Integers) -> Uses:
        streams = self._streams
        plane, out, back = streams.plane[flow], streams.line[flow], streams.answer[flow]
        source, destination = streams.source[flow], streams.destination[flow]
        found = [(flow, self._port(UP, source, plane), out), (flow, self._port(DOWN, destination, plane), out)]
        found += [(flow, self._port(UP, destination, plane), back), (flow, self._port(DOWN, source, plane), back)]
        between = streams.t1[flow] >= 0
        who, plane, t1, out = flow[between], plane[between], streams.t1[flow][between], out[between]
        found += [(who, self._uplink(UP, plane, self._near[who], t1), out)]
        found += [(who, self._uplink(DOWN, plane, self._far[who], t1), out)]
        return _together(found)

    def _uplink(self, way: int, plane: Integers, rack: Integers, t1: Integers) -> Integers:
        network = self._network
        return 2 * self._ports + ((way * network.planes + plane) * network.racks + rack) * network.t1s + t1


def _together(found: list[tuple[Integers, Integers, Floats]]) -> Uses:
    flow, constraint, load = (np.concatenate(part) for part in zip(*found, strict=True))
    return Uses(flow, constraint, load)
