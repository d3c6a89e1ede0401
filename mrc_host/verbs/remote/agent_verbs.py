"""The verbs that only an agent has, declared like those of every NIC (:mod:`mrc_host.verbs.nic_verbs`).

They are those that its clients' providers are built on (memory, completion queues, events), and those that report on
the clients themselves. :data:`VERBS` is everything that a client may request.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from mrc_common.delays import PortDelays
from mrc_host.driver.nic_port import PortStatus
from mrc_host.verbs.declaration import (
    U62,
    U64,
    Caller,
    Descriptor,
    IntegerRange,
    Length,
    OwnPd,
    OwnQp,
    declared_by,
    verb,
)
from mrc_host.verbs.nic_verbs import NicVerbs
from mrc_host.verbs.remote.control_api_verbs import ControlApiVerbs
from mrc_host.verbs_types import Access, MemoryRegionInfo, QpCounters, QpState, QpType

MAX_REGION = 1 << 40

Fd = Annotated[int, Descriptor()]


class EventScope(enum.Enum):
    """Which asynchronous events a client gets: of the NIC's ports and its own queue pairs, or of all queue pairs."""

    NONE = ""
    OWN = "own"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class NamedNic:
    """A NIC to which there are paths: its name and address."""

    name: str
    address: bytes


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """The NIC's name and address, its destinations, and the agent's process id."""

    name: str
    address: bytes
    pid: int
    destinations: tuple[NamedNic, ...]


@dataclass(frozen=True, slots=True)
class QueuePairInfo:
    """A queue pair: its owner, its remote end (``NIC:QPN``, or nothing), state and counters."""

    qpn: int
    client: str
    type: QpType
    remote: str
    state: QpState
    counters: QpCounters


class AgentVerbs(NicVerbs, ControlApiVerbs):
    """The verbs of a NIC's agent."""

    @verb()
    def register_memory(
        self,
        pd: OwnPd,
        length: Annotated[int, IntegerRange(1, MAX_REGION)],
        access: Access,
        fd: Fd,
        offset: U62 = 0,
        address: U64 | None = None,
    ) -> MemoryRegionInfo:
        """Map `length` bytes at `offset` of the memfd `fd`, which is sealed against shrinking, and register them.

        `address` is that of the first byte in work requests (verbs: iova), None for one that the NIC chooses. One memfd
        may be registered several times, also with ranges that overlap.
        """

    @verb()
    def create_cq(self, capacity: Annotated[int, IntegerRange(1, 1 << 31)]) -> int:
        """Number of a new completion queue."""

    @verb()
    def posts_waiting(self, qpn: OwnQp | None = None) -> Mapping[int, int]:
        """How many posts wait in the agent for room in the NIC, by QPN: of `qpn`, or of all that have any."""

    @verb()
    def completions_waiting(self, qpn: OwnQp) -> int:
        """How many completions of a queue pair have not been sent yet: after a RESET, all are of earlier lives."""

    @verb()
    def info(self) -> AgentInfo:
        """Who the NIC and its agent are."""

    @verb()
    def ports(self) -> tuple[PortStatus, ...]:
        """State and counters of the NIC's ports."""

    @verb()
    def delays(self, measure: bool | None = None) -> tuple[PortDelays, ...]:
        """How long the machine delayed frames at the NIC's ports, as far as measured.

        `measure`, for the controller only, turns measuring on or off for all clients; it is off at first.
        """

    @verb()
    def qps(self) -> tuple[QueuePairInfo, ...]:
        """All queue pairs of all clients."""

    @verb()
    def events(self, since: U62) -> tuple[Mapping[str, Any], ...]:
        """Recent asynchronous events with numbers above `since` (0: all that are kept), as in EVENT messages."""

    @verb()
    def subscribe(self, scope: EventScope) -> None:
        """Subscribe to events; ALL is for the controller only."""

    @verb(caller=Caller.CONTROLLER)
    def trace(self, path: Annotated[str, Length(0, 4096, "characters")] | None = None, fd: Fd | None = None) -> str:
        """Write the event trace to the descriptor sent along from now on; `path` is the name of its file.

        An empty `path` ends the trace; without `path` nothing changes. The agent never opens a file that a client
        names. Returns where the trace goes now, "" for nowhere.
        """


VERBS = declared_by(AgentVerbs)
"""All verbs of an agent, by name."""
