"""Arbitration between primary and backup clients (P4Runtime spec, "Client Arbitration and Controller Replication").

For each device and role, the client with the highest election id ever seen is primary, as long as its stream is open.
This is pure bookkeeping: it uses only `Session.send` of a stream, and runs in one thread, so a write is never in flight
while the primary changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from finsy.proto import p4r, rpc_code, rpc_status

from p4runtime_shim import limits
from p4runtime_shim.server.rpc_errors import denied, exhausted, invalid, not_found, precondition

MAX_SESSIONS_PER_ROLE = 64

ElectionId = tuple[int, int]
"""High and low 64 bits, in comparison order."""


class Session(Protocol):
    """The stream of one client."""

    def send(self, message: p4r.StreamMessageResponse) -> None:
        """Queue a message."""
        ...


@dataclass(slots=True)
class _Role:
    """One role: open sessions with their election ids (None: never primary), the highest id seen, the primary."""

    message: p4r.Role | None
    sessions: dict[int, tuple[Session, ElectionId | None]] = field(default_factory=dict)
    highest: ElectionId | None = None
    primary: Session | None = None


class Arbitration:
    """Roles and sessions of one device."""

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._roles: dict[str, _Role] = {}
        self._role_of: dict[int, str] = {}

    def update(self, session: Session, message: p4r.MasterArbitrationUpdate) -> bool:
        """Handle a MasterArbitrationUpdate and notify clients; returns true if the primary changed.

        An error (RpcError) ends the stream.
        """
        if message.role.HasField("config"):
            raise invalid("role configurations are not supported; leave role.config unset for full access")
        name = message.role.name
        role = self._join(session, message)
        election = _election(message.election_id) if message.HasField("election_id") else None
        for other, used in role.sessions.values():
            if election is not None and used == election and other is not session:
                raise invalid(f"election id {_show(election)} is already used by another client of role {name!r}")
        role.sessions[id(session)] = (session, election)
        self._role_of[id(session)] = name
        return self._elect(role, session, election)

    def leave(self, session: Session) -> bool:
        """The stream has closed; returns true if its client was primary."""
        name = self._role_of.pop(id(session), None)
        if name is None:
            return False
        role = self._roles[name]
        del role.sessions[id(session)]
        if not role.sessions:
            self._roles[name] = self._roles.pop(name)  # becomes the most recent role without clients
        if role.primary is not session:
            return False
        role.primary = None
        self._notify_all(role)
        return True

    def check_write(self, role_name: str, election_id: p4r.Uint128 | None) -> None:
        """Raise RpcError unless the client is the primary of its role."""
        role = self._roles.get(role_name)
        if role is None:
            if role_name:
                raise not_found(f"device {self._device_id} has no role {role_name!r}")
            raise denied("no client is primary; open a StreamChannel and send a MasterArbitrationUpdate first")
        if role.primary is None or election_id is None or _election(election_id) != role.highest:
            raise denied(f"not the primary client of role {role_name!r}" if role_name else "not the primary client")

    def knows(self, session: Session) -> bool:
        """Whether the session has taken part in an election."""
        return id(session) in self._role_of

    @property
    def sessions(self) -> int:
        """Number of sessions, in all roles."""
        return len(self._role_of)

    def is_primary(self, session: Session) -> bool:
        """Whether the session's client is the primary of its role."""
        name = self._role_of.get(id(session))
        return name is not None and self._roles[name].primary is session

    def primaries(self) -> Iterator[Session]:
        """The primary of every role; each has full access, so each gets packets and digests."""
        for role in self._roles.values():
            if role.primary is not None:
                yield role.primary

    def _make_room(self, name: str) -> None:
        """Make room for a new role: forget the one that has been without clients longest, with its highest id."""
        if len(name) > limits.MAX_ROLE_NAME:
            raise invalid(f"the role's name has {len(name)} characters; the maximum is {limits.MAX_ROLE_NAME}")
        if len(self._roles) < limits.MAX_ROLES:
            return
        for other, role in self._roles.items():
            if other and not role.sessions:
                del self._roles[other]
                return
        raise exhausted(f"device {self._device_id} already has {limits.MAX_ROLES} roles with clients")

    def _join(self, session: Session, message: p4r.MasterArbitrationUpdate) -> _Role:
        name = message.role.name
        current = self._role_of.get(id(session))
        if current is not None:
            if message.device_id != self._device_id:
                raise precondition(f"this stream belongs to device {self._device_id}, not {message.device_id}")
            if current != name:
                raise precondition(f"this stream has role {current!r}; open another one for role {name!r}")
        if name not in self._roles:
            self._make_room(name)
        role = self._roles.setdefault(name, _Role(message.role if message.HasField("role") else None))
        if current is None and len(role.sessions) >= MAX_SESSIONS_PER_ROLE:
            raise exhausted(f"role {name!r} already has {MAX_SESSIONS_PER_ROLE} clients")
        return role

    def _elect(self, role: _Role, session: Session, election: ElectionId | None) -> bool:
        before = role.primary
        if election is not None and (role.highest is None or election >= role.highest):
            role.highest, role.primary = election, session
            for other, _ in role.sessions.values():
                if other is not session:
                    self._notify(role, other)
            self._notify(role, session)  # last, once it may write
        elif before is session:
            role.primary = None
            self._notify_all(role)
        else:
            self._notify(role, session)
        return role.primary is not before

    def _notify_all(self, role: _Role) -> None:
        for session, _ in role.sessions.values():
            self._notify(role, session)

    def _notify(self, role: _Role, session: Session) -> None:
        message = p4r.MasterArbitrationUpdate(device_id=self._device_id)
        if role.message is not None:
            message.role.CopyFrom(role.message)
        if role.highest is not None:
            message.election_id.high, message.election_id.low = role.highest
        message.status.CopyFrom(_status(role, session))
        session.send(p4r.StreamMessageResponse(arbitration=message))


def _status(role: _Role, session: Session) -> rpc_status.Status:
    if role.primary is session:
        return rpc_status.Status(code=rpc_code.OK, message="you are primary")
    if role.primary is not None:
        return rpc_status.Status(code=rpc_code.ALREADY_EXISTS, message="another client is primary")
    return rpc_status.Status(code=rpc_code.NOT_FOUND, message="no client is primary")


def _election(message: p4r.Uint128) -> ElectionId:
    return message.high, message.low


def _show(election: ElectionId) -> str:
    return str(election[0] << 64 | election[1])
