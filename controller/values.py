"""What the controller tells about switches, links and faults; the same values on both sides of its service."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from topologies.fabric import LinkKind
from topologies.fault_entries import DataPlaneFault


class SwitchState(enum.Enum):
    """How far the controller is with a switch."""

    CONNECTING = "connecting"
    PROGRAMMING = "programming"
    VERIFIED = "verified"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SwitchStatus:
    """One switch: its state, how many entries it should hold, how many were repaired last, what is wrong."""

    name: str
    state: SwitchState
    entries: int
    repaired: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """All switches of a fabric; `ready` when every one of them is verified."""

    fabric: str
    ready: bool
    switches: tuple[SwitchStatus, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, a sentence each."""
        return tuple(problem for switch in self.switches for problem in switch.problems)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Packets and bytes of one direction of a link since it was made."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of a link: node, port, and the interface that is that port."""

    node: str
    port: int
    interface: str


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """A link: what it joins, whether both its ends are up, its traffic and the ids of the faults on it.

    `lower` is the NIC's end, or the T0's end of a T0-T1 link; `upward` traffic goes from there, `downward` towards it.
    `read_at_ns` is CLOCK_MONOTONIC when the kernel was asked.
    """

    name: str
    kind: LinkKind
    plane: int
    lower: LinkEnd
    upper: LinkEnd
    rate_bps: int
    up: bool
    upward: Traffic
    downward: Traffic
    fault_ids: tuple[str, ...]
    read_at_ns: int


class FaultKind(enum.Enum):
    """What is done: to links by the kernel (LINK_DOWN), or by the P4 program (``topologies.fault_entries``)."""

    LINK_DOWN = "link_down"
    LOSS = "loss"
    CORRUPTION = "corruption"
    SWITCH_SILENT = "switch_silent"
    PATH_LOSS = "path_loss"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault on the links, switches or paths that `pattern` matched.

    `began_at_ns` and `applied_at_ns` are CLOCK_MONOTONIC before the first and after the last change. A fault that
    the P4 program makes has its figures in `effect` and is in the tables of `switches`.
    """

    id: str
    kind: FaultKind
    pattern: str
    links: tuple[str, ...]
    owner: str
    began_at_ns: int
    applied_at_ns: int
    effect: DataPlaneFault | None = None
    switches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cleared:
    """Outcome of clearing faults: which are gone, and which links were taken up, when (as in :class:`Fault`)."""

    faults: tuple[Fault, ...]
    links: tuple[str, ...]
    began_at_ns: int
    applied_at_ns: int
