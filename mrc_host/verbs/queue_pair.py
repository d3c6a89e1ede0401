"""Queue pairs: one end of a connection, to which writes are posted.

MRC has no SEND. An arriving WRITE_WITH_IMM adds a completion to the receive completion queue whether or not a receive
was posted (docs/protocol.md §2); a posted one gives it its wr_id. Two applications connect by exchanging their
:class:`Endpoint` values, one line of text each, by whatever means they have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from mrc_host.errors import InvalidArgumentError, MrcError
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.errors import ClosedError
from mrc_host.verbs.memory import MemoryRegion, RemoteMemory
from mrc_host.verbs.provider import Provider
from mrc_host.verbs_types import (
    MAX_INLINE,
    MAX_SGE,
    PathInfo,
    QpAddress,
    QpCounters,
    QpInfo,
    QpState,
    QpType,
    WorkRequest,
    WrOpcode,
)

_ENDPOINT = re.compile(r"\[(?P<address>[0-9a-f:.]+)\]:(?P<qpn>[0-9]+)(?:@(?P<psn>[0-9]+))?(?:/(?P<memory>\S+))?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the ends exchange before they connect: a queue pair's address and perhaps a memory region.

    It is valid for one life of the queue pair: after a RESET the peer needs the new one. `str(endpoint)` is one word of
    text, `Endpoint.parse` its inverse.
    """

    qp: QpAddress
    memory: RemoteMemory | None = None

    def __str__(self) -> str:
        memory = f"/{self.memory}" if self.memory is not None else ""
        psn = f"@{self.qp.psn}" if self.qp.psn is not None else ""
        return f"[{IPv6Address(self.qp.address)}]:{self.qp.qpn}{psn}{memory}"

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """The endpoint that `text` (spaces around it are ignored) describes; raises MrcError if it is not one."""
        match = _ENDPOINT.fullmatch(text.strip())
        try:
            if match is None or int(match["qpn"]) >> 24 or int(match["psn"] or 0) >> 24:
                raise ValueError
            psn = None if match["psn"] is None else int(match["psn"])
            qp = QpAddress(IPv6Address(match["address"]).packed, int(match["qpn"]), psn)
        except ValueError:
            raise MrcError(f"{text!r} is not an endpoint ([NIC address]:QPN@PSN/address+length:rkey).") from None
        return cls(qp, RemoteMemory.parse(match["memory"]) if match["memory"] else None)


