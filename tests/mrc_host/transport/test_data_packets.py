"""Data packets by themselves: how a message is cut into segments, and what the frames carry."""

from __future__ import annotations

import random

import pytest

from mrc_host.transport.data_packets import DataPackets
from mrc_host.transport.peer import FirstNumbers, Peer
from mrc_host.transport.peer_frames import DATA, RETRANSMISSION
from mrc_host.transport.sent_packet import SentPacket
from mrc_host.transport.work import Wqe
from mrc_host.verbs_types import WorkRequest, WrOpcode
from mrc_host.wire import headers, opcodes
from tests.mrc_host.transport.parts import REMOTE_QPN, connection

MTU = 1024
ADDRESS = 0x7000_0000_1234
RKEY = 0xABCD
IMM = 0x01020304
ICRC = 4


def make(**attributes: object) -> DataPackets:
    given = connection({"path_mtu": MTU, **attributes})
    return DataPackets(given, Peer(given.nic, given.nic.config.destinations[0], FirstNumbers(0, 0)).frames)


def message(length: int, *, imm: int | None = None, address: int = ADDRESS) -> tuple[Wqe, bytes]:
    data = random.Random(length).randbytes(length)
    opcode = WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM
    wqe = Wqe(WorkRequest(0, opcode, 0, 0, length, address, RKEY, imm), memoryview(data))
    return wqe, data


def cut(packets: DataPackets, wqe: Wqe) -> list[SentPacket]:
    """All segments of a message, from PSN 100 on."""
    records: list[SentPacket] = []
    while not records or wqe.offset < wqe.length:
        record = SentPacket()
        record.psn = 100 + len(records)
        last = packets.segment(wqe, record)
        assert last == (wqe.offset == wqe.length)
        records.append(record)
    return records


def body(packets: DataPackets, record: SentPacket, wqe: Wqe, role: int = DATA) -> bytes:
    """A frame from the BTH to before the ICRC."""
    if wqe.message is None:
        packets.begin(wqe)
    frame = packets.build(record, wqe, record.psn | headers.TS_PRESENT, role)
    size = headers.data_ts.size + 4 * (record.kind in (opcodes.LAST_IMM, opcodes.ONLY_IMM))
    return frame[-(size + (record.size + 3 & ~3) + ICRC) : -ICRC]


@pytest.mark.parametrize(
    ("length", "sizes"),
    [(1, [1]), (MTU, [MTU]), (MTU + 1, [MTU, 1]), (3 * MTU, [MTU] * 3), (3 * MTU + 5, [MTU, MTU, MTU, 5])],
)
@pytest.mark.parametrize("imm", [None, IMM])
def test_a_message_is_segmented_into_full_packets_and_a_remainder(
    length: int, sizes: list[int], imm: int | None
) -> None:
    packets = make()
    wqe, data = message(length, imm=imm)
    records = cut(packets, wqe)
    assert [record.size for record in records] == sizes
    assert [record.offset for record in records] == [n * MTU for n in range(len(sizes))]
    assert wqe.last_psn == records[-1].psn
    frames = [body(packets, record, wqe) for record in records]
    starts = [headers.data_ts.size] * len(sizes)
    starts[-1] += 4 * (imm is not None)
    payload = b"".join(frame[start:][:size] for frame, start, size in zip(frames, starts, sizes, strict=True))
    assert payload == data


@pytest.mark.parametrize("address", [ADDRESS, 1 << 63, (1 << 64) - 2 * MTU])
@pytest.mark.parametrize("imm", [None, IMM])
def test_every_packet_carries_its_own_address_and_the_message_length(address: int, imm: int | None) -> None:
    """R1.10. Addresses have 64 bits; it is the responder who refuses those outside its memory."""
    packets = make()
    wqe, _ = message(3 * MTU + 5, imm=imm, address=address)
    for n, record in enumerate(cut(packets, wqe)):
        fields = headers.data_ts.unpack(body(packets, record, wqe)[: headers.data_ts.size])
        assert fields[-3:] == ((address + n * MTU) % (1 << 64), RKEY, 3 * MTU + 5)
        assert fields[3] == REMOTE_QPN
        assert fields[4] & 0xFFFFFF == record.psn


def test_opcodes_give_the_position_in_the_message() -> None:
    packets = make()

    def of(length: int, imm: int | None = None) -> list[int]:
        wqe, _ = message(length, imm=imm)
        return [body(packets, record, wqe)[0] - opcodes.WRITE_FIRST for record in cut(packets, wqe)]

    assert of(3 * MTU) == [0, opcodes.MIDDLE, opcodes.LAST]
    assert of(10) == [opcodes.ONLY]
    assert of(2 * MTU, IMM) == [0, opcodes.LAST_IMM]
    assert of(10, IMM) == [opcodes.ONLY_IMM]


def test_only_the_last_packet_carries_immediate_data() -> None:
    packets = make()
    wqe, _ = message(2 * MTU, imm=IMM)
    first, last = (body(packets, record, wqe) for record in cut(packets, wqe))
    assert headers.data_ts_imm.unpack(last[: headers.data_ts_imm.size])[-1] == IMM
    assert len(first) == headers.data_ts.size + MTU


@pytest.mark.parametrize("length", range(1, 9))
def test_payloads_are_padded_to_words_with_the_pad_count_in_the_bth(length: int) -> None:
    packets = make()
    wqe, data = message(length)
    (record,) = cut(packets, wqe)
    made = body(packets, record, wqe)
    pad = -length & 3
    assert made[1] >> 4 & 3 == pad
    assert made[headers.data_ts.size :] == data + bytes(pad)


def test_packet_weight_is_the_peers_byte_count_rounded_up_to_units() -> None:
    packets = make()
    wqe, _ = message(MTU + 1)
    full, rest = cut(packets, wqe)
    assert full.weight >= MTU + headers.data_ts.size
    assert full.weight % 256 == rest.weight % 256 == 0
    assert rest.weight < full.weight


def test_the_traffic_class_depends_on_retransmission_and_trim_support() -> None:
    """R1.19. Byte 0 and 1 of the outer header, after 14 bytes of Ethernet, carry the DSCP."""

    def dscps(*, trimmable: bool) -> list[int]:
        packets = make(trim_nack_dest=trimmable)
        wqe, _ = message(10)
        (record,) = cut(packets, wqe)
        packets.begin(wqe)
        frames = [packets.build(record, wqe, record.psn, role) for role in (DATA, RETRANSMISSION)]
        return [(frame[14] << 8 | frame[15]) >> 6 & 0x3F for frame in frames]

    data, again = dscps(trimmable=True)
    assert data != again
    assert len({*dscps(trimmable=False)}) == 1
    assert dscps(trimmable=False)[0] not in (data, again)


def test_retransmissions_are_identical_packets() -> None:
    packets = make()
    wqe, _ = message(2 * MTU + 7)
    records = cut(packets, wqe)
    before = [body(packets, record, wqe) for record in records]
    assert [body(packets, record, wqe, RETRANSMISSION) for record in reversed(records)] == before[::-1]
