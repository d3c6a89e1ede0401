"""The protocol between agent and clients over a UNIX SEQPACKET socket.

The socket keeps message boundaries, so a message is one packet of at most 64 KiB: a header of 8 bytes and a body.

    u8 kind | u8 flags | u16 zero | u32 request id

Work requests, completions and their credits, which are many, are fixed binary records in host byte order, any number in
one message. Everything else is JSON, one object per message; a reply too long for one message is split, with MORE set
on all parts but the last.

    client                                    agent
    HELLO {version, client}           ->
                                      <-      HELLO {version, name, address}
    REQUEST {op, ...} (id, maybe fd)  ->
                                      <-      REPLY {result} or ERROR {error, message} (same id)
    POST work requests                ->      (no answer but their completions)
    POST_INLINE one, and its bytes    ->      (likewise)
                                      <-      COMPLETIONS (successes) or COMPLETION {cq, ...} (a failure)
    CREDIT (cq, entries taken)        ->
                                      <-      EVENT {type, ...}, if subscribed

A work request with several pieces of local memory takes as many records: all but the last have PIECE set, and of these
only the local range counts.

The agent sends at most `capacity` completions per queue that the client has not taken yet; the rest wait in the NIC,
whose rules for a full queue then apply. Likewise posts for which the NIC has no room wait in the agent, separately for
each queue pair. A client may have at most PENDING_LIMIT posts per queue pair, and CLIENT_PENDING_LIMIT in total, that
may still wait there as far as it knows; the verb `posts_waiting` gives the true number.

A memory region is a memfd created by the client, sealed against resizing (so that neither side can make the other
fault) and passed with the REQUEST that registers it.

A client that violates the protocol is disconnected: its socket is closed and all it had on the NIC is released.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mrc_common import strict_json
from mrc_host.errors import InvalidArgumentError
from mrc_host.verbs.errors import ProtocolError
from mrc_host.verbs.remote import binary_records
from mrc_host.verbs_types import (
    MAX_INLINE,
    MAX_SGE,
    Completion,
    CompletionOpcode,
    CompletionStatus,
    Sge,
    WorkRequest,
    WrOpcode,
)

VERSION = 7
MAX_MESSAGE = 1 << 16
SOCKET_BUFFER = 1 << 20

HEADER = binary_records.HEADER.struct()
MORE = 1

_POST = binary_records.POST.struct()
POST_SIZE = _POST.size
MAX_POSTS = (MAX_MESSAGE - HEADER.size) // POST_SIZE
PENDING_LIMIT = 4096  # posts that may wait in the agent for one queue pair ...
CLIENT_PENDING_LIMIT = 65536  # ... and for all of a client
_COMPLETION = binary_records.COMPLETION.struct()
MAX_COMPLETIONS = (MAX_MESSAGE - HEADER.size) // _COMPLETION.size
_CREDIT = binary_records.CREDIT.struct()

_WR_OPCODES = tuple(WrOpcode)
_WR_NUMBERS = {opcode: i for i, opcode in enumerate(_WR_OPCODES)}
_CQE_OPCODES = tuple(CompletionOpcode)
_CQE_NUMBERS = {opcode: i for i, opcode in enumerate(_CQE_OPCODES)}
SIGNALED = 1
HAS_IMM = 2
SOLICITED = 4
PIECE = 8  # one of several pieces of local memory, of which the next record has the next
_SUCCESS = CompletionStatus.SUCCESS


class MessageKind(enum.IntEnum):
    """First byte of a message."""

    HELLO = 1
    REQUEST = 2
    REPLY = 3
    ERROR = 4
    POST = 5
    COMPLETIONS = 6
    COMPLETION = 7
    CREDIT = 8
    EVENT = 9
    POST_INLINE = 10


def pack_json(kind: MessageKind, request: int, data: Any) -> list[bytes]:
    """The messages that carry one JSON object; InvalidArgumentError where a number is NaN or infinite."""
    try:
        body = strict_json.dumps(data).encode()
    except ValueError:
        raise InvalidArgumentError("A message to an agent has finite numbers only.") from None
    room = MAX_MESSAGE - HEADER.size
    parts = [body[i : i + room] for i in range(0, len(body), room)]
    last = len(parts) - 1
    return [HEADER.pack(kind, MORE if i < last else 0, 0, request) + part for i, part in enumerate(parts)]


def pack_part(request: int, text: str, *, more: bool) -> bytes:
    """The message with a part of a REPLY's JSON, which is made in parts; `more` follow."""
    return HEADER.pack(MessageKind.REPLY, MORE if more else 0, 0, request) + text.encode()


