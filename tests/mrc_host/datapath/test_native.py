"""The functions of the datapath in C against their models, and what they refuse."""

import random
import struct
import zlib
from types import ModuleType
from typing import Any

import pytest

from mrc_host.config import EvFormat
from mrc_host.transport.gather_list import GatherList
from mrc_host.transport.memory import NOTHING
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.transport.peer_frames import DATA
from mrc_host.transport.roce.data_packets import RcDataPackets
from mrc_host.transport.work import Wqe
from mrc_host.verbs_types import QpState, QpType, WorkRequest, WrOpcode
from mrc_host.wire import headers, opcodes
from mrc_host.wire.encap import Flow
from tests.models import frames
from tests.models.frames import IPV6, KIND_BYTE
from tests.mrc_host.datapath.module import native, used
from tests.mrc_host.nic_world import Faults, World, connect
from tests.mrc_host.test_formats import FORMATS, IDS, Wire
from tests.mrc_host.transport.parts import REMOTE_QPN, connection
from tests.mrc_host.transport.roce.parts import path_of

SIZES = (0, 1, 2, 3, 4, 63, 64, 1000, 4095, 4096)


@pytest.fixture
def module() -> ModuleType:
    return native()


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_the_checksum_is_that_of_zlib(module: ModuleType, most: int) -> None:
    """By the table alone, or one, two or four blocks of 128 bits at a time, as far as the processor can."""
    chance = random.Random(1)
    for size in (*range(1100), 4096, 4132, 9001):
        data, before = chance.randbytes(size + 1)[chance.randrange(2) :][:size], chance.getrandbits(32)
        crc = zlib.crc32(data, before)
        assert module.crc32_with(most, data, before) == (crc, crc, data), size


@pytest.mark.parametrize("gathered", [False, True])
@pytest.mark.parametrize(("ev_format", "addresses"), FORMATS, ids=IDS)
def test_data_frames_are_those_of_the_model_in_every_format(
    module: ModuleType, ev_format: EvFormat, addresses: tuple[bytes, ...], gathered: bool
) -> None:
    """Every path, class, kind of segment and some lengths, in any order from one template."""
    with used(module):
        nic = Wire(ev_format, addresses).nics[0]
    (to,) = nic.config.destinations
    peer = nic._peers.get(to.address)
    assert peer is not None
    chance = random.Random(1)
    data = chance.randbytes(1 << 13)
    for index, ev in enumerate(to.evs):
        for size in SIZES:
            body, frame = data_frame(nic.datapath, peer.frames.template(index, DATA), data, size, chance, gathered)
            port, dscp = to.template.plane(ev), nic.config.settings.dscp.trimmable
            assert frame == frames.build(nic.config, port, to.template, to.address, ev, dscp, 2, body)


def data_frame(
    datapath: NativeDatapath, template: object, data: bytes, size: int, chance: random.Random, gathered: bool
) -> tuple[bytes, bytes]:
    """What a data packet has from the BTH on, and its frame; if it is `gathered`, its bytes are not the message's."""
    kind, solicited, stamp = chance.randrange(6), chance.choice([0, 0x40, 0x80]), chance.getrandbits(16)
    word, offset = chance.getrandbits(32) & ~(0xF << 24), chance.randrange(0, len(data) - size) & ~3
    qpn, rqmsn, msn = chance.getrandbits(24), chance.getrandbits(16), chance.getrandbits(16)
    address, rkey, imm = chance.getrandbits(64), chance.getrandbits(32), chance.getrandbits(32)
    message = datapath.message(
        memoryview(b"" if gathered else data), qpn, 0x8001, rqmsn << 16 | msn, address, rkey, len(data), imm, solicited,
        datapath.outbox,
    )  # fmt: skip
    payload = data[offset : offset + size]
    numbers = (kind << 48 | stamp << 32 | word, offset << 16 | size)
    frame = datapath.data_frame(template, message, *numbers, *([memoryview(payload)] if gathered else []))
    with_imm = kind in (opcodes.LAST_IMM, opcodes.ONLY_IMM)
    pack = headers.data_ts_imm if with_imm else headers.data_ts
    pad = -size & 3
    fields = [
        opcodes.WRITE_FIRST + kind, pad << 4 | (solicited if with_imm else 0), headers.PKEY, qpn, word, rqmsn, msn,
        stamp, 0x8001, (address + offset) % (1 << 64), rkey, len(data),
    ]  # fmt: skip
    return pack.pack(*fields, *([imm] if with_imm else [])) + payload + bytes(pad), frame


def a_template(module: ModuleType) -> Any:
    return module.Template(bytes(12), bytes(16), b"", 0, bytes(16), bytes(16), 0, 0, 4791, 0, 0, 64)


