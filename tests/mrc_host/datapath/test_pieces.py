"""Frames in pieces, which the simulation's core gives to the datapath: everything is as if they had been received."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from mrc_host.config import NicConfig
from mrc_host.verbs_types import QpAttributes, QpState, QpType
from mrc_host.wire import opcodes
from mrc_host.wire.encap import Flow
from tests.models import frames
from tests.mrc_host.datapath.hostile import frames_of_messages_under_way, in_pieces, rc_packets_of_a_message_under_way
from tests.mrc_host.datapath.module import native, used
from tests.mrc_host.datapath.pieces import carry, give
from tests.mrc_host.nic_world import MS, End, Faults, World, connect
from tests.seeds import SEED

_OPCODE = 102  # where it is in a frame with an outer header


@pytest.fixture
def module() -> ModuleType:
    return native()


def transfer(
    cut: Callable[[bytes], int] | None, seed: int = SEED, kind: QpType = QpType.MRC, **faults: Any
) -> tuple[list[Any], int]:
    """All that shows of a transfer whose frames reach the second NIC in pieces, and how many were carried."""
    world = World(planes=2, faults=Faults(seed=seed, **faults))
    world.record = True
    a, b = connect(world, size=1 << 18, kind=kind, attributes=QpAttributes(path_mtu=1024))
    carried = 0

    def receive(port: int, frame: bytes, now: int) -> None:
        nonlocal carried
        if cut is None:
            b.nic.receive(port, frame, now)
        else:
            carried += give(b.nic, port, frame, cut(frame), now)

    world.receivers[1] = receive
    for number in range(4):
        a.write(b, 1 << 18, imm=number)
    world.run(200 * MS if kind is QpType.MRC else 5000 * MS)
    assert a.buffer == b.buffer
    return [a.poll(), b.poll(), counters(a), counters(b), b.nic.port_counters(), world.sent], carried


def accepted(config: NicConfig, port: int, frame: bytes) -> bool:
    """Whether prefix and ICRC of a whole packet are right."""
    flow = frames.receive(config, port, frame)
    return isinstance(flow, Flow) and not flow.trimmed


def counters(end: End) -> list[Any]:
    return [dict(end.nic.nic_counters()), end.nic.hw_counters(None, 0), end.nic.qp_counters(end.qpn)]


@pytest.mark.parametrize(
    "faults", [{}, {"loss": 0.02, "mark": 0.1}, {"trim": 0.05}, {"delay": 0.3, "extra": 20_000}], ids=str
)
@pytest.mark.parametrize("cut", [0, 137, 138, 192, None], ids=str)
def test_a_transfer_in_pieces_is_the_same(module: ModuleType, faults: dict[str, Any], cut: int | None) -> None:
    chance = random.Random(SEED)
    with used(module):
        whole, _ = transfer(None, **faults)
        given, carried = transfer(lambda frame: chance.randint(0, len(frame)) if cut is None else cut, **faults)
    assert given == whole, f"seed {SEED}"
    assert carried > 300 if cut is None or cut >= 138 else carried == 0, "138 bytes are before the payload"


@pytest.mark.parametrize("faults", [{}, {"loss": 0.01, "mark": 0.1, "duplicate": 0.1}], ids=str)
@pytest.mark.parametrize("cut", [0, 73, 74, 192, None], ids=str)
def test_an_rc_transfer_in_pieces_is_the_same(module: ModuleType, faults: dict[str, Any], cut: int | None) -> None:
    chance = random.Random(SEED)
    with used(module):
        whole, _ = transfer(None, kind=QpType.RC, **faults)
        given, carried = transfer(
            lambda frame: chance.randint(0, len(frame)) if cut is None else cut, kind=QpType.RC, **faults
        )
    assert given == whole, f"seed {SEED}"
    assert carried > 300 if cut is None or cut >= 74 else carried == 0, "74 bytes are before the payload"


@pytest.mark.parametrize("seed", [18, 28, 54])
def test_an_answer_that_doubts_its_paths_counts_from_when_it_leaves(module: ModuleType, seed: int) -> None:
    """Not from when Python last saw a frame: it sees fewer, so probes of reverse paths left a microsecond earlier."""
    with used(module):
        whole, _ = transfer(None, seed, trim=0.05)
        given, _ = transfer(lambda _: 138, seed, trim=0.05)
    assert any(nic == 1 and frame[_OPCODE] == opcodes.ENDPOINT_REQUEST for _, nic, _, frame in given[-1])
    assert given == whole


def test_forged_frames_in_pieces_do_the_same(module: ModuleType) -> None:
    with used(module):
        for number in range(60):
            seed = f"{SEED}/{number}"
            whole = frames_of_messages_under_way(random.Random(seed), number or None)
            pieces = frames_of_messages_under_way(random.Random(seed), number or None, in_pieces(random.Random(number)))
            assert pieces == whole, f"seed {seed}"
            whole = rc_packets_of_a_message_under_way(random.Random(seed), number or None)
            pieces = rc_packets_of_a_message_under_way(
                random.Random(seed), number or None, in_pieces(random.Random(number))
            )
            assert pieces == whole, f"seed {seed}"


def test_nothing_is_carried_that_python_must_see(module: ModuleType) -> None:
    """A port without link, an event trace, an unknown or wrong port, a changed byte, a queue pair that was reset.

    A prefix that was not seen before is learned, as Python would, also if nothing checks the byte that changed.
    """
    with used(module):
        world = World(planes=2)
        a, b = connect(world, size=1 << 16, attributes=QpAttributes(path_mtu=1024))
        kept: list[tuple[int, bytes]] = []

        def receive(port: int, frame: bytes, now: int) -> None:
            (b.nic.receive if len(kept) < 20 else lambda *_: None)(port, frame, now)
            kept.append((port, frame))

        world.receivers[1] = receive
        a.write(b, 1 << 16)
        world.run(until=lambda: len(kept) > 30)
        port, frame = next((port, frame) for port, frame in kept[20:] if len(frame) > 1000)
        datapath = b.nic.datapath
        assert datapath is not None

        b.nic.port_changed(port, False, world.now)
        assert carry(datapath, port, frame, 192) == (False, None)
        b.nic.port_changed(port, True, world.now)
        b.nic.set_trace(lambda event: None)
        assert carry(datapath, port, frame, 192) == (False, None)
        b.nic.set_trace(None)
        for wrong in (-1, 2, 63, 64, 1 << 30):
            assert carry(datapath, wrong, frame, 192) == (False, None)
        unchecked = []
        for at in range(len(frame)):
            changed = frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]
            if accepted(b.nic.config, port, changed):
                unchecked.append(at)
            else:
                assert carry(datapath, port, changed, 192) == (False, None), at
        assert set(range(6, 12)) < set(unchecked) < set(range(107)), "a source MAC is anyone's"
        for length in range(len(frame)):
            assert carry(datapath, port, frame[:length], min(192, length)) == (False, None), length
        before = datapath.receiver.unseen(port)
        assert carry(datapath, port, frame, 192)[0], "it is a frame that may be carried"
        assert datapath.receiver.unseen(port) == (before[0] + 1, before[1] + len(frame))
        assert carry(datapath, port, frame, 192) == (False, None), "not twice"
        other, last = [one for at, one in kept[20:] if at == port and len(one) > 1000 and one != frame][:2]
        assert carry(datapath, port, other[:6] + bytes(6) + other[12:], 192)[0], "with a prefix that is met now"
        assert carry(datapath, port, other, 192) == (False, None), "not twice"
        other = last
        b.nic.modify_qp(b.qpn, QpState.RESET, world.now)
        assert carry(datapath, port, other, 192) == (False, None)


def test_a_bug_met_by_a_sack_that_is_due_stops_no_nic(module: ModuleType) -> None:
    """As with a frame that Python receives: it is counted, and the NIC goes on."""
    with used(module):
        world = World(planes=2)
        a, b = connect(world, size=1 << 12)
        flow = Flow(bytes(16), 0, 0, False, False, True, 102, 200)
        b.nic.answer_due((b.qpn ^ 1, 0, 0, flow), world.now)  # of a queue pair that there is not
        assert b.nic.nic_counters()["drop_internal_error"] == 1
        a.write(b, 1 << 12)
        world.run(MS)
    assert a.buffer == b.buffer
