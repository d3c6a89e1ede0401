"""A peer whose packets reach the NIC in any order, twice, marked or trimmed.

What the NIC acknowledges must have been sent, what it refuses must have been trimmed, and in the end its memory and the
immediates it reports must be right. All of it depends on the seed and, over real interfaces, on the NIC's timing.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from mrc_host.wire import opcodes
from mrc_lab.conformance.packets import Packet
from mrc_lab.conformance.player import LONGEST_NS, MTU, ROUND_NS, Scene, ScriptError

_WINDOW = 60  # PSNs beyond the cumulative one that are sent: a bitmap shows them


@dataclass(frozen=True, slots=True)
class _Piece:
    """A packet that the random sender has to bring over."""

    psn: int
    msn: int
    rqmsn: int
    segment: int
    length: int
    offset: int
    start: int
    size: int
    fill: int
    imm: int | None


def random_sender(scene: Scene, rng: Random) -> None:
    """Messages whose packets arrive in any order, twice, marked and trimmed are all placed and acknowledged."""
    pieces = _messages(rng)
    wanted = bytearray(pieces[-1].offset + pieces[-1].size)
    for piece in pieces:
        wanted[piece.offset : piece.offset + piece.size] = bytes([piece.fill]) * piece.size
    sent: set[int] = set()  # PSNs that were sent whole
    trimmed: set[int] = set()
    cack, acknowledged, deadline = -1, 0, scene.now() + LONGEST_NS
    messages = pieces[-1].msn + 1
    while cack < len(pieces) - 1 or acknowledged < messages:
        if scene.now() > deadline:
            raise ScriptError(f"R2.8: {len(pieces)} packets are not acknowledged after a minute: up to {cack} are")
        for piece in _choice(rng, pieces, cack):
            cut = rng.random() < 0.1
            scene.send("data", _fields(scene, rng, piece, again=piece.psn in sent | trimmed, cut=cut))
            (trimmed if cut else sent).add(piece.psn)
        until = scene.now() + ROUND_NS
        while (packet := scene.receive(until)) is not None:
            _check_answer(packet, sent, trimmed)
            if packet.kind == "sack":
                cack = max(cack, packet.fields["cack"])
            elif packet.kind == "ack":
                acknowledged = max(acknowledged, packet.fields["messages"])
    differs = scene.memory_differs(0, bytes(wanted))
    if differs is not None:
        raise ScriptError(f"R2.3: byte {differs} of the memory is not what was sent last")
    immediates = [piece.imm for piece in pieces if piece.imm is not None]
    found = [one.imm for one in scene.finished() if one.received]
    if found != immediates:
        raise ScriptError(f"R2.4: immediates {immediates} were sent, and {found} came, in that order")


def _messages(rng: Random) -> list[_Piece]:
    pieces: list[_Piece] = []
    offset = rqmsn = 0
    for msn in range(rng.randrange(5, 20)):
        length = rng.choice((1, 100, MTU, MTU + 1, rng.randrange(1, 20 * MTU)))
        imm = rng.getrandbits(32) if rng.random() < 0.3 else None
        last = (length - 1) // MTU
        for number in range(last + 1):
            start = number * MTU
            with_imm = imm if number == last else None
            segment = opcodes.segment_kind(number == 0, number == last, with_imm is not None)
            size = min(MTU, length - start)
            fill = rng.randrange(1, 256)
            at = offset + start
            pieces.append(_Piece(len(pieces), msn, rqmsn, segment, length, at, start, size, fill, with_imm))
        rqmsn += imm is not None
        offset += length
    return pieces


def _choice(rng: Random, pieces: list[_Piece], cack: int) -> list[_Piece]:
    """Some packets of the window in any order, the oldest missing one among them."""
    window = pieces[cack + 1 : cack + 1 + _WINDOW]
    chosen = rng.sample(window, rng.randrange(len(window) + 1)) + window[:1]
    older = pieces[max(0, cack - 50) : cack + 1]
    return chosen + rng.sample(older, min(len(older), rng.randrange(3)))


def _fields(scene: Scene, rng: Random, piece: _Piece, *, again: bool, cut: bool) -> dict[str, int]:
    plane = rng.randrange(scene.planes)
    fields = {
        "psn": piece.psn, "msn": piece.msn, "rqmsn": piece.rqmsn, "segment": piece.segment, "length": piece.length,
        "size": piece.size, "offset": piece.offset, "fill": piece.fill, "rtx": int(again), "plane": plane,
        "a": rng.randrange(2), "ecn": rng.choice((2, 2, 2, 3)), "ev": rng.choice(scene.writer.evs(plane)),
    }  # fmt: skip
    if piece.imm is not None:
        fields["imm"] = piece.imm
    if cut:
        fields["trimmed"] = rng.choice((1, 2))
    return fields


def _check_answer(packet: Packet, sent: set[int], trimmed: set[int]) -> None:
    """ScriptError if the packet acknowledges what was never sent, or refuses what was not trimmed."""
    fields = packet.fields
    if packet.kind == "sack":
        claimed = {fields["cack"] + fields["base"] + bit for bit in range(64) if fields["bitmap"] >> bit & 1}
        first = fields["cack"]
        claimed |= set(range(max(0, first - 64), first + 1))
        if not claimed <= sent:
            raise ScriptError(f"R2.10: a SACK acknowledges {sorted(claimed - sent)}, which were not sent whole")
    elif packet.kind == "nack" and fields["psn"] not in trimmed:
        raise ScriptError(f"R1.15: a NACK with reason {fields['reason']} for {fields['psn']}, which was not trimmed")
