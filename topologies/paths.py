"""The configuration of each NIC: its ports, and for every peer the paths and how a path becomes an address.

A path to a NIC below another T0 of the pod is four uSIDs, ``block | T0 | T1 | T0' | NIC``; below the same T0 it is two,
``block | T0 | NIC``; in another pod six, ``block | T0 | T1 | T2 | T1' | T0' | NIC``, which is all that an address holds
(docs/protocol.md §5). The plane is the same in all of them and is copied in from the entropy value, and so are the
numbers of T1s (counted from the first of their pod) and of the T2. So one :class:`mrc_host.config.UsidTemplate` covers
every path to a peer. Only paths whose links exist are included (``up_down``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from mrc_host.config import (
    Destination,
    EvAddressField,
    NicConfig,
    PathTimers,
    PausePriorities,
    PortConfig,
    UsidTemplate,
)
from topologies import addressing
from topologies.addressing import KIND_NIC, KIND_T0, KIND_T1, KIND_T2, usid
from topologies.errors import FabricError
from topologies.fabric import Fabric, FabricNic, LinkEnd, Tier
from topologies.round_trip import PathRoundTrips
from topologies.up_down import FabricPath

MAX_PATHS = 8192  # towards one peer: 8 planes of 1024 uplinks
_FIRST_USID_SHIFT = 128 - 32 - addressing.USID_BITS  # lowest bit of the first uSID, behind the block


TimersOf = Callable[[int], PathTimers]
"""The timers of a destination whose base RTT (ns) is given."""


def nic_config(
    fabric: Fabric, nic: FabricNic, round_trips: PathRoundTrips | None = None, timers_of: TimersOf | None = None
) -> NicConfig:
    """The configuration of the NIC `nic` of a fabric.

    With `round_trips` it includes the base RTT of each destination, if these differ, and the timers that follow it.
    """
    return NicConfig(
        name=nic.name,
        address=addressing.nic_address(fabric, nic).packed,
        block=fabric.usid_block,
        ports=tuple(_port(fabric, nic, plane) for plane in range(fabric.planes)),
        destinations=tuple(
            destination(fabric, nic, peer, round_trips, timers_of) for peer in fabric.nics if peer.name != nic.name
        ),
        mtu=fabric.mtu,
        settings=fabric.settings,
        pause=PausePriorities() if fabric.queues.pfc else None,
    )


def destination(
    fabric: Fabric,
    nic: FabricNic,
    peer: FabricNic,
    round_trips: PathRoundTrips | None = None,
    timers_of: TimersOf | None = None,
) -> Destination:
    """How `nic` reaches `peer`: on every path up and down, in all planes that have one."""
    key = ("destination", nic.t0, fabric.common_planes(nic, peer), peer.name)
    shared = fabric.derived(key, lambda: _destination(fabric, nic, peer))
    if round_trips is None or not round_trips.varied:
        return shared
    base_rtt = round_trips.of(nic, peer)
    return replace(shared, base_rtt=base_rtt, timers=timers_of(base_rtt) if timers_of is not None else None)


def _destination(fabric: Fabric, nic: FabricNic, peer: FabricNic) -> Destination:
    """The same for all NICs of a T0 that have the same planes."""
    paths = fabric.paths(nic, peer)
    if len(paths) > MAX_PATHS:
        raise FabricError(
            f"there are {len(paths)} paths from {nic.name} to {peer.name}, more than the {MAX_PATHS} that a NIC can"
            " keep: use fewer T2s, or t2_wiring: groups"
        )
    key = ("entropy values", nic.t0, peer.t0, fabric.common_planes(nic, peer))
    evs = fabric.derived(key, lambda: _shared(_entropy_values(fabric, paths)))
    address = addressing.nic_address(fabric, peer).packed
    return Destination(peer.name, address, _template_of(fabric, nic, peer, paths[0].turn), evs)


def _entropy_values(fabric: Fabric, paths: Sequence[FabricPath]) -> tuple[int, ...]:
    """The entropy values that a NIC is configured with: the first of each path.

    It makes more of them where they carry uSID lists. Where switches hash, no two are known to share a path, so all are
    listed.
    """
    firsts = [addressing.path_ev(path) for path in paths]
    if fabric.settings.ev_format.routed:
        return tuple(firsts)
    shift = addressing.ev_uplink_bits(fabric)
    wanted = fabric.settings.transport.entropy_values // len(firsts)
    numbers = range(max(1, min(wanted, 1 << addressing.EV_PLANE_SHIFT - shift)))
    return tuple(first | number << shift for number in numbers for first in firsts)


@functools.lru_cache(maxsize=1024)
def _shared(evs: tuple[int, ...]) -> tuple[int, ...]:
    """The same object for equal entropy values: most pairs of T0s have the same."""
    return evs


def _template_of(fabric: Fabric, nic: FabricNic, peer: FabricNic, turn: Tier) -> UsidTemplate:
    """Addresses of the paths between two NICs that turn at a tier."""
    near, far, last = usid(KIND_T0, 0, nic.t0), usid(KIND_T0, 0, peer.t0), usid(KIND_NIC, 0, peer.downlink)
    up = usid(KIND_T1, 0, fabric.first_t1(nic.t0))
    if turn is Tier.T0:
        return _template(fabric, (near, last))
    if turn is Tier.T1:
        return _template(fabric, (near, up, far, last))
    down = usid(KIND_T1, 0, fabric.first_t1(peer.t0))
    return _template(fabric, (near, up, usid(KIND_T2, 0, 0), down, far, last))


def probe_template(fabric: Fabric, nic: FabricNic, turn: Tier) -> UsidTemplate:
    """Addresses of probes out to a switch and back to the sender (docs/protocol.md §7).

    To the NIC's T0 (``block | T0 | self``), to the T1 of the entropy value's uplink (``block | T0 | T1 | T0 | self``),
    or to its T2 (``block | T0 | T1 | T2 | T1 | T0 | self``); the T1 is then the same both ways.
    """
    return _template_of(fabric, nic, nic, turn)


def _template(fabric: Fabric, hops: tuple[int, ...]) -> UsidTemplate:
    """The template of a list of uSIDs with plane, T1s and T2 numbered from 0, or the first of a pod."""
    shifts = [_FIRST_USID_SHIFT - hop * addressing.USID_BITS for hop in range(len(hops))]
    over_t2: tuple[EvAddressField, ...] = ()
    if len(hops) == addressing.MAX_USIDS:
        over_t2 = (
            EvAddressField(addressing.EV_T2_SHIFT, addressing.EV_T2_BITS, shifts[2]),
            EvAddressField(addressing.EV_DOWNLINK_SHIFT, addressing.EV_DOWNLINK_BITS, shifts[3]),
        )
    return UsidTemplate(
        base=addressing.usid_address(fabric, *hops),
        plane_shifts=tuple(shift + addressing.USID_PLANE_SHIFT for shift in shifts),
        uplink_shift=shifts[1] if len(hops) > 2 else None,
        ev_plane_shift=addressing.EV_PLANE_SHIFT,
        ev_uplink_bits=addressing.ev_uplink_bits(fabric) if fabric.settings.ev_format.routed else 10,
        fields=over_t2,
    )


def _port(fabric: Fabric, nic: FabricNic, plane: int) -> PortConfig:
    """A port; one without a link gets the rate of the NIC's fastest port, and never has carrier."""
    end = LinkEnd(nic.name, plane)
    link = fabric.link_at(end)
    gateway = LinkEnd(f"t0-{nic.t0}@p{plane}", nic.downlink + 1)
    return PortConfig(
        plane=plane,
        mac=addressing.mac(fabric, end),
        gateway_mac=addressing.mac(fabric, gateway),
        usid=addressing.nic_usid(nic, plane),
        rate_bps=link.rate_bps if link is not None else max(own.rate_bps for own in fabric.links_of(nic.name)),
        interface=addressing.interface_name(fabric, end),
    )