class QueuePair:
    """Created by `ProtectionDomain.create_qp`; connect it, then post writes. `qpn` is its 24-bit number on its NIC.

    Work requests complete in the order of posting. After the first failure the queue pair is in ERROR and everything
    posted later completes as FLUSHED; it can then only be reset or closed.
    """

    def __init__(
        self,
        provider: Provider,
        qpn: int,
        qp_type: QpType,
        queues: tuple[CompletionQueue, CompletionQueue],
        forget: Callable[[QueuePair], None],
    ) -> None:
        self.qpn = qpn
        self._address: QpAddress | None = None  # until it is needed, and after anything that may change it
        self.type = qp_type
        self.send_cq, self.recv_cq = queues
        self._provider = provider
        self._forget = forget
        self._closed = False

    @property
    def address(self) -> QpAddress:
        """What the peer needs to connect to this queue pair in its present life; a RESET changes the first PSN."""
        if self._address is None:
            self._check_open()
            self._address = self._provider.qp_address(self.qpn)
        return self._address

    def endpoint(self, memory: MemoryRegion | None = None) -> Endpoint:
        """What the peer needs: this queue pair, and `memory` if the peer is to write there."""
        return Endpoint(self.address, memory.remote if memory is not None else None)

    def connect(self, remote: QpAddress | Endpoint) -> None:
        """Make the queue pair ready to send (RTS) towards `remote`.

        Both ends connect, each to the other, in any order. Raises MrcError when the NIC knows no path to the
        remote NIC or the queue pair is connected already.
        """
        self._check_open()
        self._provider.connect_qp(self.qpn, remote.qp if isinstance(remote, Endpoint) else remote)

    def modify(
        self, state: QpState, *, remote: QpAddress | Endpoint | None = None, **changes: int | str | None
    ) -> None:
        """One step of RESET -> INIT -> RTR -> RTS, or from anywhere to ERROR or back to RESET.

        `remote` is given exactly for RTR. `changes` are attributes of :class:`QpAttributes` that belong to the step:
        `ev_profile`, `cc_profile`, `num_qps_per_peer`, `num_send_peers` and `num_remote_recv_peers` for INIT;
        `path_mtu`, `mpr`, `max_wimm`, `receive_psn`, `dynamic_mpr`, `trim_nack`, `udp_sport` and `planes` for RTR;
        `mpr_dest`, `max_wimm_dest`, `timeout`, `retry_count`, `congestion_window`, `active_paths`, `send_psn` and
        `trim_nack_dest` for RTS; and `remote_write` for any of these, as well as in INIT and RTS without a step
        (`state` is then the present one). RESET returns all of them to what they were at creation (docs/verbs.md). An
        error (StateError, InvalidArgumentError, UnknownDestinationError) changes nothing. See docs/protocol.md §11.1;
        :meth:`connect` does all three steps at once.
        """
        self._check_open()
        if state in (QpState.RESET, QpState.RTS):  # one ends the life, the other may set its first PSN
            self._address = None
        self._provider.modify_qp(self.qpn, state, changes, remote.qp if isinstance(remote, Endpoint) else remote)

    def post_write(
        self,
        mr: MemoryRegion,
        offset: int,
        length: int,
        remote_addr: int,
        rkey: int,
        *,
        wr_id: int = 0,
        imm: int | None = None,
        signaled: bool = True,
        solicited: bool = False,
    ) -> None:
        """Post one WRITE of `length` bytes (0..2**32-1) at `offset` of `mr`; with `imm` (32 bit) a WRITE_WITH_IMM.

        `wr_id` (64 bit) is returned in the completion. An unsignaled request completes silently unless it fails. A
        `solicited` WRITE_WITH_IMM notifies a peer that waits for these only (`CompletionQueue.req_notify`). Raises
        MrcError when the queue pair cannot take a request now or a value is out of range; the outcome of the request
        is in its completion.
        """
        self._check_open()
        request = WorkRequest(
            wr_id=wr_id,
            opcode=WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM,
            local_address=mr.info.address + offset,
            lkey=mr.info.lkey,
            length=length,
            remote_address=remote_addr,
            rkey=rkey,
            imm=imm,
            signaled=signaled,
            solicited=solicited,
        )
        check_request(request)
        self._provider.post_send(self.qpn, (request,))

    def write(
        self,
        mr: MemoryRegion,
        remote: RemoteMemory,
        *,
        offset: int = 0,
        remote_offset: int = 0,
        length: int | None = None,
        wr_id: int = 0,
        imm: int | None = None,
        signaled: bool = True,
        solicited: bool = False,
    ) -> None:
        """Post a write of `length` bytes from `mr` to `remote`, by default all that `mr` holds from `offset` on.

        Raises InvalidArgumentError when the bytes do not lie inside both regions. Otherwise like :meth:`post_write`.
        """
        if length is None:
            length = len(mr) - offset
        _check_range("the local region", offset, length, len(mr))
        _check_range("the remote region", remote_offset, length, remote.length)
        there = remote.address + remote_offset
        self.post_write(
            mr, offset, length, there, remote.rkey, wr_id=wr_id, imm=imm, signaled=signaled, solicited=solicited
        )

    def post_send(self, requests: Sequence[WorkRequest]) -> None:
        """Post many work requests at once, in order; cheaper than one by one.

        Raises as :meth:`post_write` does. A value that is out of range refuses them all; when there is no room for all
        of them the first ones are posted, and the error's `posted` says how many (verbs: `bad_wr` is the next).
        """
        self._check_open()
        for request in requests:
            check_request(request)
        self._provider.post_send(self.qpn, requests)

    def post_recv(self, *wr_ids: int) -> None:
        """Post receives: each arriving WRITE_WITH_IMM completes with the `wr_id` (64 bit) of the oldest one posted.

        None is needed, without one that wr_id is 0. When the queue pair goes to ERROR, is reset or closed, they
        complete as FLUSHED. At most 4096 are kept; beyond that ResourceExhaustedError, and none of `wr_ids` is posted.
        """
        self._check_open()
        self._provider.post_recv(self.qpn, wr_ids)

    @property
    def state(self) -> QpState:
        """State of the queue pair."""
        self._check_open()
        return self._provider.qp_state(self.qpn)

    def query(self) -> QpInfo:
        """The queue pair as it is now: attributes with the PSNs of this life, the other end, receives posted."""
        self._check_open()
        return self._provider.query_qp(self.qpn)

    def counters(self) -> QpCounters:
        """Packets and bytes since creation."""
        self._check_open()
        return self._provider.qp_counters(self.qpn)

    def hw_counters(self) -> Mapping[str, int]:
        """All counters and gauges of this queue pair by name (docs/counters.md)."""
        self._check_open()
        return self._provider.hw_counters(self.qpn)

    def paths(self) -> tuple[PathInfo, ...]:
        """Every path of this queue pair with its state (docs/protocol.md §3)."""
        self._check_open()
        return self._provider.qp_paths(self.qpn)

    def close(self) -> None:
        """Destroy the queue pair. Unfinished requests complete as FLUSHED. Closing twice does nothing."""
        if not self._closed:
            self._provider.destroy_qp(self.qpn)
            self.abandon()

    def abandon(self) -> None:
        """Mark the queue pair closed without a command to the NIC, because the whole context is being closed."""
        self._closed = True
        self._forget(self)

    def __enter__(self) -> QueuePair:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"QP {self.qpn:#x} is closed.")


def _check_range(what: str, offset: int, length: int, size: int) -> None:
    if offset < 0 or offset + length > size:
        raise InvalidArgumentError(
            f"A write of {length} bytes at {offset} does not fit {what}, which has {size} bytes."
        )


def check_request(request: WorkRequest) -> None:
    """InvalidArgumentError for a work request whose numbers do not fit their fields."""
    if not 0 <= request.length < 1 << 32:
        raise InvalidArgumentError(f"A write must have 0 to {(1 << 32) - 1} bytes, not {request.length}.")
    if not request.describes_its_bytes():
        raise InvalidArgumentError(
            f"Give `length` bytes in 2 to {MAX_SGE} pieces, or inline up to {MAX_INLINE}, but not in both ways."
        )
    if (request.imm is None) != (request.opcode is WrOpcode.WRITE):
        raise InvalidArgumentError("WRITE_WITH_IMM needs immediate data, and WRITE takes none.")
    fits = (
        0 <= request.wr_id < 1 << 64
        and 0 <= request.local_address < 1 << 64
        and 0 <= request.remote_address < 1 << 64
        and 0 <= request.lkey < 1 << 32
        and 0 <= request.rkey < 1 << 32
        and 0 <= (request.imm or 0) < 1 << 32
        and (
            not request.sges
            or all(0 <= piece.address < 1 << 64 and 0 <= piece.lkey < 1 << 32 for piece in request.sges)
        )
    )
    if not fits:
        raise InvalidArgumentError("wr_id and addresses are 64-bit, keys and immediate data 32-bit unsigned numbers.")
