"""A NIC does the same when Python takes all packets, as it does while traced: the same frames, memory, counters.

Random worlds with faults, flapping ports, small limits and two kinds of queue pairs run once with each; then hostile
frames go to both.
"""

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.config import TransportSettings
from mrc_host.errors import MrcError
from mrc_host.verbs_types import QpAttributes, QpState, QpType
from mrc_host.wire import opcodes
from mrc_host.wire.psn import HALF, MASK
from tests.fuzz.fuzz_nic import Fuzzer
from tests.mrc_host.datapath.hostile import RC_BTH, frames_of_messages_under_way, rc_packets_of_a_message_under_way
from tests.mrc_host.datapath.module import leaving_all_to_python, native, used
from tests.mrc_host.nic_world import MS, US, End, Faults, World, connect
from tests.mrc_host.test_nic_fuzz import Secrets, make_world, seal
from tests.mrc_host.test_nic_properties import Write, faults, flaps, limits, psns, writes

SIZE = 300_000


def on_both(run: Callable[[], Any]) -> None:
    """What `run` returns is the same whether or not packets are placed without Python."""
    module = native()
    with used(module):
        carried = run()
    with used(leaving_all_to_python(module)):
        reference = run()
    assert carried == reference


def state(world: World, ends: list[End]) -> list[Any]:
    """All that shows of the NICs."""
    for end in ends:
        end.poll()
    return [
        world.now,
        world.sent,
        [dict(nic.nic_counters()) for nic in world.nics],
        [nic.async_events() for nic in world.nics],
        [
            (bytes(end.buffer), end.done, end.nic.qp_state(end.qpn), end.nic.hw_counters(end.qpn, world.now),
             end.nic.qp_counters(end.qpn), end.nic.qp_paths(end.qpn))
            for end in ends
        ],
    ]  # fmt: skip


@given(
    writes, faults, flaps, st.integers(1, 4), st.lists(st.sampled_from(QpType), min_size=1, max_size=3), psns,
    st.sampled_from([256, 1024, 4096]), limits, st.integers(0, 1 << 20),
)  # fmt: skip
def test_random_transfers_under_random_faults(
    plan: list[Write], fault: Faults, flap: list[tuple[int, int, int, int]], planes: int, kinds: list[QpType],
    psn: int | None, mtu: int, transport: TransportSettings, seed: int,
) -> None:  # fmt: skip
    """Queue pairs in turn write the plan; at random times one is reset and connected again, or a region goes."""

    def run() -> list[Any]:
        chance = random.Random(seed)
        fault.rng.seed(fault.seed)
        world = World(planes=planes, uplinks=2, faults=fault, transport=transport)
        world.record = True
        attributes = QpAttributes(path_mtu=mtu, timeout=9, send_psn=psn, receive_psn=psn, max_wimm=4, max_wimm_dest=4)
        pairs = [connect(world, size=SIZE, kind=kind, attributes=attributes) for kind in kinds]
        for number, port, after, duration in flap:
            if port < planes:
                down = world.now + after * US
                world.at(down, lambda n=number, p=port: world.set_port(n, p, False))
                world.at(down + duration * US, lambda n=number, p=port: world.set_port(n, p, True))
        for number, write in enumerate(plan):
            a, b = pairs[number % len(pairs)]
            world.run(write.wait)
            _act(chance.randrange(40), world, a, b)
            try:
                a.write(
                    b, write.length, offset=write.offset, imm=number if write.imm else None, signaled=write.signaled
                )
            except MrcError as error:
                world.sent.append((world.now, -1, -1, str(error).encode()))
        world.run(200 * MS)
        return state(world, [end for pair in pairs for end in pair])

    on_both(run)


def _act(what: int, world: World, a: End, b: End) -> None:
    """Mostly nothing."""
    if what == 0:
        _tried(world, lambda: b.nic.deregister_memory(b.region.lkey))
    elif what == 1:  # packets of the earlier life are still under way
        for end in (a, b):
            end.nic.modify_qp(end.qpn, QpState.RESET, world.now)
        for end, other in ((a, b), (b, a)):
            _tried(world, functools.partial(end.nic.connect_qp, end.qpn, other.nic.qp_address(other.qpn), world.now))
    elif what == 2:
        b.nic.modify_qp(b.qpn, QpState.ERROR, world.now)
    elif what == 3:
        b.nic.set_trace(lambda event: None)
    elif what == 4:
        b.nic.set_trace(None)


def _tried(world: World, action: Callable[[], Any]) -> None:
    """Do it; a refusal is among what is compared."""
    try:
        action()
    except MrcError as error:
        world.sent.append((world.now, -1, -1, str(error).encode()))


def test_messages_that_follow_each_other_complete_at_the_same_time() -> None:
    """Their last packets request no acknowledgement, so nothing but the completion makes them remarkable."""

    def run() -> list[Any]:
        world = World()
        world.record = True
        a, b = connect(world, attributes=QpAttributes(path_mtu=1024))
        for number in range(40):
            a.write(b, 3000, offset=3000 * number)
        world.run(100 * MS)
        return state(world, [a, b])

    on_both(run)


