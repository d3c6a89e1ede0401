"""The queue pairs of one NIC, by QPN: how they are made, numbered, led through their states, and removed.

QPNs are random, so that they cannot be guessed, and not reused while packets for a queue pair that was destroyed may
still arrive. What a queue pair does in each state is in ``qp``, ``mrc`` and ``roce``; which transition takes which
attributes, in ``states``.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mrc_host.config import EvFormat
from mrc_host.errors import (
    InvalidArgumentError,
    MrcError,
    NotFoundError,
    StateError,
    UnknownDestinationError,
)
from mrc_host.transport import algorithms, states
from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.completion_queue_table import CompletionQueueTable
from mrc_host.transport.mrc_queue_pair import MrcQueuePair
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.path_policy import MrcPaths
from mrc_host.transport.peer import Peer
from mrc_host.transport.peer_table import PeerTable
from mrc_host.transport.qp import NicQueuePair, QueuePairCreation, check_attributes
from mrc_host.transport.roce.go_back_n_qp import RcQueuePair
from mrc_host.transport.roce.selective_qp import SelectiveQueuePair
from mrc_host.transport.uet import EntropyOnly
from mrc_host.verbs_types import CompletionStatus, QpAddress, QpAttributes, QpState, QpType
from mrc_host.wire.encap import SRH_LENGTH

_FIRST_QPN: Final = 16  # lower numbers are reserved
_QPNS: Final = (1 << 24) - _FIRST_QPN
_FREED_AT_ONCE: Final = 4  # retired numbers that may be free again: each destroyed queue pair frees this many


class QueuePairTable:
    """Its commands are those of ``Nic``, which describes them and the errors that they raise."""

    __slots__ = (
        "_cqs",
        "_nic",
        "_peers",
        "_profile_users",
        "_retired",
        "_retired_until",
        "_shift",
        "_tried",
        "by_qpn",
    )

    def __init__(self, nic: NicContext, peers: PeerTable, cqs: CompletionQueueTable, incarnation: int) -> None:
        self._nic = nic
        self._peers = peers
        self._cqs = cqs
        self._shift = random.Random(incarnation).getrandbits(24) if incarnation else 0
        self._retired: set[int] = set()  # QPNs of destroyed queue pairs that are not reused yet
        self._retired_until: deque[tuple[int, int]] = deque()  # until when, and which
        self._profile_users: dict[int | str, int] = {}  # queue pairs of each EV profile and congestion control
        self._tried: dict[str, Algorithm] = {}  # congestion controls of which a controller was created
        self.by_qpn: dict[int, NicQueuePair] = {}

    def get(self, qpn: int) -> NicQueuePair:
        """The queue pair with this number; NotFoundError."""
        qp = self.by_qpn.get(qpn)
        if qp is None:
            raise NotFoundError(f"NIC {self._nic.config.name} has no queue pair {qpn:#x}.")
        return qp

    def uses_profile(self, profile: int | str) -> bool:
        """Whether any queue pair has this EV profile or congestion control profile, or would after a RESET."""
        return profile in self._profile_users

    def _count_profiles(self, attributes: QpAttributes, change: int) -> None:
        """A queue pair has these attributes now, or after a RESET (`change` is 1), or no longer (-1)."""
        users = self._profile_users
        for profile in (attributes.ev_profile, attributes.cc_profile):
            left = users.get(profile, 0) + change
            if left:
                users[profile] = left
            else:
                del users[profile]

    def connections(self) -> list[tuple[bytes, int, int]]:
        """Peer's address, remote and local QPN of every connected queue pair."""
        return [(qp.peer.address, qp.remote_qpn, qp.qpn) for qp in self.by_qpn.values() if qp.peer is not None]

    def payload_mtu(self) -> int:
        """The MTU without what the EV format adds to each packet."""
        config = self._nic.config
        return config.mtu - (SRH_LENGTH if config.settings.ev_format is EvFormat.SRV6_SRH else 0)

    # ---- creation and removal -----------------------------------------------------------------------------------

    def create(self, pd: int, qp_type: QpType, send_cq: int, recv_cq: int, attributes: QpAttributes) -> int:
        """A new queue pair in RESET; its QPN (``Nic.create_qp``)."""
        if pd < 0:
            raise InvalidArgumentError(f"Protection domain {pd} is negative.")
        self._check_attributes(attributes, qp_type)
        sends, receives = self._cqs.get(send_cq), self._cqs.get(recv_cq)
        self._cqs.check_room(sends)
        self._cqs.check_room(receives)
        qpn = self._draw_qpn()
        while qpn in self.by_qpn or qpn in self._retired:
            qpn = self._draw_qpn()
        creation = QueuePairCreation(self._nic, qp_type, qpn, pd, sends, receives, attributes)
        made: NicQueuePair
        if qp_type.source_routed:
            made = MrcQueuePair(creation, EntropyOnly() if qp_type is QpType.UET else MrcPaths())
        elif qp_type is QpType.RC:
            made = RcQueuePair(creation)
        else:
            made = SelectiveQueuePair(creation)
        self.by_qpn[qpn] = made
        for each in (made.initial, made.attributes):
            self._count_profiles(each, 1)
        sends.users += 1
        receives.users += 1
        return qpn

    def _draw_qpn(self) -> int:
        return _FIRST_QPN + (self._nic.rng.randrange(_QPNS) + self._shift) % _QPNS

    def destroy(self, qpn: int, now: int) -> NicQueuePair:
        """Remove a queue pair, and return what is left of it (``Nic.destroy_qp``)."""
        qp = self.get(qpn)
        self._nic.now = now
        del self.by_qpn[qpn]
        for each in (qp.initial, qp.attributes):
            self._count_profiles(each, -1)
        qp.destroy(now)
        self._retire(qpn, now)
        self._trace_state(qp, now, "destroyed")
        qp.send_cq.users -= 1
        qp.recv_cq.users -= 1
        return qp

    def _retire(self, qpn: int, now: int) -> None:
        """Packets for a destroyed queue pair may still arrive: do not reuse its number for a packet lifetime."""
        retired = self._retired_until
        for _ in range(_FREED_AT_ONCE):
            if not retired or retired[0][0] > now:
                break
            self._retired.discard(retired.popleft()[1])
        self._retired.add(qpn)
        retired.append((now + self._nic.transport.packet_lifetime, qpn))

    # ---- states -------------------------------------------------------------------------------------------------

    def connect(self, qpn: int, remote: QpAddress, now: int) -> None:
        """From RESET or INIT to RTS (``Nic.connect_qp``)."""
        qp = self.get(qpn)
        if qp.state not in (QpState.RESET, QpState.INIT):
            raise StateError(f"Queue pair {qpn:#x} is in {qp.state.name}; only in RESET or INIT can it be connected.")
        state, life = qp.state, qp.life
        if state is QpState.RESET:
            self.modify(qpn, QpState.INIT, now)
        try:
            self.modify(qpn, QpState.RTR, now, remote=remote)
            self.modify(qpn, QpState.RTS, now)
        except MrcError:
            qp.step_back(state, life)
            self._trace_state(qp, now)
            raise

    def modify(
        self,
        qpn: int,
        state: QpState,
        now: int,
        changes: Mapping[str, Any] | None = None,
        *,
        remote: QpAddress | None = None,
    ) -> None:
        """One transition (``Nic.modify_qp``)."""
        qp = self.get(qpn)
        attributes = states.changed(qp.attributes, qp.state, state, changes or {}, remote is not None)
        if attributes is not qp.attributes:
            self._check_attributes(attributes, qp.kind)
        peer = None if remote is None else self._known_peer(remote.address, attributes.planes)
        self._nic.now = now
        self._nic.scheduler.input_begins()
        before = qp.life
        if attributes is not before.attributes:
            qp.life = replace(before, attributes=attributes)
        try:
            if peer is not None and remote is not None:
                qp.to_rtr(peer, remote, now)
            elif state is qp.state and state in (QpState.INIT, QpState.RTS):
                return  # an attribute alone has changed, one that no profile depends on
            elif state is QpState.RTS:
                qp.to_rts(now)
            elif state is QpState.RESET:
                qp.reset(now)
            elif state is QpState.ERROR:
                qp.enter_error(CompletionStatus.FLUSHED, "The application put the queue pair into ERROR.", now)
            else:
                qp.state = state
        except MrcError:
            qp.life = before
            raise
        if qp.attributes is not before.attributes:
            self._count_profiles(before.attributes, -1)
            self._count_profiles(qp.attributes, 1)
        self._trace_state(qp, now)

    def flush(self, qpn: int, now: int) -> None:
        """Put a queue pair into ERROR without an event (``Nic.flush_qp``)."""
        qp = self.get(qpn)
        self._nic.now = now
        self._nic.scheduler.input_begins()
        if qp.state is not QpState.ERROR:
            qp.end_requests(CompletionStatus.FLUSHED, "The application ends this life of the queue pair.", now)
            self._trace_state(qp, now)

    def _check_attributes(self, attributes: QpAttributes, kind: QpType) -> None:
        nic = self._nic
        check_attributes(attributes, self.payload_mtu())
        algorithms.check(nic.algorithms, attributes, nic.transport, kind.source_routed, self._tried)
        if attributes.ev_profile and attributes.ev_profile not in nic.ev_profiles:
            raise NotFoundError(f"NIC {nic.config.name} has no EV profile {attributes.ev_profile}.")

    def _known_peer(self, address: bytes, planes: int) -> Peer:
        peer = self._peers.get(address)
        if peer is None or not peer.paths.planes:
            raise UnknownDestinationError(
                f"NIC {self._nic.config.name} knows no paths to {address.hex(':', 2)}; add it to its destinations."
            )
        if not peer.paths.planes & planes:
            raise UnknownDestinationError(
                f"NIC {self._nic.config.name} knows no paths to {address.hex(':', 2)} in the planes {planes:#b}."
            )
        return peer

    def _trace_state(self, qp: NicQueuePair, now: int, state: str = "") -> None:
        trace = self._nic.trace
        if trace is not None:
            trace.connections_changed()
            peer = "" if qp.peer is None else qp.peer.destination.name
            trace.state(qp.qpn, state or qp.state.value, peer, qp.remote_qpn, now)
