"""Runs are the same, to the event, whether or not the verbs of devices are observed.

If they are, each frame is a whole one in Python, and every verb is called: the readable way. If not, frames pass in
parts, NICs are asked only for what may change, and their datapath gets its frames directly.
"""

from __future__ import annotations

import json
import random

import pytest

from mrc_host.verbs_types import QpType
from p4runtime_shim.pipeline import Pipeline
from simulation.hardware_timing import IDEAL, PUBLISHED_TESTBED
from simulation.trace import Trace
from tests.mrc_host.datapath.module import native as datapath_in_c
from tests.mrc_host.datapath.module import used
from tests.p4runtime_shim import programs
from tests.seeds import SEED
from tests.simulation.random_worlds import HARDWARE, contended, crowded, paused
from tests.simulation.worlds import connected, prefetching, small_world, transfer, with_and_without_observers
from tests.swarm.generate_scenario import generate
from tests.swarm.run import run


@pytest.mark.parametrize("number", range(2))
def test_swarm_seeds_run_alike(number):
    for seed in range(SEED + 3 * number, SEED + 3 * number + 3):
        alone, observed = with_and_without_observers(lambda seed=seed: run(generate(seed)))
        assert alone == observed, f"seed {seed}"


@pytest.mark.parametrize("number", range(2))
def test_swarm_seeds_run_alike_with_the_datapath_in_c(number):
    for seed in range(SEED + 100 + 3 * number, SEED + 103 + 3 * number):
        with used(datapath_in_c()):
            alone, observed = with_and_without_observers(lambda seed=seed: run(generate(seed)))
        assert alone == observed == run(generate(seed)), f"seed {seed}"


def test_a_crowded_world_runs_alike():
    with used(datapath_in_c()):
        alone, observed = with_and_without_observers(lambda: crowded(SEED))
        with prefetching() as clocks:
            fetched_ahead = crowded(SEED)
    assert alone == observed == fetched_ahead, f"seed {SEED}"
    assert clocks[0].foreseen > clocks[0].events / 2 > 1_000


def test_links_that_change_their_rate_run_alike_when_the_core_prefetches():
    """Events that are brought forward leave their place in the queue."""
    with prefetching() as clocks:
        fetched_ahead = contended(SEED)
    assert fetched_ahead == contended(SEED)
    assert clocks[0].foreseen > 0


@pytest.mark.parametrize("number", range(4))
def test_random_worlds_run_alike(number):
    alone, observed = with_and_without_observers(lambda: contended(SEED + number))
    assert alone == observed, f"seed {SEED + number}"
    assert alone[2] > 100


@pytest.mark.parametrize("hardware", HARDWARE[1:], ids=("published", "by the packet", "by the byte"))
@pytest.mark.parametrize("watched", [False, True], ids=("", "watched"))
@pytest.mark.parametrize("number", range(2))
def test_worlds_whose_packets_occupy_the_nics_run_alike(number, hardware, watched):
    with used(datapath_in_c()):
        alone, observed = with_and_without_observers(lambda: contended(SEED + number, None, hardware, watched))
    assert alone == observed, f"seed {SEED + number}"
    assert alone[2] > 100


@pytest.mark.parametrize("number", range(6))
def test_worlds_under_flow_control_run_alike(number):
    alone, observed = with_and_without_observers(lambda: paused(SEED + number))
    assert alone == observed, f"seed {SEED + number}"
    assert alone[0] > 10, "pauses"


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


def test_an_edited_program_runs_alike():
    pipeline = edited_program()
    alone, observed = with_and_without_observers(lambda: contended(SEED, pipeline))
    assert alone == observed, f"seed {SEED}"


def drained_slowly(seed: int) -> tuple[object, ...]:
    """Full queues are polled at random times while other data arrives."""
    chance, trace = random.Random(seed), Trace()
    kinds = [QpType.MRC, QpType.RC]
    with small_world(seed, rate=chance.choice((10**10, 10**11)), trace=trace) as world:
        ends = [connected(world, chance.choice(kinds), chance.choice((1, 2)), *chance.sample(["h1", "h3"], 2))]
        ends += [connected(world, kind, 16, "h1", "h3") for kind in kinds]
        qp, _qp_far, _cq, cq_far, region, region_far = ends[0]
        for imm in range(6):
            qp.write(region, region_far.remote, length=chance.choice((0, 64, 5000)), imm=imm, signaled=False)
        for qp, *_, region, region_far in ends[1:]:
            qp.write(region, region_far.remote)
        for _ in range(8):
            world.clock.at(chance.randrange(40_000), lambda *_: cq_far.poll(1))
        world.run(200_000)
        return trace.cut().hash, [end[1].hw_counters() for end in ends]


@pytest.mark.parametrize("number", range(12))
def test_worlds_whose_full_queues_are_polled_run_alike(number):
    alone, observed = with_and_without_observers(lambda: drained_slowly(SEED + number))
    assert alone == observed, f"seed {SEED + number}"


@pytest.mark.parametrize("hardware", [IDEAL, PUBLISHED_TESTBED], ids=("ideal", "published"))
def test_nics_get_what_their_datapath_carries_without_python(hardware):
    def write():
        with small_world(seed=SEED, hardware=hardware) as world:
            result = world.run(transfer(world, length=1 << 20))
            nic = world.nic("h3")
            unseen = sum(nic.datapath.receiver.unseen(port)[0] for port in range(2))
            counters = [dict(nic.nic_counters()), nic.hw_counters(None, world.now), nic.port_counters()]
            return unseen, [result, world.now, world.clock.events, counters]

    with used(datapath_in_c()):
        (unseen, alone), (none, observed) = with_and_without_observers(write)
    assert none == 0
    assert unseen > 200, "of 256 packets"
    assert alone == observed


def test_a_nic_that_is_traced_and_then_observed_sees_every_frame():
    """In the middle of a transfer its trace is turned on and off, and then one of its verbs is observed."""

    def write():
        events, frames = [], []

        def around(receive):
            def seen(port, frame, now):
                frames.append((port, bytes(frame), now))
                receive(port, frame, now)

            return seen

        with small_world(seed=SEED) as world:
            task = world.spawn(transfer(world, length=1 << 20))
            for number in range(12):
                world.run(5_000 * (number + 1))
                traced = number % 4 == 1
                world.nic("h3").set_trace((lambda event: events.append(repr(event))) if traced else None)
                if number == 6:
                    world.nic_node("h3").wrap(receive=around)
            return events, frames, world.run(task).equal, world.now

    with used(datapath_in_c()):
        alone, observed = with_and_without_observers(write)
    assert alone == observed
    events, frames, equal, _ = alone
    assert equal
    assert len(events) > 50
    assert len(frames) > 30
