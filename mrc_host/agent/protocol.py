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
                                      <-      COMPLETIONS (successes) or COMPLETION {cq, ...} (a failure)
    CREDIT (cq, entries taken)        ->
                                      <-      EVENT {type, ...}, if subscribed

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
import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from mrc_host.values import Completion, CompletionOpcode, CompletionStatus, WorkRequest, WrOpcode
from mrc_host.verbs.errors import ProtocolError

VERSION = 2
MAX_MESSAGE = 1 << 16
SOCKET_BUFFER = 1 << 20

HEADER = struct.Struct("=BBHI")
MORE = 1

_POST = struct.Struct("=QIBBxxIQIIQI")
POST_SIZE = _POST.size
MAX_POSTS = (MAX_MESSAGE - HEADER.size) // POST_SIZE
PENDING_LIMIT = 4096  # posts that may wait in the agent for one queue pair ...
CLIENT_PENDING_LIMIT = 65536  # ... and for all of a client
_COMPLETION = struct.Struct("=IQIBBxxII")
MAX_COMPLETIONS = (MAX_MESSAGE - HEADER.size) // _COMPLETION.size
_CREDIT = struct.Struct("=II")

_WR_OPCODES = tuple(WrOpcode)
_WR_NUMBERS = {opcode: i for i, opcode in enumerate(_WR_OPCODES)}
_CQE_OPCODES = tuple(CompletionOpcode)
_CQE_NUMBERS = {opcode: i for i, opcode in enumerate(_CQE_OPCODES)}
_SIGNALED = 1
_HAS_IMM = 2
_SOLICITED = 4
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


def pack_json(kind: MessageKind, request: int, data: Any) -> list[bytes]:
    """The messages that carry one JSON object."""
    body = json.dumps(data, separators=(",", ":")).encode()
    room = MAX_MESSAGE - HEADER.size
    parts = [body[i : i + room] for i in range(0, len(body), room)]
    last = len(parts) - 1
    return [HEADER.pack(kind, MORE if i < last else 0, 0, request) + part for i, part in enumerate(parts)]


def unpack_json(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The JSON object of a message body; raises ProtocolError."""
    try:
        data = json.loads(bytes(body))
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


def pack_posts(qpn: int, requests: Sequence[WorkRequest]) -> bytes:
    """One POST message of at most MAX_POSTS work requests of one queue pair."""
    parts = [HEADER.pack(MessageKind.POST, 0, 0, 0)]
    for wr in requests:
        imm = wr.imm
        flags = (_SIGNALED if wr.signaled else 0) | (_HAS_IMM if imm is not None else 0)
        if wr.solicited:
            flags |= _SOLICITED
        parts.append(
            _POST.pack(
                wr.wr_id,
                qpn,
                _WR_NUMBERS[wr.opcode],
                flags,
                imm or 0,
                wr.local_address,
                wr.lkey,
                wr.length,
                wr.remote_address,
                wr.rkey,
            )
        )
    return b"".join(parts)


def unpack_posts(body: memoryview) -> list[tuple[int, WorkRequest]]:
    """(QPN, work request) of each record; raises ProtocolError on a malformed body."""
    posts = []
    try:
        for wr_id, qpn, opcode, flags, imm, local, lkey, length, remote, rkey in _POST.iter_unpack(body):
            given = imm if flags & _HAS_IMM else None
            signaled, solicited = flags & _SIGNALED != 0, flags & _SOLICITED != 0
            kind = _WR_OPCODES[opcode]
            posts.append((qpn, WorkRequest(wr_id, kind, local, lkey, length, remote, rkey, given, signaled, solicited)))
    except (struct.error, IndexError):
        raise ProtocolError("A POST message is malformed.") from None
    return posts


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
                (_HAS_IMM if imm is not None else 0) | (_SOLICITED if entry.solicited else 0),
                imm or 0,
                entry.byte_len,
            )
        )
    return b"".join(parts)


def unpack_completions(body: memoryview) -> Iterable[tuple[int, Completion]]:
    """(queue, completion) of each record; raises ProtocolError."""
    entries = []
    try:
        for cq, wr_id, qpn, opcode, flags, imm, length in _COMPLETION.iter_unpack(body):
            given = imm if flags & _HAS_IMM else None
            solicited = flags & _SOLICITED != 0
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