def unpack_json(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The JSON object of a message body; raises ProtocolError."""
    try:
        data = strict_json.loads(bytes(body))
    except (ValueError, RecursionError):
        raise ProtocolError("A message is not JSON.") from None
    if not isinstance(data, dict):
        raise ProtocolError("A message is not a JSON object.")
    return data


def unpack_header(message: bytes | memoryview) -> tuple[int, int, int]:
    """Kind, flags and request id of a message; raises ProtocolError if it is too short."""
    if len(message) < HEADER.size:
        raise ProtocolError("A message is shorter than its header.")
    kind, flags, _zero, request = HEADER.unpack_from(message)
    return kind, flags, request


def records(request: WorkRequest) -> int:
    """How many records of a POST message a work request takes; 0 if it needs a POST_INLINE of its own."""
    return len(request.sges) or int(request.inline is None)


def pack_posts(qpn: int, requests: Sequence[WorkRequest]) -> bytes:
    """One POST message of work requests of one queue pair, at most MAX_POSTS `records`; or one POST_INLINE of one."""
    inline = requests[0].inline if requests else None
    parts = [HEADER.pack(MessageKind.POST if inline is None else MessageKind.POST_INLINE, 0, 0, 0)]
    for wr in requests:
        address, lkey, length = wr.local_address, wr.lkey, wr.length
        if wr.sges:
            *others, last = wr.sges
            parts += [
                _POST.pack(0, qpn, 0, PIECE, 0, 0, piece.address, piece.lkey, piece.length, 0, 0) for piece in others
            ]
            address, lkey, length = last.address, last.lkey, last.length
        imm = wr.imm
        flags = (SIGNALED if wr.signaled else 0) | (HAS_IMM if imm is not None else 0)
        if wr.solicited:
            flags |= SOLICITED
        local, remote = (address, lkey, length), (wr.remote_address, wr.rkey)
        parts.append(_POST.pack(wr.wr_id, qpn, _WR_NUMBERS[wr.opcode], flags, 0, imm or 0, *local, *remote))
    if inline is not None:
        parts.append(inline)
    return b"".join(parts)


def unpack_posts(body: memoryview) -> list[tuple[int, WorkRequest]]:
    """(QPN, work request) of each in the body of a POST message; raises ProtocolError if that is malformed."""
    posts = []
    pieces: list[Sge] = []
    try:
        for wr_id, qpn, opcode, flags, _, imm, local, lkey, length, remote, rkey in _POST.iter_unpack(body):
            if flags & PIECE:
                if len(pieces) >= MAX_SGE:
                    raise ProtocolError(f"A work request has at most {MAX_SGE} pieces.")
                pieces.append(Sge(local, lkey, length))
                continue
            given = imm if flags & HAS_IMM else None
            signaled, solicited = flags & SIGNALED != 0, flags & SOLICITED != 0
            kind = _WR_OPCODES[opcode]
            request = WorkRequest(wr_id, kind, local, lkey, length, remote, rkey, given, signaled, solicited)
            if pieces:
                sges = (*pieces, Sge(local, lkey, length))
                total = sum(piece.length for piece in sges)
                request = replace(request, local_address=0, lkey=0, length=total, sges=sges)
                pieces.clear()
            posts.append((qpn, request))
    except (struct.error, IndexError):
        raise ProtocolError("A POST message is malformed.") from None
    if pieces:
        raise ProtocolError("A work request lacks its last piece.")
    return posts


def unpack_inline_post(body: memoryview) -> list[tuple[int, WorkRequest]]:
    """(QPN, work request) in the body of a POST_INLINE message; raises ProtocolError if that is malformed."""
    posts = unpack_posts(body[:POST_SIZE])
    data = bytes(body[POST_SIZE : POST_SIZE + MAX_INLINE + 1])
    if not posts or not posts[0][1].length == len(data) <= MAX_INLINE:
        raise ProtocolError("A POST_INLINE message is malformed.")
    qpn, request = posts[0]
    return [(qpn, replace(request, local_address=0, lkey=0, inline=data))]


def pack_completions(cq: int, completions: Sequence[Completion]) -> bytes:
    """One COMPLETIONS message of at most MAX_COMPLETIONS entries of one queue, all successful."""
    parts = [HEADER.pack(MessageKind.COMPLETIONS, 0, 0, 0)]
    for entry in completions:
        imm = entry.imm
        parts.append(
            _COMPLETION.pack(
                cq,
                entry.wr_id,
                entry.qpn,
                _CQE_NUMBERS[entry.opcode],
                (HAS_IMM if imm is not None else 0) | (SOLICITED if entry.solicited else 0),
                0,
                imm or 0,
                entry.byte_len,
            )
        )
    return b"".join(parts)


def unpack_completions(body: memoryview) -> Iterable[tuple[int, Completion]]:
    """(queue, completion) of each record; raises ProtocolError."""
    entries = []
    try:
        for cq, wr_id, qpn, opcode, flags, _, imm, length in _COMPLETION.iter_unpack(body):
            given = imm if flags & HAS_IMM else None
            solicited = flags & SOLICITED != 0
            entry = Completion(wr_id, qpn, _CQE_OPCODES[opcode], _SUCCESS, length, given, solicited=solicited)
            entries.append((cq, entry))
    except (struct.error, IndexError):
        raise ProtocolError("A COMPLETIONS message is malformed.") from None
    return entries


def pack_credit(cq: int, taken: int) -> bytes:
    """A CREDIT message: the client has taken `taken` more completions of `cq`."""
    return HEADER.pack(MessageKind.CREDIT, 0, 0, 0) + _CREDIT.pack(cq, taken)


def unpack_credits(body: memoryview) -> list[tuple[int, int]]:
    """(queue, entries taken) of each record; raises ProtocolError."""
    try:
        return list(_CREDIT.iter_unpack(body))
    except struct.error:
        raise ProtocolError("A CREDIT message is malformed.") from None
