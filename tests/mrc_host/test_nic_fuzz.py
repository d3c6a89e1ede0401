"""Arbitrary bytes into a NIC: nothing escapes, nothing is written, nobody is answered who should not be."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mrc_host.config import EvFormat
from mrc_host.verbs_types import Access, MemoryRegionInfo, QpType
from mrc_host.wire import opcodes
from tests.models.frames import SRV6_PREFIX, bth_offset, sealed
from tests.mrc_host.nic_world import ALL_RIGHTS, MS, World, connect
from tests.mrc_host.test_formats import FORMATS, Wire


def make_world() -> tuple[World, list[tuple[int, bytes]], bytearray]:
    """Two NICs that have exchanged writes, the frames that NIC 1 got, and its memory."""
    """A NIC pair after some traffic, and valid frames of every kind as they reached NIC 1."""
    world = World(nics=2)
    a, b = connect(world, size=8192)
    frames: list[tuple[int, bytes]] = []

    def spy(number: int, port: int, frame: bytes) -> None:
        if number == b.number:
            frames.append((port, frame))

    world.arrival = spy
    a.write(b, 8192, imm=1)
    a.write(b, 100)
    b.write(a, 100)
    world.run(100 * MS)
    world.arrival = None
    return world, frames, b.buffer


WORLD, FRAMES, WRITTEN = make_world()
KINDS = sorted({frame[102] for _port, frame in FRAMES})


class Secrets:
    """Memory of NIC 1 that its peer may not write: without the right, in another domain, and beside a region."""

    def __init__(self, world: World) -> None:
        nic = world.nics[1]
        whole = bytearray(b"s" * 4096 * 3)
        self.buffers = [bytearray(b"s" * 8192), bytearray(b"s" * 8192), whole]
        self.regions: list[MemoryRegionInfo] = [
            nic.register_memory(0, memoryview(self.buffers[0]), Access.LOCAL_WRITE),
            nic.register_memory(1, memoryview(self.buffers[1]), ALL_RIGHTS),
            nic.register_memory(0, memoryview(whole)[4096:8192], ALL_RIGHTS),
        ]

    def untouched(self) -> bool:
        local, other, whole = self.buffers
        mine = whole[:4096] + whole[8192:]
        return all(set(part) == {ord("s")} for part in (local, other, mine))


def seal(frame: bytearray) -> bytes:
    """The frame with the ICRC that belongs to its other bytes."""
    start = bth_offset(frame)
    inner = start - (28 if frame[12:14] == b"\x08\x00" else 48)
    frame[:] = sealed(frame, inner, start)
    return bytes(frame)


def settle(world: World, port: int, frame: bytes) -> None:
    nic = world.nics[1]
    nic.receive(port, frame, world.now)
    for p in range(world.planes):
        for _ in range(50):
            if nic.transmit(p, world.now) is None:
                break
    assert nic.nic_counters()["drop_internal_error"] == 0


def test_the_seed_frames_cover_the_opcodes() -> None:
    assert {0xC6, 0xC9, 0xD1, 0xD8, 0xD9, 0xDC} <= set(KINDS)


@given(st.integers(0, 1), st.binary(max_size=300))
def test_raw_bytes_do_no_harm(port: int, frame: bytes) -> None:
    settle(WORLD, port, frame)


@given(st.data())
def test_mutated_frames_do_no_harm(data: st.DataObject) -> None:
    """Valid frames with bytes changed, cut or added; most die at the ICRC."""
    port, frame = data.draw(st.sampled_from(FRAMES))
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(changed)))
    settle(WORLD, port, bytes(changed[: data.draw(st.sampled_from([len(changed), cut]))]))


@given(st.data())
def test_mutated_frames_with_valid_icrc_do_no_harm(data: st.DataObject) -> None:
    """The same behind the checksum: every decoder and the queue pair see the bytes. A fresh NIC for each."""
    world, frames, _ = make_world()
    secrets = Secrets(world)
    port, frame = data.draw(st.sampled_from(frames))
    changed = bytearray(frame)
    if frame[102] <= 0xCB and data.draw(st.booleans()):
        region = data.draw(st.sampled_from(secrets.regions))
        address = region.address + data.draw(st.sampled_from([-100, -1, 0, 1, 4000, 8092]))
        changed[122:134] = address.to_bytes(8, "big") + region.rkey.to_bytes(4, "big")
        psn = int.from_bytes(frame[111:114], "big") + data.draw(st.integers(0, 4))
        changed[111:114] = (psn & 0xFFFFFF).to_bytes(3, "big")
        changed[117] += data.draw(st.integers(0, 2))  # MSN
    for _ in range(data.draw(st.integers(0, 6))):
        changed[data.draw(st.integers(102, min(len(changed) - 5, 102 + 60)))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        qpn_at = 102 + 5
        changed[qpn_at : qpn_at + 3] = frame[qpn_at : qpn_at + 3]
    settle(world, port, seal(changed))
    assert secrets.untouched()


def flip(start: int, end: int) -> Callable[[bytearray, int], None]:
    """Change the bytes from `start` to `end` by a number that is not zero."""

    def change(frame: bytearray, by: int) -> None:
        size = end - start
        old = int.from_bytes(frame[start:end], "big")
        frame[start:end] = (old ^ (1 + by % ((1 << 8 * size) - 1))).to_bytes(size, "big")

    return change


NOT_FOR_US = {
    "another MAC": flip(0, 6),
    "another uSID in turn": flip(38, 44),
    "another NIC's address": flip(78, 94),
    "from somebody else": flip(62, 78),
    "another UDP port": flip(96, 98),
    "another queue pair": flip(107, 110),
}


@given(st.sampled_from(sorted(NOT_FOR_US)), st.integers(0, len(FRAMES) - 1), st.integers(0, 1 << 128))
def test_frames_for_other_destinations_are_not_answered(what: str, which: int, by: int) -> None:
    nic, buffer = WORLD.nics[1], bytes(WRITTEN)
    for port in range(WORLD.planes):
        while nic.transmit(port, WORLD.now) is not None:
            pass
    port, frame = FRAMES[which]
    changed = bytearray(frame)
    NOT_FOR_US[what](changed, by)
    nic.receive(port, seal(changed), WORLD.now)
    answers = [frame for port in range(WORLD.planes) if (frame := nic.transmit(port, WORLD.now)) is not None]
    if what == "another queue pair":  # its sender may get an answer that there is none, in a packet that is no longer
        assert all(a[SRV6_PREFIX] == opcodes.ENDPOINT_REQUEST and len(a) <= len(changed) for a in answers[:1])
        del answers[:1]
    assert not answers
    assert bytes(WRITTEN) == buffer


@given(st.sampled_from(FORMATS), st.sampled_from(QpType), st.data())
def test_mutated_frames_in_every_format_do_no_harm(
    where: tuple[EvFormat, tuple[bytes, ...]], kind: QpType, data: st.DataObject
) -> None:
    wire = Wire(*where)
    wire.connect(kind)
    wire.write(9000, imm=1)
    wire.run(60_000)
    frames = [(port, wire.carry(1, port, frame)) for number, port, frame in wire.seen if number == 0]
    assert len(frames) >= 3
    guard = bytearray(b"s" * 8192)
    wire.nics[1].register_memory(0, memoryview(guard), Access.LOCAL_WRITE)
    port, frame = data.draw(st.sampled_from(frames))
    changed = bytearray(frame)
    start = bth_offset(frame)
    for _ in range(data.draw(st.integers(1, 6))):
        changed[data.draw(st.integers(14, min(len(changed) - 5, start + 60)))] = data.draw(st.integers(0, 255))
    if bth_offset(changed) == start:
        seal(changed)
    wire.nics[1].receive(port, bytes(changed), wire.now)
    wire.run(5_000)
    assert wire.nics[1].nic_counters()["drop_internal_error"] == 0
    assert guard == b"s" * 8192


@given(st.data())
def test_trimmed_frames_of_any_content_do_no_harm(data: st.DataObject) -> None:
    world, frames, written = make_world()
    before = bytes(written)
    port, frame = data.draw(st.sampled_from(frames))
    trimmed = bytearray(frame[: 14 + data.draw(st.integers(80, 140))])
    dscp = data.draw(st.sampled_from([12, 16]))
    first = int.from_bytes(trimmed[14:16], "big") & ~(63 << 6) | dscp << 6
    trimmed[14:16] = first.to_bytes(2, "big")
    for _ in range(data.draw(st.integers(0, 4))):
        trimmed[data.draw(st.integers(54, len(trimmed) - 1))] = data.draw(st.integers(0, 255))
    settle(world, port, bytes(trimmed))
    assert written == before, "a trimmed packet carries no bytes to write"
