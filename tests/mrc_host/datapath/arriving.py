"""Frames that reach a NIC, in every format and class, and what a hostile neighbour makes of them."""

from __future__ import annotations

import random

from mrc_host.config import NicConfig
from tests.models import frames
from tests.models.frames import BTH, ICRC

_MAC, _CLASS = slice(0, 6), slice(14, 16)
_USID = slice(38, 44)  # of the outer destination: block, and the uSID of the port
_NUMBERS = (0, 1, 12, 23, 24, 0xFFFF)


def delivered(frame: bytes, config: NicConfig, port: int, routed: bool) -> bytes:
    """A frame as the switches leave it: for this NIC's port, the uSID list consumed."""
    arrived = bytearray(frame)
    arrived[_MAC] = config.ports[port].mac
    if routed:
        arrived[_USID] = config.block.to_bytes(4, "big") + config.ports[port].usid.to_bytes(2, "big")
        arrived[44:54] = bytes(10)
    return bytes(arrived)


def arriving(sender: NicConfig, receiver: NicConfig, chance: random.Random) -> tuple[int, bytes]:
    """A port and a frame for it: MRC's in the format of the settings, or RoCE's."""
    (to,) = (one for one in sender.destinations if one.address == receiver.address)
    dscp = chance.choice([0, 4, 8, 46, 63])
    ecn, ev = chance.randrange(4), chance.choice(to.evs)
    port = to.template.plane(ev)
    body = bytearray(chance.randbytes(BTH + 4 * chance.randrange(12)))
    body[4] = chance.choice([0, 0, 0, 0x40])  # the byte that the ICRC does not cover
    if chance.random() < 0.3:
        sport = chance.getrandbits(16)
        frame = frames.assemble(sender, port, b"", None, to.address, 0, sport, dscp, ecn, bytes(body))
        return port, delivered(frame, receiver, port, False)
    frame = frames.build(sender, port, to.template, to.address, ev, dscp, ecn, bytes(body))
    frame = delivered(frame, receiver, port, receiver.settings.ev_format.routed)
    if frame[frames.KIND_BYTE] == frames.ROUTING:  # the end of the path
        frame = frame[:57] + b"\0" + frame[58:]
    return port, frame


def changed(frame: bytes, config: NicConfig, chance: random.Random) -> bytes:
    """The frame with bytes before and in the BTH changed, lengths too, cut or longer; the ICRC right again or not."""
    start = frames.bth_offset(frame)
    inner = start - 8 - (20 if frame[12:14] == b"\x08\x00" else 40)
    made = bytearray(frame)
    for _ in range(chance.choice([0, 1, 1, 2])):
        at = chance.randrange(start + BTH)
        made[at] = chance.choice([chance.getrandbits(8), made[at] ^ 1 << chance.randrange(8), 0, 0xFF])
    if chance.random() < 0.1:  # as a switch trims
        trimmed = chance.choice([config.settings.dscp.trimmed, config.settings.dscp.trimmed_lasthop])
        if made[14] >> 4 == 4:
            made[15] = trimmed << 2 | made[15] & 3
        else:
            made[_CLASS] = (6 << 12 | trimmed << 6 | made[15] & 0x30).to_bytes(2, "big")
        del made[start + chance.randrange(-4, 40) :]
    if chance.random() < 0.1 and len(made) > start:  # lengths that agree, or nearly
        number = chance.choice([*_NUMBERS, len(made) - start + 8, chance.randrange(200)])
        for at, more in ((start - 4, 0), (inner + 4, 0), (18, start - 8 - 54)):
            if (chance.random() < 0.9 and inner > 14) or at != 18:
                made[at : at + 2] = (number + more & 0xFFFF).to_bytes(2, "big")
    if chance.random() < 0.2:
        del made[chance.randrange(len(made)) :]
    if chance.random() < 0.2:
        made += bytes(chance.randrange(9))
    if made[12:14] == b"\x08\x00" and len(made) > 34 and chance.random() < 0.7:
        _mend_ipv4(made)
    if len(made) >= start + BTH + ICRC and chance.random() < 0.8:
        end = start - 8 + int.from_bytes(made[start - 4 : start - 2], "big") - ICRC
        if start + BTH <= end <= len(made) - ICRC:
            made = bytearray(frames.sealed(made, inner, start, end))
    if made and chance.random() < 0.05:
        made[-1] ^= 1
    return bytes(made)


def _mend_ipv4(made: bytearray) -> None:
    """Have the header's checksum be right."""
    made[24:26] = b"\0\0"
    total = sum(int.from_bytes(made[at : at + 2], "big") for at in range(14, 34, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    made[24:26] = (0xFFFF - total).to_bytes(2, "big")
