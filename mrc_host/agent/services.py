"""What operations use of the agent that carries them out: its NIC, what it knows of its clients, and its trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mrc_host.agent.denials import Denials
from mrc_host.agent.session import Session
from mrc_host.driver.delays import PortDelays
from mrc_host.driver.nic_driver import PortStatus

if TYPE_CHECKING:
    from mrc_host.nic import Nic


class AgentServices(Protocol):
    """The agent, as operations see it."""

    nic: Nic
    clock: Callable[[], int]
    ports: Callable[[], tuple[PortStatus, ...]]
    delays: Callable[[], tuple[PortDelays, ...]]
    measure_delays: Callable[[bool], None]
    owners: dict[int, Session]
    """Of completion queues."""
    probing_session: Session | None
    """For whom the NIC sends path probes."""
    denials: Denials
    recent_events: deque[dict[str, Any]]
    control_path: Path

    @property
    def sessions(self) -> tuple[Session, ...]:
        """All connected clients."""

    @property
    def trace_path(self) -> str:
        """Where the event trace is being written; empty when it is off."""

    def next_pd(self) -> int:
        """A protection domain number never used before."""

    def destination_name(self, address: bytes) -> str:
        """Name of a peer NIC, its address if it has none here."""

    def trace_to(self, path: str | Path, fd: int | None = None) -> None:
        """Write the NIC's event trace to `path`, or end it. TraceError when the file cannot be made."""
