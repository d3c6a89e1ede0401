"""Data packets that stay where the application wrote them: as if frames had been built, whatever it does then."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from mrc_host.verbs_types import QpAttributes, QpState, QpType
from tests.mrc_host.datapath.in_place import HEAD, InPlaceWorld, Packet, transmit, under_way
from tests.mrc_host.datapath.module import native, used
from tests.mrc_host.datapath.test_pieces import accepted
from tests.mrc_host.nic_world import MS, US, End, Faults, World, connect
from tests.seeds import SEED

FAULTS: tuple[dict[str, Any], ...] = (
    {},
    {"loss": 0.02, "mark": 0.1},
    {"trim": 0.05},
    {"corrupt": 0.05},
    {"delay": 0.3, "extra": 20_000},
    {"duplicate": 0.3, "delay": 0.3, "extra": 200_000},
)


@pytest.fixture
def module() -> ModuleType:
    return native()


def shown(a: End, b: End, world: World) -> list[Any]:
    """All that shows of two ends."""
    ends = [[end.poll(), bytes(end.buffer), dict(end.nic.nic_counters()), end.nic.port_counters()] for end in (a, b)]
    return [ends, [end.nic.hw_counters(None, world.now) for end in (a, b)], world.sent]


def pair(
    make: Callable[..., World], faults: dict[str, Any], size: int, kind: QpType = QpType.MRC
) -> tuple[World, End, End]:
    world = make(planes=2, faults=Faults(seed=SEED, **faults))
    world.record = True
    a, b = connect(world, size=size, kind=kind, attributes=QpAttributes(path_mtu=1024))
    a.buffer[:] = random.Random(SEED).randbytes(size)
    world.run(MS)  # they tell each other of their ports
    return world, a, b


def test_the_layout_is_that_of_the_header(module: ModuleType) -> None:
    with used(module):
        world, a, b = pair(World, {}, 1 << 12)
        a.write(b, 1 << 12)
        frame, packet = transmit(a.nic, a.nic.transmit, 0, world.now)
        assert frame is not None
        assert packet is not None
        assert len(frame) == HEAD + packet.fields.length
        payload = 102 + 36 + 1024 - HEAD
        assert (packet.fields.payload_length, packet.fields.length) == (payload, payload + 4)
        assert under_way(a.nic) == 1
        del packet
        assert under_way(a.nic) == 0


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        *((QpType.MRC, faults) for faults in FAULTS),
        (QpType.RC, {}),
        (QpType.RC, {"loss": 0.01, "mark": 0.1}),
        (QpType.RC, {"duplicate": 0.3, "corrupt": 0.01}),
    ],
    ids=str,
)
def test_a_transfer_is_the_same(module: ModuleType, kind: QpType, faults: dict[str, Any]) -> None:
    """RC leaves packets in place each time that it sends them."""

    def transfer(make: Callable[..., World]) -> tuple[list[Any], World]:
        world, a, b = pair(make, faults, 1 << 18, kind)
        for number in range(4):
            a.write(b, 1 << 18, imm=number)
        world.run(200 * MS if kind is QpType.MRC else 5000 * MS)
        assert a.buffer == b.buffer
        return shown(a, b, world), world

    with used(module):
        built, _ = transfer(World)
        left, world = transfer(InPlaceWorld)
    assert left == built, f"seed {SEED}"
    assert isinstance(world, InPlaceWorld)
    assert world.arrived > (450 if kind is QpType.MRC else 900)
    assert world.carried > 300


@pytest.mark.parametrize("faults", FAULTS, ids=str)
def test_memory_may_change_once_a_message_has_ended(module: ModuleType, faults: dict[str, Any]) -> None:
    """The application writes to it at once, while repeated packets of the message are still under way."""

    def use_again(make: Callable[..., World]) -> list[Any]:
        world, a, b = pair(make, faults, 1 << 14)
        chance, slot, most = random.Random(f"{SEED}/again"), 1 << 12, 64

        def look() -> None:
            for entry in a.poll():
                at = entry.wr_id % 4 * slot
                a.buffer[at : at + slot] = chance.randbytes(slot)
                if a.next_id <= most:
                    a.write(b, slot, offset=a.next_id % 4 * slot)
            world.pump(0)
            if len(a.done) < most:
                world.at(world.now + 2 * US, look)

        for number in range(1, 5):
            a.write(b, slot, offset=number % 4 * slot)
        look()
        world.run(500 * MS)
        assert len(a.done) == most
        return [a.done, *shown(a, b, world)]

    with used(module):
        assert use_again(InPlaceWorld) == use_again(World), f"seed {SEED}"


@pytest.mark.parametrize("how", ["reset", "error", "destroy", "deregister"])
def test_memory_may_change_once_the_nic_has_given_it_back(module: ModuleType, how: str) -> None:
    """What is under way then is written as it was when it left."""

    def give_back(make: Callable[..., World]) -> tuple[list[Any], int, int]:
        world, a, b = pair(make, {"delay": 0.5, "extra": 50_000}, 1 << 16)
        a.write(b, 1 << 16)
        world.run(8 * US)
        before = under_way(a.nic)
        if how == "deregister":
            a.nic.deregister_memory(a.region.lkey)
        elif how == "destroy":
            a.nic.destroy_qp(a.qpn, world.now)
        else:
            a.nic.modify_qp(a.qpn, QpState[how.upper()], world.now)
        left = under_way(a.nic)
        old = bytes(a.buffer)
        a.buffer[:] = bytes(1 << 16)
        world.run(100 * US)
        arrived = sum(b.buffer[at] == old[at] for at in range(1 << 16))
        assert arrived > 1024, "packets that had left arrive"
        return [bytes(b.buffer), dict(b.nic.nic_counters()), world.sent], before, left

    with used(module):
        in_place, before, left = give_back(InPlaceWorld)
        built, *none = give_back(World)
    assert in_place == built
    assert none == [0, 0]
    assert before > 2
    assert left == 0


def test_a_nic_that_is_gone_has_left_nothing_behind(module: ModuleType) -> None:
    """Its packets go on with copies of their own."""
    with used(module):
        world, a, b = pair(World, {}, 1 << 14)
        a.write(b, 1 << 14)
        sent = [transmit(a.nic, a.nic.transmit, port, world.now) for port in (0, 1, 0, 1)]
        world.nics[0] = world.nics[1]
        del a, b, world
        gc.collect()
        for frame, packet in sent:
            assert frame is not None
            assert packet is not None
            assert packet.fields.link is None
            assert packet.rest() == frame[HEAD:]
            for length in (0, 1, packet.fields.payload_length, packet.fields.length - 1):
                assert packet.rest(length) == frame[HEAD : HEAD + length]


def left_and_arriving(world: World, a: End, b: End) -> list[tuple[int, bytes, Packet]]:
    """Packets in place of a write, with port and head as they reach the other NIC, but the first and the last."""
    a.write(b, 1 << 16)
    found = []
    for number in range(60):
        frame, packet = transmit(a.nic, a.nic.transmit, number % 2, world.now)
        assert frame is not None
        assert packet is not None
        mac, locator = world._heads[1, number % 2]
        found.append((number % 2, b"".join((mac, frame[6:38], locator, frame[54:HEAD])), packet))
    b.nic.receive(0, found[0][1] + found[0][2].rest(), world.now)
    return found[1:]


def test_a_changed_head_is_found(module: ModuleType) -> None:
    """Byte by byte: nothing is carried whose ICRC the reference, which gets bytes, would not find right."""
    with used(module):
        world, a, b = pair(World, {}, 1 << 16)
        packets = left_and_arriving(world, a, b)
        unchecked = []
        port, head, packet = packets.pop()
        for at in range(HEAD):
            changed = head[:at] + bytes([head[at] ^ 1]) + head[at + 1 :]
            if accepted(b.nic.config, port, changed + packet.rest()):
                unchecked.append(at)
                if packet.carry(b.nic, port, changed)[0]:
                    port, head, packet = packets.pop()  # it is there now
            else:
                before = bytes(b.buffer)
                assert packet.carry(b.nic, port, changed) == (False, None), at
                assert bytes(b.buffer) == before
        assert set(range(6, 12)) < set(unchecked) < set(range(107)), "a source MAC is anyone's"
        assert 0 < len(packets) < 40
        for at in range(HEAD):
            assert packet.carry(b.nic, port, head[:at]) == (False, None), "a head that was cut"
        assert packet.carry(b.nic, port, head)[0]
        assert packet.carry(b.nic, port, head) == (False, None), "not twice"


def test_a_packet_without_memory_for_its_copy_is_damaged(module: ModuleType) -> None:
    with used(module):
        world, a, b = pair(World, {}, 1 << 16)
        port, head, packet = left_and_arriving(world, a, b)[3]
        sent = packet.rest()
        a.nic.modify_qp(a.qpn, QpState.RESET, world.now)
        copy, packet.fields.payload = packet.fields.payload, None
        assert packet.carry(b.nic, port, head) == (False, None)
        assert packet.rest() == bytes(len(sent) - 4) + packet.rest()[-4:] != sent
        before = b.nic.nic_counters()["drop_icrc"]
        b.nic.receive(port, head + packet.rest(), world.now)
        assert b.nic.nic_counters()["drop_icrc"] == before + 1
        packet.fields.payload = copy


def test_what_is_traced_short_or_asked_for_by_others_is_built(module: ModuleType) -> None:
    with used(module):
        world, a, b = pair(World, {}, 1 << 14)
        a.write(b, 1 << 13)
        assert a.nic.transmit(0, world.now) != bytes(len(a.nic.transmit(1, world.now) or b""))
        events: list[Any] = []
        a.nic.set_trace(events.append)
        assert transmit(a.nic, a.nic.transmit, 0, world.now)[1] is None
        a.nic.set_trace(None)
        assert transmit(a.nic, a.nic.transmit, 0, world.now)[1] is not None
        assert len(events) > 0
        world.run(MS)
        a.write(b, 384 - 102 - 36 - 1)
        a.write(b, 384 - 102 - 36)
        assert [transmit(a.nic, a.nic.transmit, port, world.now)[1] is None for port in (0, 1)] == [True, False]