@given(
    st.integers(50, 400),
    st.integers(2, 4),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.sampled_from([0, 8, 30]),
    psns,
    st.integers(0, 1 << 20),
)
def test_planes_of_different_delays(
    late: int, planes: int, unlucky: float, dynamic: int, psn: int | None, seed: int
) -> None:
    """More arrives ahead of the late plane's packets than one bitmap shows; the offered range may grow."""
    wide: list[int] = []

    def run() -> list[Any]:
        faults = Faults(seed=seed, plane_delay={0: late * US}, loss=unlucky, mark=unlucky)
        world = World(planes=planes, uplinks=2, faults=faults)
        world.record = True
        attributes = QpAttributes(path_mtu=256, send_psn=psn, receive_psn=psn, dynamic_mpr=dynamic, mpr=8, mpr_dest=8)
        a, b = connect(world, size=SIZE, attributes=attributes)
        for _ in range(4):
            a.write(b, SIZE // 10)
        world.run(100 * MS)
        wide.append(max(_bitmap_starts(frame) for _when, _nic, _port, frame in world.sent))
        return state(world, [a, b])

    on_both(run)
    assert min(wide) > 1


def _bitmap_starts(frame: bytes) -> int:
    """How far from the cumulative PSN the bitmap of a SACK starts; 0 for other frames."""
    return int.from_bytes(frame[132:134], "big", signed=True) if frame[102] == opcodes.SACK else 0


@given(st.integers(0, 1 << 32))
def test_hostile_frames(seed: int) -> None:
    """Valid frames changed behind their ICRC, cut, trimmed, repeated: each NIC answers them alike."""

    def run() -> list[Any]:
        chance = random.Random(seed)
        world, frames, buffer = make_world()
        secrets = Secrets(world)
        nic = world.nics[1]
        answers: list[Any] = []
        for _ in range(20):
            port, frame = chance.choice(frames)
            nic.receive(port, Fuzzer._changed(bytearray(frame), secrets, chance), world.now)
            for p in range(world.planes):
                while (answer := nic.transmit(p, world.now)) is not None:
                    answers.append((p, answer))
            if chance.random() < 0.2:
                world.now += chance.choice([1, 1_000, 1_000_000])
                nic.tick(world.now)
        return [answers, bytes(buffer), secrets.buffers, dict(nic.nic_counters()), nic.hw_counters(None, world.now)]

    on_both(run)


@given(st.integers(0, 1 << 32), psns)
def test_hostile_packets_of_messages_under_way(seed: int, psn: int | None) -> None:
    """A peer's long message is half here, so its packets are carried; then come packets that only look like its own."""
    on_both(lambda: frames_of_messages_under_way(random.Random(seed), psn))


@given(st.integers(0, 1 << 32), psns)
def test_hostile_packets_of_an_rc_message_under_way(seed: int, psn: int | None) -> None:
    on_both(lambda: rc_packets_of_a_message_under_way(random.Random(seed), psn))


@pytest.mark.parametrize("kind", QpType)
def test_frames_that_were_cut(kind: QpType) -> None:
    """Wherever they were, behind a prefix that is known."""

    def run() -> list[Any]:
        world = World()
        a, b = connect(world, kind=kind)
        frames: list[tuple[int, bytes]] = []
        world.arrival = lambda number, port, frame: frames.append((port, frame)) if number == b.number else None
        a.write(b, 20_000)
        world.run(until=a.idle)
        port, frame = next((port, frame) for port, frame in frames if len(frame) > 4000)
        drops = []
        for length in (*range(160), 1000, len(frame) - 1):
            b.nic.receive(port, frame[:length], world.now)
            drops.append({name: count for name, count in b.nic.nic_counters().items() if name.startswith("drop")})
        return drops

    on_both(run)


@pytest.mark.parametrize("ahead", [2, HALF - 1, HALF, HALF + 1, MASK])
def test_packets_behind_a_gap_and_duplicates(ahead: int) -> None:
    """From half of all PSNs on, a packet is behind the expected one instead of ahead of it."""

    def run() -> list[Any]:
        world = World()
        a, b = connect(world, kind=QpType.RC, attributes=QpAttributes(path_mtu=256, send_psn=100, receive_psn=100))
        frames: list[tuple[int, bytes]] = []
        world.arrival = lambda number, port, frame: frames.append((port, frame)) if number == b.number else None
        a.write(b, 256 * 12)
        world.run(until=lambda: len(frames) == 6)
        (port, frame), answers = frames[-1], []
        expected = int.from_bytes(frame[RC_BTH + 9 : RC_BTH + 12], "big") + 1
        for distance in (1, 1, ahead, ahead, 0):
            changed = bytearray(frame)
            changed[RC_BTH + 9 : RC_BTH + 12] = (expected + distance & MASK).to_bytes(3, "big")
            b.nic.receive(port, seal(changed), world.now)
            answers.append([b.nic.transmit(p, world.now) for p in range(world.planes)])
        return [answers, b.nic.hw_counters(b.qpn, world.now), b.nic.qp_counters(b.qpn), bytes(b.buffer)]

    on_both(run)


@given(
    st.integers(1, 40),
    st.sampled_from([256, 1024]),
    st.sampled_from([0.0, 0.02, 0.1]),
    st.sampled_from([0.0, 0.02, 0.7]),
    st.sampled_from(["", "dcqcn"]),
    st.integers(0, 1 << 20),
)
def test_rc_messages_of_a_few_packets(
    packets: int, mtu: int, unlucky: float, mark: float, congestion: str, seed: int
) -> None:
    """With and without a middle, one after another, over links that lose, repeat and mark."""

    def run() -> list[Any]:
        faults = Faults(seed=seed, loss=unlucky, duplicate=unlucky, mark=mark)
        world = World(planes=2, faults=faults)
        world.record = True
        attributes = QpAttributes(path_mtu=mtu, timeout=9, cc_profile=congestion)
        a, b = connect(world, size=SIZE, kind=QpType.RC, attributes=attributes)
        chance = random.Random(seed)
        for number in range(20):
            a.write(b, max(0, packets * mtu - chance.randrange(3)), imm=number if chance.random() < 0.5 else None)
        world.run(100 * MS)
        return state(world, [a, b])

    on_both(run)
