"""The send queue of a queue pair: requests from posting to completion, in order, exactly once.

A request waits until its first packet is sent, then is *outstanding* until the peer's transport ACK covers it. Both
transports use this queue; they differ in how they send the packets.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mrc_host.errors import InvalidArgumentError, ResourceExhaustedError
from mrc_host.transport.completion import NicCompletionQueue
from mrc_host.transport.gather_list import GatherList
from mrc_host.transport.memory import NOTHING, MemoryTable
from mrc_host.verbs_types import (
    MAX_INLINE,
    MAX_SGE,
    Completion,
    CompletionOpcode,
    CompletionStatus,
    WorkRequest,
    WrOpcode,
)

if TYPE_CHECKING:
    from mrc_host.datapath import native

MAX_LENGTH = (1 << 32) - 1


class Wqe:
    """One request in the queue. `view` is None if its local range is not valid."""

    __slots__ = (
        "address",
        "first_psn",
        "imm",
        "last_psn",
        "length",
        "message",
        "msn",
        "offset",
        "pieces",
        "rkey",
        "rqmsn",
        "signaled",
        "solicited",
        "view",
        "with_imm",
        "wr_id",
    )

    def __init__(self, request: WorkRequest, view: memoryview | None) -> None:
        self.wr_id = request.wr_id
        self.view = view
        self.pieces: GatherList | None = None  # of a gather list, in place of `view`
        self.length = request.length
        self.address = request.remote_address
        self.rkey = request.rkey
        self.with_imm = request.imm is not None
        self.imm = request.imm or 0
        self.signaled = request.signaled
        self.solicited = request.solicited
        self.offset = 0  # bytes segmented so far
        self.msn = 0
        self.rqmsn = 0
        self.message: native.Message | None = None  # the same request, as the datapath knows it
        self.first_psn = 0
        self.last_psn = -1  # known once the last segment is sent


class SendQueue:
    """The send queue of one queue pair."""

    __slots__ = ("_cq", "_depth", "_memory", "_pd", "_qpn", "bytes_completed", "outstanding", "waiting")

    def __init__(self, qpn: int, pd: int, cq: NicCompletionQueue, memory: MemoryTable, depth: int) -> None:
        self._qpn = qpn
        self._pd = pd
        self._cq = cq
        self._memory = memory
        self._depth = depth
        self.waiting: deque[Wqe] = deque()
        self.outstanding: deque[Wqe] = deque()
        self.bytes_completed = 0

    def post(self, request: WorkRequest) -> Wqe:
        """Check and queue a request; errors as documented for ``Nic.post_send``."""
        if not 0 <= request.length <= MAX_LENGTH:
            raise InvalidArgumentError(f"A write carries 0 to {MAX_LENGTH} bytes, not {request.length}.")
        if (request.sges or request.inline is not None) and not request.describes_its_bytes():
            raise InvalidArgumentError(
                f"Give `length` bytes in 2 to {MAX_SGE} pieces, or inline up to {MAX_INLINE}, but not in both ways."
            )
        if (request.opcode is WrOpcode.WRITE_WITH_IMM) != (request.imm is not None):
            raise InvalidArgumentError("Give imm for WRITE_WITH_IMM, and only for it.")
        if request.imm is not None and not 0 <= request.imm <= 0xFFFFFFFF:
            raise InvalidArgumentError(f"Immediate data has 32 bits; {request.imm} does not fit.")
        if not 0 <= request.remote_address < 1 << 64 or not 0 <= request.rkey <= 0xFFFFFFFF:
            raise InvalidArgumentError("A remote address has 64 bits and an rkey 32; the request's do not fit.")
        taken = len(self.waiting) + len(self.outstanding)
        if self._cq.failures:
            taken += self._cq.failures.get(self._qpn, 0)
        if taken >= self._depth:
            raise ResourceExhaustedError(f"The send queue holds {self._depth} requests already; wait for completions.")
        if request.signaled and not self._cq.reserve():
            raise ResourceExhaustedError("The completion queue has no room for this request; poll it or enlarge it.")
        wqe = Wqe(request, self._memory.local(self._pd, request.lkey, request.local_address, request.length))
        if request.sges:
            self._gather(wqe, request)
        elif request.inline is not None:
            wqe.view = memoryview(request.inline)
        self.waiting.append(wqe)
        return wqe

    def _gather(self, wqe: Wqe, request: WorkRequest) -> None:
        """Find the pieces of a request; its view only says whether all are valid."""
        views: list[memoryview] = []
        for piece in request.sges:
            view = self._memory.local(self._pd, piece.lkey, piece.address, piece.length)
            if view is None:
                wqe.view = None
                return
            views.append(view)
        wqe.view = NOTHING
        if request.length:
            wqe.pieces = GatherList(views)

    def start(self) -> Wqe:
        """The oldest waiting request becomes outstanding."""
        wqe = self.waiting.popleft()
        self.outstanding.append(wqe)
        return wqe

    def complete(self, count: int) -> None:
        """The oldest `count` outstanding requests succeeded."""
        for _ in range(count):
            wqe = self.outstanding.popleft()
            wqe.view = wqe.pieces = wqe.message = None
            self.bytes_completed += wqe.length
            if wqe.signaled:
                self._cq.push_reserved(self._entry(wqe, CompletionStatus.SUCCESS, ""))

    def fail(self, status: CompletionStatus, reason: str) -> None:
        """The oldest request failed; everything after it is flushed. Unsignaled requests report failures too."""
        for queue in (self.outstanding, self.waiting):
            while queue:
                wqe = queue.popleft()
                wqe.view = wqe.pieces = wqe.message = None
                entry = self._entry(wqe, status, reason)
                if wqe.signaled:
                    self._cq.push_reserved(entry)
                else:
                    self._cq.push_failure(entry)
                status, reason = CompletionStatus.FLUSHED, "An earlier request failed or the queue pair was destroyed."

    def broken_head(self) -> bool:
        """Whether a request with an invalid local range is due to fail, since everything before it is done."""
        return not self.outstanding and bool(self.waiting) and self.waiting[0].view is None

    def _entry(self, wqe: Wqe, status: CompletionStatus, reason: str) -> Completion:
        length = wqe.length if status is CompletionStatus.SUCCESS else 0
        return Completion(
            wqe.wr_id, self._qpn, CompletionOpcode.WRITE, status, length, None, reason, signaled=wqe.signaled
        )
