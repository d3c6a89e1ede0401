"""Multicast groups and clone sessions (P4Runtime spec, "PacketReplicationEngineEntry").

Ports are data plane port numbers, since p4c's v1model programs have no port translation. A replica's port may be a
number (before P4Runtime 1.4) or a byte string; each entry is read back in the form in which it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from finsy.proto import p4r

from p4runtime_shim.entities import CloneSession, Replica
from p4runtime_shim.server import bytestrings
from p4runtime_shim.server.budget import ReadBudget
from p4runtime_shim.server.rpc_errors import exists, invalid, not_found, unimplemented
from p4runtime_shim.server.switch_interface import ControlPlaneInterface
from p4runtime_shim.server.undo_log import UndoLog

_PORT_WIDTH = 9
_MAX_GROUP = 0xFFFF  # mcast_grp and egress_rid are bit<16> in v1model
_MAX_INSTANCE = 0xFFFF
_MAX_SESSION = 0x7FFF  # BMv2's limit on mirror session ids


class ReplicationEntries:
    """The multicast groups and clone sessions of one switch, as written."""

    def __init__(self, control_plane: ControlPlaneInterface) -> None:
        self._control_plane = control_plane
        self._groups: dict[int, p4r.MulticastGroupEntry] = {}
        self._sessions: dict[int, p4r.CloneSessionEntry] = {}

    def write(self, update: int, message: p4r.PacketReplicationEngineEntry, undo_log: UndoLog | None) -> None:
        """INSERT, MODIFY or DELETE of a group or session."""
        kind = message.WhichOneof("type")
        if kind == "multicast_group_entry":
            self._write_group(update, message.multicast_group_entry, undo_log)
        elif kind == "clone_session_entry":
            self._write_session(update, message.clone_session_entry, undo_log)
        else:
            raise invalid("a packet replication entry is neither a multicast group nor a clone session")

    def read(
        self, message: p4r.PacketReplicationEngineEntry, budget: ReadBudget
    ) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """One group or session, or all of its kind; all of both when the kind is unset."""
        kind = message.WhichOneof("type")
        groups: list[p4r.MulticastGroupEntry] = []
        sessions: list[p4r.CloneSessionEntry] = []
        if kind in (None, "multicast_group_entry"):
            wanted = message.multicast_group_entry.multicast_group_id
            groups = [group for id_, group in sorted(self._groups.items()) if wanted in (0, id_)]
        if kind in (None, "clone_session_entry"):
            wanted = message.clone_session_entry.session_id
            sessions = [session for id_, session in sorted(self._sessions.items()) if wanted in (0, id_)]
        budget.take(len(groups) + len(sessions), "packet replication")
        return chain(
            (p4r.PacketReplicationEngineEntry(multicast_group_entry=group) for group in groups),
            (p4r.PacketReplicationEngineEntry(clone_session_entry=session) for session in sessions),
        )

    def _write_group(self, update: int, message: p4r.MulticastGroupEntry, undo_log: UndoLog | None) -> None:
        id_ = message.multicast_group_id
        if not 0 < id_ <= _MAX_GROUP:
            raise invalid(f"multicast group id {id_} is not in 1..{_MAX_GROUP}")
        old = self._groups.get(id_)
        _check_presence(update, old is not None, f"multicast group {id_}")
        if update == p4r.Update.DELETE:
            self._put_group(id_, None)
        else:
            _replicas(message.replicas, f"multicast group {id_}")
            self._put_group(id_, message)
        if undo_log is not None:
            undo_log.append(lambda: self._put_group(id_, old))

    def _put_group(self, id_: int, message: p4r.MulticastGroupEntry | None) -> None:
        if message is None:
            self._control_plane.replication.group_delete(id_)
            self._groups.pop(id_, None)
            return
        self._control_plane.replication.group_set(id_, _replicas(message.replicas, f"multicast group {id_}"))
        self._groups[id_] = p4r.MulticastGroupEntry()
        self._groups[id_].CopyFrom(message)
        _make_canonical(self._groups[id_].replicas)

    def _write_session(self, update: int, message: p4r.CloneSessionEntry, undo_log: UndoLog | None) -> None:
        id_ = message.session_id
        if not 0 < id_ <= _MAX_SESSION:
            raise invalid(f"clone session id {id_} is not in 1..{_MAX_SESSION}")
        old = self._sessions.get(id_)
        _check_presence(update, old is not None, f"clone session {id_}")
        if update == p4r.Update.DELETE:
            self._put_session(id_, None)
        else:
            _session(message)
            self._put_session(id_, message)
        if undo_log is not None:
            undo_log.append(lambda: self._put_session(id_, old))

    def _put_session(self, id_: int, message: p4r.CloneSessionEntry | None) -> None:
        if message is None:
            self._control_plane.replication.session_delete(id_)
            self._sessions.pop(id_, None)
            return
        self._control_plane.replication.session_set(id_, _session(message))
        self._sessions[id_] = p4r.CloneSessionEntry()
        self._sessions[id_].CopyFrom(message)
        _make_canonical(self._sessions[id_].replicas)


def _check_presence(update: int, present: bool, what: str) -> None:
    if update == p4r.Update.INSERT and present:
        raise exists(f"{what} already exists")
    if update != p4r.Update.INSERT and not present:
        raise not_found(f"there is no {what}")


def _session(message: p4r.CloneSessionEntry) -> CloneSession:
    what = f"clone session {message.session_id}"
    if message.class_of_service:
        raise unimplemented(f"{what}: the embedded switch has no class of service for clones")
    if message.packet_length_bytes < 0:
        raise invalid(f"{what}: packet length {message.packet_length_bytes} is negative")
    return CloneSession(_replicas(message.replicas, what), message.packet_length_bytes)


def _replicas(messages: Iterable[p4r.Replica], what: str) -> tuple[Replica, ...]:
    replicas = tuple(_replica(message, what) for message in messages)
    places = [(item.port, item.instance) for replica in replicas for item in (replica, *replica.backups)]
    if len(set(places)) != len(places):
        raise invalid(f"{what}: a replica is given twice (the same port and instance)")
    return replicas


def _make_canonical(messages: Iterable[p4r.Replica]) -> None:
    for message in messages:
        if message.port:
            message.port = bytestrings.shortest(message.port)
        for backup in message.backup_replicas:
            backup.port = bytestrings.shortest(backup.port)


def _replica(message: p4r.Replica, what: str) -> Replica:
    kind = message.WhichOneof("port_kind")
    if kind is None:
        raise invalid(f"{what}: a replica has no port")
    port = message.egress_port
    if kind == "port":
        port = bytestrings.decode(message.port, _PORT_WIDTH, f"{what}: port")
    return _place(port, message.instance, what, tuple(_backup(item, port, what) for item in message.backup_replicas))


def _backup(message: p4r.BackupReplica, of_port: int, what: str) -> Replica:
    port = bytestrings.decode(message.port, _PORT_WIDTH, f"{what}: port of a backup")
    if port == of_port:
        raise invalid(f"{what}: a replica and its backup have the same port {port}")
    return _place(port, message.instance, what, ())


def _place(port: int, instance: int, what: str, backups: tuple[Replica, ...]) -> Replica:
    if port >> _PORT_WIDTH:
        raise invalid(f"{what}: port {port} does not fit in {_PORT_WIDTH} bits")
    if instance > _MAX_INSTANCE:
        raise invalid(f"{what}: instance {instance} is above {_MAX_INSTANCE}")
    return Replica(port, instance, backups)
