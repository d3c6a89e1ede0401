"""The application beside the NIC under test: what the kit asks of it, and ours, which uses the NIC's verbs.

A NIC cannot be examined by packets alone: somebody has to make its queue pair, name the peer, post writes, look at
completions and memory. Any program that can do that for a NIC takes part, as `external` shows; for NICs of this project
:class:`VerbsNic` does, on a device in memory or on an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mrc_host.errors import InvalidArgumentError
from mrc_host.verbs.completion_queue import CompletionQueue
from mrc_host.verbs.context import Context, ProtectionDomain
from mrc_host.verbs.memory import MemoryRegion
from mrc_host.verbs.queue_pair import QueuePair
from mrc_host.verbs_types import CompletionOpcode, QpAddress, QpAttributes

REGION = 1 << 20  # bytes of memory that the peer may write to, and as many that the NIC sends from
PERIOD = 251  # of the bytes that the NIC sends: a prime, so that a packet in another's place is seen


@dataclass(frozen=True, slots=True)
class Connected:
    """The NIC's end of a connection: its queue pair, the first PSN it sends, and the region the peer may write to."""

    qpn: int
    psn: int
    address: int
    rkey: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A completion: of a posted write (`received` False), or of the peer's WRITE_WITH_IMM."""

    received: bool
    wr_id: int
    status: str
    imm: int = 0


class NicUnderTest(Protocol):
    """An application on the NIC under test, with at most one connection at a time.

    Each call raises MrcError when it cannot be done.
    """

    def connect(self, peer: QpAddress, attributes: Mapping[str, int]) -> Connected:
        """Make a queue pair of MRC towards `peer`, with `attributes` of `mrc_host.verbs_types.QpAttributes` by name.

        It has a region of `REGION` zero bytes that the peer may write to, and another to send from, in which byte i is
        i modulo `PERIOD`.
        """

    def write(self, wr_id: int, size: int, address: int, rkey: int, imm: int | None) -> None:
        """Post a write of the first `size` bytes to the peer's memory; with `imm` a WRITE_WITH_IMM."""

    def finished(self) -> list[Finished]:
        """Take the completions that are there; does not wait."""

    def memory(self, offset: int, size: int) -> bytes:
        """What the region that the peer writes to contains now."""

    def disconnect(self) -> None:
        """Destroy the connection, if there is one."""


def pattern(offset: int, size: int) -> bytes:
    """What the NIC sends from `offset` on."""
    start = offset % PERIOD
    repeated = bytes(range(PERIOD)) * ((start + size) // PERIOD + 1)
    return repeated[start : start + size]


_SOURCE = pattern(0, REGION)


class VerbsNic:
    """A NIC of this project, by its verbs; `context` belongs to the caller."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pd: ProtectionDomain | None = None
        self._open: _Objects | None = None

    def connect(self, peer: QpAddress, attributes: Mapping[str, int]) -> Connected:
        """See NicUnderTest."""
        self.disconnect()
        values: dict[str, Any] = dict(attributes)
        unknown = values.keys() - QpAttributes.__dataclass_fields__.keys()
        if unknown:
            raise InvalidArgumentError(f"A queue pair has no attribute {min(unknown)}.")
        self._pd = self._context.alloc_pd()
        cq = self._context.create_cq(1024)
        qp = self._pd.create_qp(cq, attributes=replace(QpAttributes(), **values))
        target, source = self._pd.alloc_mr(REGION), self._pd.alloc_mr(REGION)
        source.buffer[:] = _SOURCE
        self._open = _Objects(cq, qp, target, source)
        qp.connect(peer)
        assert qp.address.psn is not None
        return Connected(qp.qpn, qp.address.psn, target.address, target.rkey)

    def write(self, wr_id: int, size: int, address: int, rkey: int, imm: int | None) -> None:
        """See NicUnderTest."""
        mine = self._objects
        mine.qp.post_write(mine.source, 0, size, address, rkey, imm=imm, wr_id=wr_id)

    def finished(self) -> list[Finished]:
        """See NicUnderTest."""
        return [
            Finished(one.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM, one.wr_id, one.status.value, one.imm or 0)
            for one in self._objects.cq.poll(1024)
        ]

    def memory(self, offset: int, size: int) -> bytes:
        """See NicUnderTest."""
        return bytes(self._objects.target.buffer[offset : offset + size])

    def disconnect(self) -> None:
        """See NicUnderTest."""
        pd, objects, self._pd, self._open = self._pd, self._open, None, None
        if pd is not None:
            pd.close()
        if objects is not None:
            objects.cq.close()

    @property
    def _objects(self) -> _Objects:
        assert self._open is not None, "connect first"
        return self._open


@dataclass(frozen=True, slots=True)
class _Objects:
    """Of one connection."""

    cq: CompletionQueue
    qp: QueuePair
    target: MemoryRegion
    source: MemoryRegion