def test_what_is_no_packet_makes_no_frame(module: ModuleType) -> None:
    template = a_template(module)
    for size in (0, 11, 65460):
        with pytest.raises(ValueError, match="12 to 65459 bytes"):
            module.frame(template, bytes(size))
    for arguments in ((template,), (bytes(20), template), (template, bytearray(20)), (bytes(20), bytes(20))):
        with pytest.raises(TypeError):
            module.frame(*arguments)


def test_a_segment_beyond_its_message_is_refused(module: ModuleType) -> None:
    template = a_template(module)
    message = module.Message(bytes(100), 1, 2, 3, 4, 5, 100, 6, 7, module.Outbox())
    for kind, offset, size in ((0, 0, 101), (0, 100, 1), (0, 1 << 32, 1), (6, 0, 1), (0, 101, 0), (0, 0, 0xFFFF)):
        with pytest.raises(ValueError, match="not part of its message"):
            module.data_frame(template, message, kind << 48, offset << 16 | size)
    for arguments in ((message, template, 0, 0), (template, message, 0), (template, message, 0, "1")):
        with pytest.raises(TypeError):
            module.data_frame(*arguments)
    for arguments in ((template, message, 0, -1), (template, message, 1 << 64, 0)):
        with pytest.raises(OverflowError):
            module.data_frame(*arguments)


def test_bytes_of_a_gather_list_are_as_many_as_the_segment_says(module: ModuleType) -> None:
    template = a_template(module)
    message = module.Message(b"", 1, 2, 3, 4, 5, 100, 6, 7, module.Outbox())
    assert len(module.data_frame(template, message, 0, 90 << 16 | 10, bytes(10))) == 102 + 36 + 12 + 4
    for payload in (bytes(9), bytes(11), b""):
        with pytest.raises(ValueError, match="another length"):
            module.data_frame(template, message, 0, 90 << 16 | 10, payload)
    with pytest.raises(ValueError, match="not part of its message"):
        module.data_frame(template, message, 0, 91 << 16 | 10, bytes(10))
    with pytest.raises(ValueError, match="not part of its message"):
        module.data_frame(template, message, 0, 10)
    with pytest.raises((TypeError, BufferError)):
        module.data_frame(template, message, 0, 10, "text")


def test_a_receiver_has_1_to_64_ports(module: ModuleType) -> None:
    for ports in (0, 65, -1):
        with pytest.raises(ValueError, match="ports"):
            module.Receiver(ports, 1)


def test_a_region_given_up_is_not_written_and_may_be_closed(module: ModuleType) -> None:
    buffer = bytearray(100)
    region = module.Region(memoryview(buffer))
    with pytest.raises(BufferError):
        buffer.append(0)
    region.release()
    region.release()
    buffer.append(0)


@pytest.mark.parametrize("kind", QpType)
def test_a_queue_pair_that_takes_no_more_writes_refuses_those_that_begin_then(module: ModuleType, kind: QpType) -> None:
    """What the datapath places belongs to messages that began before."""
    with used(module):
        world = World(planes=1)
        a, b = connect(world, size=1 << 17, kind=kind)
        a.write(b, 1 << 16)
        world.run(until=lambda: b.nic.qp_counters(b.qpn).data_received >= 10)
        b.nic.modify_qp(b.qpn, QpState.RTS, world.now, {"remote_write": False})
        for number in range(1, 4):
            a.write(b, 1 << 14, offset=(1 << 16) + (number << 14))
        world.run()
    assert b.buffer[: 1 << 16] == a.buffer[: 1 << 16]
    assert not any(b.buffer[1 << 16 :])
    assert [c.status.name for c in a.poll()] == ["SUCCESS", "REMOTE_INVALID_REQUEST_ERROR", "FLUSHED", "FLUSHED"]


def test_nothing_more_is_placed_in_a_deregistered_region(module: ModuleType) -> None:
    """A message is half placed when its region goes: the rest changes nothing, and the peer gets a NAK."""
    with used(module):
        world = World(planes=1)
        a, b = connect(world, size=1 << 17)
        a.write(b, 1 << 17)
        world.run(until=lambda: b.nic.qp_counters(b.qpn).data_received >= 10)
        b.nic.deregister_memory(b.region.lkey)
        before = bytes(b.buffer)
        world.run()
    assert b.buffer == before
    assert any(before)
    assert not all(before)
    assert [c.status.name for c in a.poll()] == ["REMOTE_ACCESS_ERROR"]


@pytest.mark.parametrize(
    ("kind", "mark", "most", "answers"),
    [(QpType.MRC, 0.0, 0.95, 20), (QpType.RC, 0.0, 0.98, 25), (QpType.RC, 1.0, 0.98, 250)],
)
def test_most_packets_of_a_long_write_are_carried(
    module: ModuleType, kind: QpType, mark: float, most: float, answers: int
) -> None:
    """Otherwise all else here would compare the reference with itself.

    Each 32 KiB make a SACK due, each eighth packet of RC requests an acknowledgement, and each that is marked may be
    answered.
    """
    with used(module):
        world = World(faults=Faults(mark=mark))
        a, b = connect(world, kind=kind)
        seen: list[object] = []
        datapath = b.nic._context.datapath
        receive = datapath.receive
        datapath.receive = lambda port, frame: (seen.append(found := receive(port, frame)), found)[1]
        a.write(b, 1 << 20)
        world.run(until=a.idle)
    assert a.buffer == b.buffer
    due = [found for found in seen if isinstance(found, tuple)]
    assert len(due) >= answers
    assert sum(found is True for found in seen) + len(due) > most * len(seen)
    assert {type(found) for found in seen} <= {bool, tuple, Flow, type(None)}


