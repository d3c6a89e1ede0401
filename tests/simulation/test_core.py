"""The core in C through whole worlds: what it refuses, and what it does when somebody misbehaves."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from simulation.errors import SimulationError
from simulation.trace import Trace
from simulation.world import SimulatedWorld
from tests.fuzz import fuzz_engine
from tests.seeds import SEED
from tests.simulation.random_worlds import write_some
from tests.simulation.worlds import GIGA, small_fabric, small_world, transfer
from topologies.errors import FabricError


@pytest.mark.parametrize("delay", [-1, 10**9 + 1, 1 << 80])
def test_delays_out_of_range_are_refused(delay):
    with pytest.raises(SimulationError, match=f"A link's delay is 0 to 1000000000 ns, not {delay} ns"):
        small_world(delay=delay)


@pytest.mark.parametrize("rate", [0, 10**12 + 1, 1 << 80])
def test_rates_out_of_range_are_refused(rate):
    with pytest.raises(FabricError, match=f"is {rate} b/s, but must be between 8000 and 1000000000000"):
        SimulatedWorld(small_fabric(), seed=1, rate=rate)


def test_frames_that_would_arrive_after_all_time_end_the_run():
    with small_world(rate=100 * GIGA) as world:
        world.faults.delay("*", (1 << 62) - 100)
        with pytest.raises(SimulationError, match="146 years"):
            world.run(transfer(world))


def test_an_exception_of_a_nic_ends_the_run_and_the_next_goes_on():
    with small_world() as world:
        left = [3]

        def around(receive):
            def failing(port, frame, now):
                left[0] -= 1
                if not left[0]:
                    raise ValueError("a NIC's mistake")
                receive(port, frame, now)

            return failing

        world.nic_node("h3").wrap(receive=around)
        task = world.spawn(transfer(world, length=1 << 16))
        with pytest.raises(ValueError, match="mistake"):
            world.run(task)
        assert not world.clock.running
        assert world.run(task).equal


def test_a_closed_world_is_freed_with_what_was_under_way():
    class Witness:
        pass

    def use():
        world, witness = small_world(), Witness()
        world.clock.at(1 << 50, lambda a, b: None, witness)
        world.spawn(write_some(world, "h1", "h3"))
        world.run(20_000)
        assert len(world.clock.queued()) > 2
        world.close()
        world.close()
        return weakref.ref(witness)

    witness = use()
    gc.collect()
    assert witness() is None


def test_a_switch_closed_by_itself_is_used_no_more():
    """A mistake, which ends the run with an error, not the process."""
    with small_world() as world:
        world.spawn(write_some(world, "h1", "h3"))
        world.run(20_000)
        world.switch("t0-0@p0").close()
        with pytest.raises(SimulationError, match="close the world instead"):
            world.run(200_000)
        assert not world.clock.running


def test_two_worlds_in_two_threads():
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
import sys
from p4runtime_shim import build
from simulation import core
from tests.fuzz.engine_child import OPTIONS
build.BuildOptions = lambda: OPTIONS
sys.modules[core.MODULE.name] = core.MODULE.load(OPTIONS)
from tests.swarm.generate_scenario import generate
from tests.swarm.run import run
from tests.simulation.random_worlds import HARDWARE, contended, crowded, paused
from tests.simulation.worlds import observed, prefetching
seed = int(sys.argv[1])
contended(seed)
contended(seed, None, HARDWARE[3], True)
paused(seed)
crowded(seed)
with observed():
    contended(seed + 1)
    paused(seed + 1)
with prefetching():
    contended(seed)
    crowded(seed)
    paused(seed)
for number in range(seed, seed + 3):
    run(generate(number))
print("clean")
"""


@pytest.mark.second_ring
def test_the_core_is_clean_under_the_sanitizers():
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
