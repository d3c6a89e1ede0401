"""Arbitrary bytes into a NIC: nothing escapes, nothing is written, nobody is answered who should not be."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_host.wire import icrc
from tests.mrc_host.wires import MS, World, connect

quick = settings(deadline=None)


def make_world() -> tuple[World, list[tuple[int, bytes]]]:
    """A NIC pair after some traffic, and valid frames of every kind as they reached NIC 1."""
    world = World(nics=2)
    a, b = connect(world, size=8192)
    frames: list[tuple[int, bytes]] = []

    def spy(number: int, port: int, frame: bytes) -> None:
        if number == b.number:
            frames.append((port, frame))

    world.arrival = spy
    a.write(b, 8192, imm=1)
    b.write(a, 100)
    world.run(100 * MS)
    world.arrival = None
    return world, frames


WORLD, FRAMES = make_world()
KINDS = sorted({frame[102] for _port, frame in FRAMES})


def settle(world: World, port: int, frame: bytes) -> None:
    nic = world.nics[1]
    nic.receive(port, frame, world.now)
    for p in range(world.planes):
        for _ in range(50):
            if nic.transmit(p, world.now) is None:
                break
    assert nic.nic_counters()["drop_internal_error"] == 0


def test_the_seeds_cover_the_opcodes() -> None:
    assert {0xC6, 0xC9, 0xD1, 0xD8, 0xD9, 0xDC} <= set(KINDS)


@quick
@given(st.integers(0, 1), st.binary(max_size=300))
def test_raw_bytes(port: int, frame: bytes) -> None:
    settle(WORLD, port, frame)


@quick
@given(st.data())
def test_mutated_frames(data: st.DataObject) -> None:
    """Valid frames with bytes changed, cut or added; most die at the ICRC."""
    port, frame = data.draw(st.sampled_from(FRAMES))
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(changed)))
    settle(WORLD, port, bytes(changed[: data.draw(st.sampled_from([len(changed), cut]))]))


@quick
@given(st.data())
def test_mutated_frames_with_valid_icrc(data: st.DataObject) -> None:
    """The same behind the checksum: every decoder and the queue pair see the bytes. A fresh NIC for each."""
    world, frames = make_world()
    before = bytes(world_buffer(world))
    port, frame = data.draw(st.sampled_from(frames))
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 6))):
        changed[data.draw(st.integers(102, min(len(changed) - 5, 102 + 60)))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        qpn_at = 102 + 5
        changed[qpn_at : qpn_at + 3] = frame[qpn_at : qpn_at + 3]
    body = bytes(changed[102:-4])
    changed[-4:] = icrc.pack_trailer(icrc.compute(bytes(changed[54:102]), body))
    settle(world, port, bytes(changed))
    after = bytes(world_buffer(world))
    assert len(after) == len(before)


@quick
@given(st.data())
def test_trimmed_frames_of_any_content(data: st.DataObject) -> None:
    world, frames = make_world()
    before = bytes(world_buffer(world))
    port, frame = data.draw(st.sampled_from(frames))
    trimmed = bytearray(frame[: 14 + data.draw(st.integers(80, 140))])
    dscp = data.draw(st.sampled_from([12, 16]))
    first = int.from_bytes(trimmed[14:16], "big") & ~(63 << 6) | dscp << 6
    trimmed[14:16] = first.to_bytes(2, "big")
    for _ in range(data.draw(st.integers(0, 4))):
        trimmed[data.draw(st.integers(54, len(trimmed) - 1))] = data.draw(st.integers(0, 255))
    settle(world, port, bytes(trimmed))
    assert bytes(world_buffer(world)) == before, "a trimmed packet carries no bytes to write"


def world_buffer(world: World) -> memoryview:
    """Registered memory of NIC 1."""
    region = next(iter(world.nics[1]._host.memory._by_rkey.values()))
    assert region.view is not None
    return region.view
