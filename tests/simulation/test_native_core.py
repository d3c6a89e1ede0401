"""The native core against the reference: the same runs, to the event; and what it does when somebody misbehaves."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest

from mrc_common.c_build.errors import CBuildError
from p4runtime_shim.errors import SwitchError
from p4runtime_shim.pipeline import Pipeline
from simulation import native_core
from simulation.channel import Channel
from simulation.clock import Clock
from simulation.errors import SimulationError
from simulation.hardware_timing import IDEAL, PUBLISHED_TESTBED, HardwareTiming
from simulation.native_core import VARIABLE
from simulation.trace import Trace
from simulation.world import SimulatedWorld
from tests.fuzz import fuzz_engine
from tests.mrc_host.datapath.module import native as datapath_in_c
from tests.mrc_host.datapath.module import used
from tests.p4runtime_shim import programs
from tests.seeds import SEED
from tests.simulation.worlds import GIGA, Pair, small_world, transfer
from tests.swarm.generate_scenario import generate
from tests.swarm.run import run
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkEnd
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.effect import PortShaping
from topologies.faults.loss import Loss

pytestmark = pytest.mark.skipif(bool(native_core.unavailable()), reason="no extension can be compiled here")

CORES = ("native", "reference")


def on_each(monkeypatch, what):
    """What `what()` returns on both cores."""
    results = []
    for core in CORES:
        monkeypatch.setenv(VARIABLE, core)
        results.append(what())
    return results


@pytest.fixture
def native(monkeypatch):
    monkeypatch.setenv(VARIABLE, "native")
    core = native_core.core_for(multi_plane_clos(planes=1, t0=2, t1=1, hosts=2), 0)
    assert core
    return core


@pytest.mark.parametrize("number", range(2))
def test_swarm_seeds_run_alike(monkeypatch, number):
    for seed in range(SEED + 3 * number, SEED + 3 * number + 3):
        native, reference = on_each(monkeypatch, lambda seed=seed: run(generate(seed)))
        assert native == reference, f"seed {seed}"


@pytest.mark.parametrize("number", range(2))
def test_swarm_seeds_run_alike_with_the_datapath_in_c(monkeypatch, number):
    for seed in range(SEED + 100 + 3 * number, SEED + 103 + 3 * number):
        with used(datapath_in_c()):
            native, reference = on_each(monkeypatch, lambda seed=seed: run(generate(seed)))
        assert native == reference == run(generate(seed)), f"seed {seed}"


def prefetch_always(monkeypatch):
    """Clocks made from now on prefetch in small worlds, too; returns them."""
    make, made = native_core.NativeCore.clock, []

    def clock(core):
        made.append(make(core))
        made[-1].least_queued = 0
        return made[-1]

    monkeypatch.setattr(native_core.NativeCore, "clock", clock)
    return made


def test_swarm_seeds_run_alike_when_the_core_prefetches(monkeypatch):
    clocks = prefetch_always(monkeypatch)
    for seed in range(SEED + 200, SEED + 204):
        with used(datapath_in_c()):
            native, reference = on_each(monkeypatch, lambda seed=seed: run(generate(seed)))
        assert native == reference, f"seed {seed}"
    assert sum(clock.foreseen for clock in clocks) > 20


def crowded(seed: int) -> tuple[object, ...]:
    """Sixteen hosts that all write at once."""
    trace = Trace()
    fabric = multi_plane_clos(planes=4, t0=4, t1=2, hosts=16)
    with SimulatedWorld(fabric, seed=seed, rate=100 * GIGA, trace=trace) as world:
        for number in range(16):
            Pair(world, f"h{number + 1}", f"h{(number + 5) % 16 + 1}", length=1 << 16).write()
        world.run(100_000)
        return trace.cut(), world.now, world.clock.events


def test_a_crowded_world_runs_alike_when_the_core_prefetches(monkeypatch):
    clocks = prefetch_always(monkeypatch)
    native, reference = on_each(monkeypatch, lambda: crowded(SEED))
    assert native == reference, f"seed {SEED}"
    assert clocks[0].foreseen > clocks[0].events / 2 > 1000


def test_links_that_change_their_rate_run_alike_when_the_core_prefetches(monkeypatch):
    """Events that are brought forward leave their place in the queue."""
    clocks = prefetch_always(monkeypatch)
    results = on_each(monkeypatch, lambda: contended(SEED))
    assert results[0] == results[1]
    assert clocks[0].foreseen > 0


@pytest.mark.parametrize(("queued", "foreseen"), [(900, 0), (1100, 190)])
@pytest.mark.parametrize("near", [1, 3, 20])
def test_the_core_prefetches_where_many_events_are_queued(native, queued, foreseen, near):
    """A few events in the wheel, which schedule others, and many far away."""
    clock = native.clock()
    left = [200]

    def again(_a, _b):
        if left[0]:
            left[0] -= 1
            clock.at(clock.now + near, again)

    for number in range(queued):
        clock.at(1_000_000 + number, lambda _a, _b: None)
    for number in range(near):
        clock.at(number, again)
    clock.run(until=900_000)
    assert clock.events == 200 + near
    assert foreseen * (near > 1) <= clock.foreseen <= foreseen * 2


def test_nics_get_what_their_datapath_carries_without_python(monkeypatch):
    def write():
        with small_world(seed=SEED) as world:
            result = world.run(transfer(world, length=1 << 20))
            nic = world.nic_node("h3").nic
            unseen = sum(nic.datapath.receiver.unseen(port)[0] for port in range(2))
            counters = [dict(nic.nic_counters()), nic.hw_counters(None, world.now), nic.port_counters()]
            return unseen, [result, world.now, world.clock.events, counters]

    with used(datapath_in_c()):
        (native, seen), (reference, same) = on_each(monkeypatch, write)
    assert reference == 0
    assert native > 200, "of 256 packets"
    assert seen == same


def test_a_nic_that_has_something_due_now_sees_the_frame(native):
    """It is asked for what is due as soon as any frame has arrived, before others act at the same time."""
    with used(datapath_in_c()), small_world(seed=SEED) as world:
        world.spawn(transfer(world, length=1 << 20))
        node = world.nic_node("h3")
        world.run(20_000)
        before = [sum(counts) for counts in zip(*map(node.nic.datapath.receiver.unseen, range(2)), strict=True)]
        received = node.nic.nic_counters()["rx_frames"]
        node._wake_at = world.now
        world.run(22_000)
        after = [sum(counts) for counts in zip(*map(node.nic.datapath.receiver.unseen, range(2)), strict=True)]
        assert node.nic.nic_counters()["rx_frames"] > received + 5
        assert after == before != [0, 0]


def test_a_nic_that_is_traced_or_replaced_sees_every_frame(monkeypatch):
    """In the middle of a transfer its trace is turned on and off, and its verb is replaced for a while."""

    def write():
        events, frames = [], []
        with small_world(seed=SEED) as world:
            node = world.nic_node("h3")
            nic, honest = node.nic, node._receive
            task = world.spawn(transfer(world, length=1 << 20))

            def watched(port, frame, now):
                frames.append((port, bytes(frame), now))
                honest(port, frame, now)

            for number in range(12):
                world.run(5_000 * (number + 1))
                nic.set_trace((lambda event: events.append(repr(event))) if number % 4 == 1 else None)
                node._receive = watched if number % 4 == 3 else honest
            return events, frames, world.run(task).equal, world.now

    with used(datapath_in_c()):
        native, reference = on_each(monkeypatch, write)
    assert native == reference
    events, frames, equal, _ = native
    assert equal
    assert len(events) > 50
    assert len(frames) > 30


_COMPARISONS = (">", ">=", "<", "<=")


def edited_program() -> Pipeline:
    """The fabric's program with some comparisons replaced by others."""
    data = json.loads(programs.FABRIC.read_text())
    chance, comparisons = random.Random(f"{SEED}/program"), []

    def collect(node):
        if isinstance(node, dict):
            if node.get("type") == "expression" and isinstance(node.get("value"), dict):
                value = node["value"]
                if value.get("op") in _COMPARISONS:
                    comparisons.append(value)
            for part in node.values():
                collect(part)
        elif isinstance(node, list):
            for part in node:
                collect(part)

    for pipeline in data["pipelines"]:
        collect(pipeline["conditionals"])
    changed = chance.sample(comparisons, chance.randint(1, len(comparisons)))
    for value in changed:
        value["op"] = chance.choice([op for op in _COMPARISONS if op != value["op"]])
    print(f"seed {SEED}: {len(changed)} of {len(comparisons)} comparisons changed")
    return Pipeline.load(json.dumps(data))


