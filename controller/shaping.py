"""A lower rate for what leaves a port, by a queueing discipline of the kernel at its interface.

Embedded switches and NICs pace their lines themselves and then send through the interface's discipline, usually none. A
slower token bucket there (tc-tbf(8)) has a short queue of its own and drops what does not fit: as if the slow line were
a hop further on, behind the switch's queue. Ports of BMv2 and of kernel switches have a token bucket already, which
then gets another rate.
Delay is the switches' own (wire_delays).

A NIC's port is in its host's network namespace, and a kernel switch's in its own; both are found by process ids in the
run directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from controller.errors import ControllerError
from topologies import addressing
from topologies.emulation import namespaces
from topologies.emulation.interfaces import token_bucket
from topologies.emulation.kernel_switch import port_bucket
from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric, LinkEnd
from topologies.faults.effect import PortShaping

_HANDLE = 0xFA0000  # of what is added here, "fa:", so that it is found again
_ROOT = 0xFFFFFFFF
_FRAMES, _QUEUE_S = 16, 0.02  # room of a slow line's queue: so many frames, or what it sends in this time


def shape(fabric: Fabric, shapes: Mapping[LinkEnd, PortShaping | None]) -> None:
    """Shape what leaves ports, None: as it was made; ControllerError names what is not possible."""
    for end, wanted in shapes.items():
        name = addressing.interface_name(fabric, end)
        if end.node in fabric.nic_names or fabric.is_kernel(end.node):
            _shape_inside(fabric, end, name, wanted)
        else:
            _shape_here(fabric, end, name, wanted)


def _shape_inside(fabric: Fabric, end: LinkEnd, name: str, wanted: PortShaping | None) -> None:
    """Shape a port of a host or kernel switch, in its namespace; of one that is gone there is nothing to be undone."""
    record = RunDirectory(fabric.name).shell(end.node)
    if record is None:
        if wanted is None:
            return
        raise ControllerError(f"{end.node} is not on this machine: is the fabric still up?")

    namespaces.run_inside(record.pid, lambda: _shape_here(fabric, end, name, wanted))


def _shape_here(fabric: Fabric, end: LinkEnd, name: str, wanted: PortShaping | None) -> None:
    """Shape a port in this thread's namespace."""
    try:
        with IPRoute() as netlink:
            _shape_one(netlink, fabric, end, name, wanted)
    except NetlinkError as error:  # a port may go away at any time
        raise ControllerError(f"Interface {name} cannot be shaped: {error.args[-1]}.") from None


def _shape_one(netlink: IPRoute, fabric: Fabric, end: LinkEnd, name: str, wanted: PortShaping | None) -> None:
    found = netlink.link_lookup(ifname=name)
    if not found:
        if wanted is None:
            return
        raise ControllerError(f"Interface {name} does not exist on this machine: is the fabric still up?")
    index = found[0]
    link = fabric.link_at(end)
    assert link is not None, "a fabric has a link on every port"
    present: Any = next((q for q in netlink.get_qdiscs(index) if q["parent"] == _ROOT), None)
    ours = present is not None and present["handle"] == _HANDLE
    paced = present is not None and not ours and present.get("kind") == "tbf"  # BMv2's, or left as we made it
    if wanted is None or wanted.rate_bps is None:
        if ours:
            netlink.tc("del", index=index, handle=_HANDLE, parent=_ROOT)
        elif paced:
            _change(netlink, index, "tbf", present["handle"], _bucket(fabric, end, link.rate_bps))
    else:
        options = _bucket(fabric, end, min(wanted.rate_bps, link.rate_bps))
        if paced:
            _change(netlink, index, "tbf", present["handle"], options)
        else:
            command = "change" if ours else "add"
            options = {**options, "limit": _room(options, fabric.mtu)}
            netlink.tc(command, "tbf", index=index, handle=_HANDLE, parent=_ROOT, **options)


def _bucket(fabric: Fabric, end: LinkEnd, rate_bps: int) -> dict[str, int]:
    """The token bucket of a port at a rate; a port of a kernel switch has its whole queue there."""
    return port_bucket(fabric, end, rate_bps) if fabric.is_kernel(end.node) else token_bucket(rate_bps, fabric.mtu)


def _room(bucket: Mapping[str, int], mtu: int) -> int:
    """Bytes that may wait: a short queue, since the switch's own cannot mark or trim what is in here."""
    return bucket["burst"] + max(_FRAMES * (mtu + 14), int(bucket["rate"] * _QUEUE_S))


def _change(netlink: IPRoute, index: int, kind: str, handle: int, options: Mapping[str, Any]) -> None:
    netlink.tc("change", kind, index=index, handle=handle, parent=_ROOT, **options)
