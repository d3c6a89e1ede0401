"""Values to protobuf messages and back, for both sides of the service."""

from __future__ import annotations

from typing import Any

from controller.proto import controller_v1_pb2 as pb
from controller.values import (
    Cleared,
    Fault,
    FaultKind,
    FleetStatus,
    LinkEnd,
    LinkStatus,
    SwitchState,
    SwitchStatus,
    Traffic,
)
from topologies.errors import FabricError
from topologies.fabric import LinkKind
from topologies.fault_entries import ALWAYS, DataPlaneFault, LinkFault, PathLoss, SwitchSilent, ppb

_STATES = {
    SwitchState.CONNECTING: pb.SwitchStatus.CONNECTING,
    SwitchState.PROGRAMMING: pb.SwitchStatus.PROGRAMMING,
    SwitchState.VERIFIED: pb.SwitchStatus.VERIFIED,
    SwitchState.FAILED: pb.SwitchStatus.FAILED,
}
_STATES_BACK = {number: state for state, number in _STATES.items()}
_KINDS = {LinkKind.NIC_T0: pb.Link.NIC_T0, LinkKind.T0_T1: pb.Link.T0_T1}
_KINDS_BACK = {number: kind for kind, number in _KINDS.items()}


def pack_status(status: FleetStatus) -> pb.Status:
    """State of all switches."""
    return pb.Status(
        fabric=status.fabric,
        ready=status.ready,
        switches=[
            pb.SwitchStatus(
                name=switch.name,
                state=_STATES[switch.state],
                entries=switch.entries,
                repaired=switch.repaired,
                problems=switch.problems,
            )
            for switch in status.switches
        ],
    )


def unpack_status(message: pb.Status) -> FleetStatus:
    """State of all switches."""
    switches = tuple(
        SwitchStatus(switch.name, _STATES_BACK[switch.state], switch.entries, switch.repaired, tuple(switch.problems))
        for switch in message.switches
    )
    return FleetStatus(message.fabric, message.ready, switches)


def pack_link(link: LinkStatus, fault_ids: tuple[str, ...]) -> pb.Link:
    """A link, with the faults that are on it."""
    return pb.Link(
        name=link.name,
        kind=_KINDS[link.kind],
        plane=link.plane,
        lower=_pack_end(link.lower),
        upper=_pack_end(link.upper),
        rate_bps=link.rate_bps,
        up=link.up,
        upward=pb.Traffic(packets=link.upward.packets, bytes=link.upward.bytes),
        downward=pb.Traffic(packets=link.downward.packets, bytes=link.downward.bytes),
        fault_ids=fault_ids,
        read_at_ns=link.read_at_ns,
    )


def unpack_link(message: pb.Link) -> LinkStatus:
    """A link."""
    return LinkStatus(
        name=message.name,
        kind=_KINDS_BACK[message.kind],
        plane=message.plane,
        lower=_unpack_end(message.lower),
        upper=_unpack_end(message.upper),
        rate_bps=message.rate_bps,
        up=message.up,
        upward=Traffic(message.upward.packets, message.upward.bytes),
        downward=Traffic(message.downward.packets, message.downward.bytes),
        fault_ids=tuple(message.fault_ids),
        read_at_ns=message.read_at_ns,
    )


def pack_effect(kind: FaultKind, effect: DataPlaneFault | None) -> dict[str, Any]:
    """What a fault is, as the field of a request or of a fault that says so."""
    message: Any
    if effect is None:
        message = pb.LinkDown()
    elif isinstance(effect, SwitchSilent):
        message = pb.SwitchSilent()
    elif isinstance(effect, PathLoss):
        message = pb.PathLoss(
            entropy_value=effect.ev,
            probability=effect.loss / ALWAYS,
            source=effect.source,
            destination=effect.destination,
        )
    elif kind is FaultKind.LOSS:
        message = pb.Loss(probability=effect.loss / ALWAYS, towards=effect.towards)
    else:
        message = pb.Corruption(probability=effect.corruption / ALWAYS, towards=effect.towards)
    return {kind.value: message}


def _unpack_effect(message: pb.InjectFaultRequest | pb.Fault) -> tuple[FaultKind, DataPlaneFault | None]:
    kind = FaultKind(message.WhichOneof("fault"))
    if kind is FaultKind.LOSS:
        loss = message.loss
        return kind, LinkFault(message.pattern, loss=ppb(loss.probability), towards=loss.towards or "*")
    if kind is FaultKind.CORRUPTION:
        damage = message.corruption
        return kind, LinkFault(message.pattern, corruption=ppb(damage.probability), towards=damage.towards or "*")
    if kind is FaultKind.SWITCH_SILENT:
        return kind, SwitchSilent(message.pattern)
    if kind is FaultKind.PATH_LOSS:
        path = message.path_loss
        return kind, PathLoss(path.entropy_value, ppb(path.probability), path.source or "*", path.destination or "*")
    return kind, None


def unpack_request(request: pb.InjectFaultRequest) -> tuple[FaultKind, DataPlaneFault | None]:
    """What fault is asked for; FabricError if none is, or if its figures are out of range."""
    if request.WhichOneof("fault") is None:
        known = ", ".join(kind.value for kind in FaultKind)
        raise FabricError(f"the request names no fault; this controller knows {known}")
    return _unpack_effect(request)


def pack_fault(fault: Fault) -> pb.Fault:
    """A fault."""
    return pb.Fault(
        id=fault.id,
        pattern=fault.pattern,
        links=fault.links,
        switches=fault.switches,
        began_at_ns=fault.began_at_ns,
        applied_at_ns=fault.applied_at_ns,
        owner=fault.owner,
        **pack_effect(fault.kind, fault.effect),
    )


def unpack_fault(message: pb.Fault) -> Fault:
    """A fault."""
    kind, effect = _unpack_effect(message)
    return Fault(
        id=message.id,
        kind=kind,
        pattern=message.pattern,
        links=tuple(message.links),
        owner=message.owner,
        began_at_ns=message.began_at_ns,
        applied_at_ns=message.applied_at_ns,
        effect=effect,
        switches=tuple(message.switches),
    )


def pack_cleared(cleared: Cleared) -> pb.ClearFaultsResponse:
    """What clearing faults did."""
    return pb.ClearFaultsResponse(
        cleared=[pack_fault(fault) for fault in cleared.faults],
        links=cleared.links,
        began_at_ns=cleared.began_at_ns,
        applied_at_ns=cleared.applied_at_ns,
    )


def unpack_cleared(message: pb.ClearFaultsResponse) -> Cleared:
    """What clearing faults did."""
    return Cleared(
        faults=tuple(unpack_fault(fault) for fault in message.cleared),
        links=tuple(message.links),
        began_at_ns=message.began_at_ns,
        applied_at_ns=message.applied_at_ns,
    )


def _pack_end(end: LinkEnd) -> pb.End:
    return pb.End(node=end.node, port=end.port, interface=end.interface)


def _unpack_end(message: pb.End) -> LinkEnd:
    return LinkEnd(message.node, message.port, message.interface)
