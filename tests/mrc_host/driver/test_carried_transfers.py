"""Transfers whose frames reach a NIC through a ring, where its datapath takes what it carries: nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mrc_common.frame_rings import FrameRings
from mrc_host.nic import Nic
from mrc_host.verbs_types import QpAttributes
from tests.mrc_host.datapath.module import native, used
from tests.mrc_host.driver.rings import compiled_ring
from tests.mrc_host.nic_world import MS, End, Faults, World, connect
from tests.seeds import SEED

Give = Callable[[Nic, int, bytes, int], None]


class Rings:
    """Rings to each port of a NIC, read as the driver reads them."""

    def __init__(self, ring_class: Any) -> None:
        self.files = [FrameRings(1 << 16) for _ in range(2)]
        self.near, self.far = [], []
        for rings in self.files:
            ends = [ring_class(end.map(), end.receiving, end.bell, end.other_bell) for end in rings.__enter__().ends]
            for end in ends:
                end.connect(-1, 4500)
                end.stand_aside(False)
            self.near.append(ends[0])
            self.far.append(ends[1])
        self.buffer = memoryview(bytearray(1 << 16))
        self.carried = 0

    def give(self, nic: Nic, port: int, frame: bytes, now: int) -> None:
        far = self.far[port]
        assert nic.datapath is not None
        far.carry_to(nic.datapath.receiver, nic.datapath.carry_frame, port)
        self.near[port].send(frame)
        self.near[port].flush()
        while far.pending():
            frames, size, due = far.carry(8)
            self.carried += frames
            assert size == frames * len(frame)
            if due is not None:
                nic.answer_due(due, now)
            elif not frames:
                length = far.receive_into(self.buffer)
                assert length == len(frame)
                nic.receive(port, self.buffer[:length], now)
        far.release()

    def close(self) -> None:
        self.near.clear()
        self.far.clear()
        for rings in self.files:
            rings.__exit__(None, None, None)


@pytest.fixture(scope="module")
def ring_class() -> Any:
    return compiled_ring()


@pytest.fixture
def rings(ring_class: Any) -> Iterator[Rings]:
    made = Rings(ring_class)
    yield made
    made.close()


def transfer(give: Give | None, **faults: Any) -> list[Any]:
    """All that shows of a transfer whose frames reach the second NIC by `give`."""
    world = World(planes=2, faults=Faults(seed=SEED, **faults))
    world.record = True
    a, b = connect(world, size=1 << 18, attributes=QpAttributes(path_mtu=1024))
    if give is not None:
        world.receivers[1] = lambda port, frame, now: give(b.nic, port, frame, now)
    for number in range(4):
        a.write(b, 1 << 18, imm=number)
    world.run(200 * MS)
    assert a.buffer == b.buffer
    return [a.poll(), b.poll(), counters(a), counters(b), b.nic.port_counters(), world.sent]


def counters(end: End) -> list[Any]:
    return [dict(end.nic.nic_counters()), end.nic.hw_counters(None, 0), end.nic.qp_counters(end.qpn)]


@pytest.mark.parametrize(
    "faults", [{}, {"loss": 0.02, "mark": 0.1}, {"trim": 0.05}, {"delay": 0.3, "extra": 20_000}], ids=str
)
def test_a_transfer_through_rings_is_the_same(rings: Rings, faults: dict[str, Any]) -> None:
    with used(native()):
        plain = transfer(None, **faults)
        through = transfer(rings.give, **faults)
    assert through == plain, f"seed {SEED}"
    assert rings.carried > 300


def test_a_frame_that_was_not_carried_waits_for_python(ring_class: Any, rings: Rings) -> None:
    """It is out of the ring already, but neither lost nor asleep upon."""
    with used(native()):
        world = World(planes=2)
        nic = world.nics[1]
        assert nic.datapath is not None
        near, far = rings.near[0], rings.far[0]
        far.carry_to(nic.datapath.receiver, nic.datapath.carry_frame, 0)
        near.send(b"strange" * 20)
        near.send(b"second" * 20)
        near.flush()
        assert far.carry(8) == (0, 0, None)
        assert far.carry(8) == (0, 0, None)
        assert far.pending()
        assert not far.arm()
        assert [bytes(rings.buffer[: far.receive_into(rings.buffer)]) for _ in range(3)] == [
            b"strange" * 20, b"second" * 20, b"",
        ]  # fmt: skip
        assert not far.pending()
        assert far.arm()
