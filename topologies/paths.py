"""What each NIC is told: its ports, and for every peer the universe of paths and how a path becomes an address.

A path to a NIC below another T0 is four uSIDs, ``block | T0 | T1 | T0' | NIC``; below the same T0 it is two,
``block | T0 | NIC`` (docs/protocol.md §5). The plane is the same in all of them and is copied in from the entropy
value, as is the T1's number, which equals the T0's uplink number. So one :class:`mrc_host.config.UsidTemplate`
covers every path to a peer.
"""

from __future__ import annotations

from mrc_host.config import Destination, NicConfig, PausePriorities, PortConfig, UsidTemplate
from topologies import addressing
from topologies.addressing import KIND_NIC, KIND_T0, KIND_T1, usid
from topologies.fabric import Endpoint, Fabric, Nic

_FIRST_USID_SHIFT = 128 - 32 - addressing.USID_BITS  # lowest bit of the first uSID, behind the block


def nic_config(fabric: Fabric, nic: Nic) -> NicConfig:
    """Everything the NIC `nic` of a fabric is told."""
    return NicConfig(
        name=nic.name,
        address=addressing.nic_address(fabric, nic).packed,
        block=fabric.usid_block,
        ports=tuple(_port(fabric, nic, plane) for plane in range(fabric.planes)),
        destinations=tuple(destination(fabric, nic, peer) for peer in fabric.nics if peer != nic),
        mtu=fabric.mtu,
        settings=fabric.settings,
        pause=PausePriorities() if fabric.queues.pfc else None,
    )


def destination(fabric: Fabric, nic: Nic, peer: Nic) -> Destination:
    """How `nic` reaches `peer`: all planes, and all uplinks where the peer is below another T0."""
    same_t0 = nic.t0 == peer.t0
    uplinks = 1 if same_t0 else fabric.t1_count
    evs = tuple(addressing.entropy_value(plane, uplink) for plane in range(fabric.planes) for uplink in range(uplinks))
    address = addressing.nic_address(fabric, peer).packed
    hops: tuple[int, ...] = (usid(KIND_T0, 0, nic.t0), usid(KIND_NIC, 0, peer.downlink))
    if not same_t0:
        hops = (usid(KIND_T0, 0, nic.t0), usid(KIND_T1, 0, 0), usid(KIND_T0, 0, peer.t0), hops[-1])
    return Destination(peer.name, address, _template(fabric, hops, t1_hop=None if same_t0 else 1), evs)


def probe_template(fabric: Fabric, nic: Nic, *, to_t1: bool) -> UsidTemplate:
    """Addresses of probes out to a switch and back to the sender (docs/protocol.md §7).

    To the NIC's T0 (``block | T0 | self``) or, with `to_t1`, to the T1 of the entropy value's uplink and back
    (``block | T0 | T1 | T0 | self``).
    """
    t0, own = usid(KIND_T0, 0, nic.t0), usid(KIND_NIC, 0, nic.downlink)
    hops = (t0, usid(KIND_T1, 0, 0), t0, own) if to_t1 else (t0, own)
    return _template(fabric, hops, t1_hop=1 if to_t1 else None)


def _template(fabric: Fabric, hops: tuple[int, ...], *, t1_hop: int | None) -> UsidTemplate:
    shifts = [_FIRST_USID_SHIFT - hop * addressing.USID_BITS for hop in range(len(hops))]
    return UsidTemplate(
        base=addressing.usid_address(fabric, *hops),
        plane_shifts=tuple(shift + addressing.USID_PLANE_SHIFT for shift in shifts),
        uplink_shift=None if t1_hop is None else shifts[t1_hop],
        ev_plane_shift=addressing.EV_PLANE_SHIFT,
    )


def _port(fabric: Fabric, nic: Nic, plane: int) -> PortConfig:
    end = Endpoint(nic.name, plane)
    link = fabric.link_at(end)
    assert link is not None, "a fabric has a link on every NIC port"
    return PortConfig(
        plane=plane,
        mac=addressing.mac(fabric, end),
        gateway_mac=addressing.mac(fabric, link.t0_end),
        usid=addressing.nic_usid(nic, plane),
        rate_bps=link.rate_bps,
        interface=addressing.interface_name(fabric, end),
    )
