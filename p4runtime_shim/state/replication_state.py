"""Multicast groups and clone sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from p4runtime_shim import limits
from p4runtime_shim.ctypes_bindings import SwReplica
from p4runtime_shim.entities import CloneSession, Replica
from p4runtime_shim.errors import InvalidArgument, NotFound, ResourceExhausted
from p4runtime_shim.state.loaded_switch import LoadedSwitch, locked

MAX_REPLICAS = 512
_MAX_GROUP = 0xFFFF
_MAX_SESSION = 0x7FFF


class ReplicationState:
    """The multicast groups and clone sessions of one switch."""

    def __init__(self, switch: LoadedSwitch) -> None:
        self.switch = switch
        self.groups: dict[int, tuple[Replica, ...]] = {}
        self.sessions: dict[int, CloneSession] = {}
        self._counts: dict[tuple[bool, int], int] = {}  # replicas, by kind and number
        self._total = 0

    @locked
    def group_set(self, group: int, replicas: Sequence[Replica]) -> None:
        """Create or replace a multicast group (1..65535)."""
        if not 1 <= group <= _MAX_GROUP:
            raise InvalidArgument(f"multicast groups are 1..{_MAX_GROUP}, not {group}")
        self._set(False, group, replicas, 0)
        self.groups[group] = tuple(replicas)

    @locked
    def group_delete(self, group: int) -> None:
        """Delete a multicast group."""
        if group not in self.groups:
            raise NotFound(f"there is no multicast group {group}")
        self.switch.library.sw_ctl_replicas_delete(self.switch.handle, 0, group)
        self._total -= self._counts.pop((False, group))
        del self.groups[group]

    @locked
    def session_set(self, session: int, config: CloneSession) -> None:
        """Create or replace a clone session (0..32767)."""
        if not 0 <= session <= _MAX_SESSION:
            raise InvalidArgument(f"clone sessions are 0..{_MAX_SESSION}, not {session}")
        if config.max_length < 0:
            raise InvalidArgument("the length of clones cannot be negative")
        self._set(True, session, config.replicas, config.max_length)
        self.sessions[session] = config

    @locked
    def session_delete(self, session: int) -> None:
        """Delete a clone session."""
        if session not in self.sessions:
            raise NotFound(f"there is no clone session {session}")
        self.switch.library.sw_ctl_replicas_delete(self.switch.handle, 1, session)
        self._total -= self._counts.pop((True, session))
        del self.sessions[session]

    def _set(self, session: bool, number: int, replicas: Sequence[Replica], cut: int) -> None:
        cells = [cell for item in replicas for cell in _with_backups(item)]
        if len(cells) > MAX_REPLICAS:
            raise ResourceExhausted(f"{len(cells)} replicas, backups included; at most {MAX_REPLICAS} are allowed")
        before = self._counts.get((session, number), 0)
        if self._total - before + len(cells) > limits.MAX_REPLICAS:
            raise ResourceExhausted(f"all groups and sessions of a switch can have {limits.MAX_REPLICAS} replicas")
        array = (SwReplica * max(1, len(cells)))(*cells)
        if self.switch.library.sw_ctl_replicas(self.switch.handle, int(session), number, len(cells), array, cut):
            raise ResourceExhausted("out of memory")
        self._total += len(cells) - before
        self._counts[session, number] = len(cells)


def _with_backups(replica: Replica) -> Iterator[SwReplica]:
    """A replica for the engine, followed by its backups."""
    for item in (replica, *replica.backups):
        if not 0 <= item.port <= 510 or not 0 <= item.instance <= 0xFFFF:
            raise InvalidArgument(f"replica {item} is out of range (ports 0..510, instances 0..65535)")
        if item is not replica and item.backups:
            raise InvalidArgument(f"replica {replica}: a backup has no backups of its own")
        yield SwReplica(item.port, item.instance, len(item.backups))