HARDWARE = (  # packets occupy the NICs of all but the first
    IDEAL,
    PUBLISHED_TESTBED,
    HardwareTiming(packet=700),
    HardwareTiming(pcie_rate=30 * GIGA, message=50, dma_write=300),
)


def contended(
    seed: int, pipeline: Pipeline | None = None, hardware: HardwareTiming = IDEAL, watched: bool = False
) -> tuple[object, ...]:
    """A random world, two writers to one host, and impairments that come, change and go.

    `watched`: somebody looks at all that leaves h1 in the middle of it.
    """
    chance, left = random.Random(seed), []
    planes, t1 = chance.choice((1, 2, 4)), chance.choice((1, 2))
    fabric = multi_plane_clos(planes=planes, t0=2, t1=t1, hosts=4)
    trace = Trace()
    rate, delay = chance.choice((1, 10, 100)) * GIGA, chance.choice((0, 1, 1000))
    with SimulatedWorld(
        fabric, seed=seed, rate=rate, delay=delay, pipeline=pipeline, trace=trace, hardware=hardware
    ) as world:
        if watched:
            world.clock.at(chance.randrange(20_000), lambda _a, _b: world.nic_node("h1").watch(left.append))
        links = [end for link in fabric.links for end in (link.lower, link.upper)]
        for when in sorted(chance.randrange(200_000) for _ in range(12)):
            shape = chance.choice(
                (
                    PortShaping(rate_bps=chance.choice((GIGA // 8, GIGA))),
                    PortShaping(delay=chance.randrange(5_000)),
                    PortShaping(reorder=0.2, hold=2_000),
                    PortShaping(reorder=0.1, hold=500, rate_bps=GIGA // 2),
                    None,
                    PortShaping(),
                )
            )
            world.clock.at(when, lambda end, shape: disturb(world.channel(end), shape), chance.choice(links), shape)
            link = chance.choice(fabric.links).name
            fault = chance.choice((Loss(link, 0.1), Loss("*", 0.02), Corruption(link, 0.1), Blackhole("t1-0@p0")))
            world.faults.add(fault, at=when, until=chance.randrange(when + 1, 200_001))
        for end in links:
            world.clock.at(200_000, lambda end, _: disturb(world.channel(end), PortShaping()), end)
        for source in ("h1", "h2"):
            world.spawn(write_some(world, source, "h3"))
        world.run(2_000_000 if rate == GIGA else 300_000)
        stats = [world.channel(end).stats() for end in links]
        return trace.cut(), stats, world.clock.events, len(world.clock.heap), left


def disturb(channel: Channel, shape: PortShaping | None) -> None:
    """Shape a channel that is up; None: take it down."""
    channel.set_up(shape is not None)
    channel.shape(shape or PortShaping())


async def write_some(world: SimulatedWorld, source: str, target: str) -> None:
    pair = Pair(world, source, target, length=1 << 15)
    await asyncio.wait_for(pair.write_without_end(2), 1.0)


@pytest.mark.parametrize("hardware", HARDWARE[1:], ids=("published", "by the packet", "by the byte"))
@pytest.mark.parametrize("watched", [False, True], ids=("", "watched"))
@pytest.mark.parametrize("number", range(2))
def test_worlds_whose_packets_occupy_the_nics_run_alike(monkeypatch, number, hardware, watched):
    with used(datapath_in_c()):
        native, reference = on_each(monkeypatch, lambda: contended(SEED + number, None, hardware, watched))
    assert native == reference, f"seed {SEED + number}"
    assert native[2] > 100


def test_nics_that_packets_occupy_get_them_without_python(monkeypatch):
    """Neither the engine nor the NIC is entered for most."""

    def write():
        with small_world(seed=SEED, hardware=PUBLISHED_TESTBED) as world:
            result = world.run(transfer(world, length=1 << 20))
            nic = world.nic_node("h3").nic
            return sum(nic.datapath.receiver.unseen(port)[0] for port in range(2)), (result, world.clock.events)

    with used(datapath_in_c()):
        (native, seen), (reference, same) = on_each(monkeypatch, write)
    assert reference == 0
    assert native > 200, "of 256 packets"
    assert seen == same


@pytest.mark.parametrize("number", range(4))
def test_random_worlds_run_alike(monkeypatch, number):
    native, reference = on_each(monkeypatch, lambda: contended(SEED + number))
    assert native == reference, f"seed {SEED + number}"
    assert native[2] > 100


def test_rates_of_pcie_without_bound(monkeypatch):
    def write():
        with small_world(seed=SEED, hardware=HardwareTiming(pcie_rate=1 << 70)) as world:
            return world.run(transfer(world, length=1 << 16)), world.clock.events

    native, reference = on_each(monkeypatch, write)
    assert native == reference


def test_an_edited_program_runs_alike(monkeypatch):
    pipeline = edited_program()
    native, reference = on_each(monkeypatch, lambda: contended(SEED, pipeline))
    assert native == reference, f"seed {SEED}"


def test_the_reference_is_chosen_by_the_environment(monkeypatch):
    def clock():
        with small_world() as world:
            return type(world.clock)

    native, reference = on_each(monkeypatch, clock)
    assert reference is Clock
    assert native is not Clock


def test_an_unknown_core_is_refused(monkeypatch):
    monkeypatch.setenv(VARIABLE, "fast")
    with pytest.raises(SimulationError, match="native, reference"):
        small_world()


def refuse_to_compile():
    raise CBuildError("no compiler")


def test_without_a_compiler_the_reference_serves_unless_the_native_core_was_asked_for(monkeypatch, tmp_path):
    with small_world():
        pass  # what NICs and switches need is compiled
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(native_core, "MODULE", SimpleNamespace(load=refuse_to_compile))
    with small_world() as world:
        assert type(world.clock) is Clock
    monkeypatch.setenv(VARIABLE, "native")
    with pytest.raises(SimulationError, match="no compiler"):
        small_world()


@pytest.mark.parametrize("rate", [8_009, GIGA // 3, 100 * GIGA + 7, 1000 * GIGA])
@pytest.mark.parametrize("size", [1, 4096, (1 << 20) - 25, (1 << 20) - 24, 1 << 21])
def test_frames_occupy_a_line_exactly_as_long_as_their_bits_take(monkeypatch, rate, size):
    """Two, one behind the other: the fraction of a nanosecond is carried over. 24 bytes are on the line besides."""
    taken = (size + 24) * 8 * GIGA

    def arrival():
        fabric = multi_plane_clos(planes=1, t0=2, t1=1, hosts=2)
        with SimulatedWorld(fabric, seed=1, rate=rate, delay=0) as world:
            channel = world.channel(fabric.links[0].lower)
            channel.send(bytes(size), 0)
            channel.send(bytes(size), taken // rate)
            world.run()
            return world.now

    assert on_each(monkeypatch, arrival) == [2 * taken // rate] * 2


def test_absurd_rates_and_delays(native, monkeypatch):
    fabric = multi_plane_clos(planes=1, t0=2, t1=1, hosts=2)
    assert native_core.core_for(fabric, 0) is not None
    monkeypatch.delenv(VARIABLE)
    assert native_core.core_for(fabric, 1 << 61) is None
    with small_world() as world:
        channel = world.channel(world.fabric.links[0].lower)
        channel.shape(PortShaping(rate_bps=1, delay=(1 << 62) - 10))
        with pytest.raises(OverflowError, match="146 years"):
            channel.send(bytes(1 << 16), 0)
        channel.shape(PortShaping(rate_bps=0))
        with pytest.raises(ZeroDivisionError):
            channel.send(b"frame", 0)


def test_the_clock_refuses_what_it_cannot_do(native):
    clock = native.clock()
    clock.at(5, lambda a, b: None)
    assert clock.run(10) is False
    assert (clock.now, clock.events, clock.heap) == (10, 1, [])
    with pytest.raises(SimulationError, match="It is 10 ns already"):
        clock.at(9, lambda a, b: None)
    with pytest.raises(OverflowError):
        clock.at(1 << 62, lambda a, b: None)
    clock.at(11, lambda a, b: clock.run())
    with pytest.raises(SimulationError, match="running already"):
        clock.run()
    assert not clock.running


def test_events_of_one_time_run_in_the_order_in_which_they_were_scheduled(native):
    chance = random.Random(SEED)
    clock, seen, expected = native.clock(), [], []
    for number in range(2_000):
        when = chance.randrange(50)
        expected.append((when, number))
        clock.at(when, lambda a, b: seen.append((a, b)), when, number)
    clock.run()
    assert seen == sorted(expected), f"seed {SEED}"


def test_near_and_far_events_run_in_the_order_of_the_reference(native):
    """Handlers schedule more, near and far; the clock runs in steps, some of which reach no event."""

    def log(clock, seed):
        chance, seen, left = random.Random(seed), [], [3_000]

        def handler(number, _):
            seen.append((clock.now, number))
            for _ in range(chance.randrange(3)):
                if left[0]:
                    left[0] -= 1
                    delay = chance.choice((0, 1, 63, 64, 4_095, 4_096, 4_097, chance.randrange(10_000), 1 << 40))
                    clock.at(clock.now + delay, handler, left[0])

        while left[0]:
            left[0] -= 1
            clock.at(clock.now + chance.randrange(5_000), handler, left[0])
            clock.run(clock.now + chance.choice((0, 1, 100, 5_000, 1 << 41)))
        clock.run()
        return seen, clock.now, clock.events, list(clock.heap)

    for seed in range(SEED, SEED + 10):
        found = log(native.clock(), seed)
        assert found == log(Clock(), seed), f"seed {seed}"
        assert len(found[0]) > 1_000


def test_an_exception_of_a_nic_ends_the_run_and_the_next_goes_on(native):
    with small_world() as world:
        node = world.nic_node("h3")
        honest, left = node._receive, [3]

        def failing(port, frame, now):
            left[0] -= 1
            if not left[0]:
                raise ValueError("a NIC's mistake")
            honest(port, frame, now)

        node._receive = failing
        task = world.spawn(transfer(world, length=1 << 16))
        with pytest.raises(ValueError, match="mistake"):
            world.run(task)
        assert not world.clock.running
        assert world.run(task).equal


def test_what_a_nic_keeps_of_its_frames_stays_as_it_was(native):
    """A frame that nobody keeps lends its memory to the next."""
    with small_world() as world:
        node = world.nic_node("h3")
        honest, kept, copies = node._receive, [], []

        def keeping(port, frame, now):
            if len(copies) % 3 != 1:
                kept.append((len(copies), frame if len(copies) % 2 else memoryview(frame)[5:]))
            copies.append(bytearray(frame))
            honest(port, frame, now)

        node._receive = keeping
        assert world.run(transfer(world, length=1 << 18)).equal
    assert len(kept) > 40
    assert all(frame == copies[at][0 if at % 2 else 5 :] for at, frame in kept)


def test_a_closed_world_is_freed_with_what_was_under_way(native):
    class Witness:
        pass

    def use():
        world, witness = small_world(), Witness()
        world.clock.at(1 << 50, lambda a, b: None, witness)
        world.spawn(write_some(world, "h1", "h3"))
        world.run(20_000)
        assert len(world.clock.heap) > 2
        world.close()
        world.close()
        return weakref.ref(witness)

    witness = use()
    gc.collect()
    assert witness() is None


def test_a_closed_hop_hands_frames_to_python(native):
    with small_world() as world:
        world.spawn(write_some(world, "h1", "h3"))
        world.run(20_000)
        for name in [switch.name for switch in world.fabric.switches]:
            world.node(name).leave_native()
        world.run(200_000)
        assert world.channel(LinkEnd("h1", 0)).frames > 10


def test_a_switch_closed_by_itself_is_used_no_more(monkeypatch):
    """A mistake, which ends the run with an error, not the process."""

    def close():
        with small_world() as world:
            world.spawn(write_some(world, "h1", "h3"))
            world.run(20_000)
            world.node("t0-0@p0").switch.close()
            with pytest.raises(SwitchError, match="closed"):
                world.run(200_000)
            return world.now, world.clock.events

    native, reference = on_each(monkeypatch, close)
    assert native == reference


def test_two_worlds_in_two_threads(native):
    cuts = {}

    def use(name):
        trace = Trace()
        with small_world(7, trace=trace) as world:
            world.spawn(write_some(world, "h1", "h3"))
            world.run(300_000)
        cuts[name] = trace.cut()

    threads = [threading.Thread(target=use, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cuts[0] == cuts[1]
    assert cuts[0].frames > 100


SANITIZED = """
import os, sys
from types import SimpleNamespace
from p4runtime_shim import build
from simulation import native_core
from tests.fuzz.engine_child import OPTIONS
build.BuildOptions = lambda: OPTIONS
module = native_core.MODULE.load(OPTIONS)
native_core.MODULE = SimpleNamespace(load=lambda: module)
os.environ[native_core.VARIABLE] = "native"
from tests.swarm.generate_scenario import generate
from tests.swarm.run import run
from tests.simulation.test_native_core import HARDWARE, contended, crowded
from tests.simulation.test_native_flow_control import paused
seed = int(sys.argv[1])
contended(seed)
make_clock = native_core.NativeCore.clock
def clock(core):
    made = make_clock(core)
    made.least_queued = 0
    return made
native_core.NativeCore.clock = clock
contended(seed)
contended(seed, None, HARDWARE[3], True)
paused(seed)
paused(seed, 50_000)
crowded(seed)
for number in range(seed, seed + 3):
    run(generate(number))
print("clean")
"""


def test_the_native_core_is_clean_under_the_sanitizers():
    asan = fuzz_engine.runtime("libasan.so")
    if asan is None or fuzz_engine.runtime("libubsan.so") is None:
        pytest.skip("the compiler has no address or undefined behaviour sanitizer")
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED, str(SEED)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert done.stdout.endswith("clean\n"), f"seed {SEED}: {done.stderr[-3000:]}"