def test_counters_of_rc_include_what_was_carried(module: ModuleType) -> None:
    """Whichever is asked for, in the middle of a message; and asking changes nothing."""
    with used(module):
        world = World()
        a, b = connect(world, kind=QpType.RC)
        data: list[bytes] = []

        def arrives(number: int, port: int, frame: bytes) -> None:
            if number == b.number and frame[KIND_BYTE] != IPV6:
                data.append(frame)

        world.arrival = arrives
        a.write(b, 1 << 20)
        world.run(until=lambda: len(data) == 100)
        assert b.nic.qp_counters(b.qpn).data_received in (99, 100)
        world.run(until=lambda: len(data) == 150)
        assert b.nic.hw_counters(b.qpn, world.now)["rx_data_packets"] in (149, 150)
        world.run(until=a.idle)
    assert a.buffer == b.buffer


def test_packets_behind_a_gap_of_rc_are_dropped_without_python(module: ModuleType) -> None:
    """All but the first of them, which is answered by a NAK; all are counted; the message arrives whole."""
    with used(module):
        world = World()
        a, b = connect(world, kind=QpType.RC)
        datapath, lost = b.nic._context.datapath, []
        receive, carried = datapath.receive, []

        def receive_most(port: int, frame: bytes) -> object:
            lost.append(frame)
            if len(lost) == 100:
                return True  # as if it had never come
            found = receive(port, frame)
            carried.append(found is True or isinstance(found, tuple))
            return found

        datapath.receive = receive_most
        a.write(b, 1 << 20)
        world.run(until=lambda: len(lost) > 100)
        before = len(carried)
        world.run(until=lambda: len(lost) == 104)
        behind = b.nic.qp_counters(b.qpn).out_of_order_received
        world.run(until=a.idle)
    assert a.buffer == b.buffer
    assert behind == 4
    assert carried[before:][:3] == [True] * 3
    assert b.nic.qp_counters(b.qpn).out_of_order_received > behind
    assert sum(carried) > 0.95 * len(carried)


@pytest.mark.parametrize("gathered", [False, True])
@pytest.mark.parametrize("size", [*SIZES, 65_400])
def test_frames_of_rc_are_those_of_the_model(module: ModuleType, size: int, gathered: bool) -> None:
    """Every kind of segment, up to the largest path MTU, and acknowledgements."""
    chance = random.Random(size)
    data = chance.randbytes(1 << 17)
    with used(module):
        given = connection({"path_mtu": 4096})
    path, config, dscp = path_of(given), given.nic.config, given.nic.settings.dscp
    to = config.destinations[0].address

    def framed(body: bytes, role: int, ecn: int) -> bytes:
        return frames.assemble(config, path.port, b"", None, to, 0, path.entropy, role, ecn, body)

    for kind in range(6):
        first, last = kind in (0, opcodes.ONLY, opcodes.ONLY_IMM), kind >= opcodes.LAST
        imm = chance.getrandbits(32) if kind in (opcodes.LAST_IMM, opcodes.ONLY_IMM) else None
        opcode = WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM
        request = WorkRequest(0, opcode, 0, 0, len(data), chance.getrandbits(64), chance.getrandbits(32), imm)
        psn, word, offset = 1000, chance.getrandbits(32) & ~(0xF << 24), chance.randrange(len(data) - size)
        wqe = Wqe(request, NOTHING if gathered else memoryview(data))
        wqe.pieces = GatherList([memoryview(data)[:77], memoryview(data)[77:]]) if gathered else None
        wqe.first_psn, wqe.last_psn = psn - (not first), psn + (not last)
        bth = headers.bth.pack(opcodes.RC_WRITE_FIRST + kind, (-size & 3) << 4, headers.PKEY, REMOTE_QPN, word)
        reth = struct.pack("!QII", request.remote_address, request.rkey, len(data)) if first else b""
        imm_dt = b"" if imm is None else imm.to_bytes(4, "big")
        body = bth + reth + imm_dt + data[offset : offset + size] + bytes(-size & 3)
        frame = RcDataPackets(path, REMOTE_QPN, given.nic.datapath).build(wqe, psn, offset, size, word)
        assert frame == framed(body, dscp.no_trim, 2), kind
        answer = data[:4] + bytes(1) + data[: 11 + (size & ~3)]  # no QPN has more than 24 bits
        assert path.control_frame(answer) == framed(answer, dscp.control, 0)
