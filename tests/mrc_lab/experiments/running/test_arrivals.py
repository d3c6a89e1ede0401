"""Arrivals of random flows, compared with the arithmetic of a Poisson process."""

import math
import random
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.running.arrivals import arrivals
from mrc_lab.experiments.running.scaling import scaled_fabric
from tests.mrc_lab.experiments.running.cases import case_of
from tests.seeds import SEED

FABRIC = "{planes: 2, t0: 2, t1: 2, hosts: 8, rate: 100G}"


def begun(keys, duration="100ms", seed=SEED, fabric=FABRIC):
    case = case_of(f"{{kind: flows, {keys}}}", duration, fabric=fabric, measure="{bin: 2us}")
    return arrivals(case.workload, build_fabric(case.fabric), seed, case.duration)


@pytest.mark.parametrize("load", [10, 80, 150])
@pytest.mark.parametrize(("sizes", "count"), [("web_search", 200_000), ("hadoop", 60_000), ("100K", 60_000)])
def test_the_offered_load_is_what_was_asked_for(sizes, count, load):
    """Bytes a host and second, over the 200 Gb/s of its two ports: within 2 %, or three standard errors of the sum."""
    print("seed", SEED)
    case = case_of(f"{{kind: flows, load: {load}%, sizes: {sizes}, count: {count}}}", "10ms", fabric=FABRIC)
    flows = arrivals(case.workload, build_fabric(case.fabric), SEED, 3600 * 10**9)
    offered = sum(flow.size for flow in flows) * 8e9 / flows[-1].start / 8 / 200e9
    spread = math.sqrt(sum(flow.size**2 for flow in flows) / count) / case.workload.sizes.distribution.mean
    assert len(flows) == count
    assert offered == pytest.approx(load / 100, rel=max(0.02, 3 * spread / math.sqrt(count)))


def test_rates_of_uneven_ports_are_summed():
    """h8 has one port of 100G and one of 25G, others two of 100G: 125 of 200."""
    fabric = '{planes: 2, t0: 2, t1: 2, hosts: 8, rate: 100G, links: {"h8@p1": {rate: 25G}}}'
    counts = Counter(flow.source for flow in begun("load: 50%, sizes: 10K", "12ms", fabric=fabric))
    assert counts["h8"] / counts["h1"] == pytest.approx(125 / 200, rel=0.05)


def test_times_between_arrivals_are_exponential():
    """Of an exponential distribution the standard deviation is the mean, and 1 - 1/e are below it."""
    times = defaultdict(list)
    for flow in begun("load: 30%, sizes: 20K", "40ms"):
        times[flow.source].append(flow.start)
    for starts in times.values():
        gaps = [b - a for a, b in pairwise(starts)]
        mean = sum(gaps) / len(gaps)
        assert mean == pytest.approx(20 * 1024 * 8 / (0.3 * 200), rel=0.03)  # ns
        assert math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) == pytest.approx(mean, rel=0.05)
        assert sum(gap < mean for gap in gaps) / len(gaps) == pytest.approx(1 - 1 / math.e, abs=0.02)


def test_uniform_destinations_are_all_others():
    pairs = Counter((flow.source, flow.destination) for flow in begun("load: 50%, sizes: 10K", "12ms"))
    assert len(pairs) == 8 * 7
    assert all(source != destination for source, destination in pairs)
    assert max(pairs.values()) < 1.2 * min(pairs.values())


def test_between_racks_only():
    racks = {f"h{number}": (number - 1) // 4 for number in range(1, 9)}
    pairs = {(flow.source, flow.destination) for flow in begun("load: 50%, sizes: 10K, pattern: inter_rack", "12ms")}
    assert len(pairs) == 8 * 4
    assert all(racks[source] != racks[destination] for source, destination in pairs)


@pytest.mark.parametrize("seed", range(10))
def test_in_a_permutation_everybody_has_one_destination(seed):
    flows = begun("load: 50%, sizes: 100K, pattern: permutation", "5ms", seed=seed)
    pairs = {(flow.source, flow.destination) for flow in flows}
    assert len(pairs) == 8
    assert {source for source, _ in pairs} == {destination for _, destination in pairs}
    assert all(source != destination for source, destination in pairs)


def test_count_until_and_start_bound_the_arrivals():
    assert len(begun("load: 50%, sizes: 100K, count: 17")) == 17
    flows = begun("load: 50%, sizes: 10K, start: 2ms, until: 5ms")
    assert 2_000_000 <= flows[0].start < 2_100_000
    assert 4_900_000 < flows[-1].start < 5_000_000
    assert flows == sorted(flows, key=lambda flow: flow.start)
    assert {flow.source for flow in begun("load: 50%, sizes: 10K, hosts: [h2, h5]", "9ms")} == {"h2", "h5"}


def test_all_of_it_is_from_the_seed():
    keys = "load: 50%, sizes: web_search"
    assert begun(keys, "20ms") == begun(keys, "20ms")
    assert begun(keys, "20ms", seed=SEED + 1) != begun(keys, "20ms")


def test_what_one_host_draws_does_not_depend_on_the_others():
    keys = "load: 50%, sizes: web_search, pattern: permutation"
    alone = [flow for flow in begun(keys, "20ms") if flow.source == "h3"]
    longer = [flow for flow in begun(keys, "40ms") if flow.source == "h3"]
    assert alone
    assert longer[: len(alone)] == alone


def test_a_load_twice_as_high_has_flows_twice_as_often():
    low, high = (len(begun(f"load: {load}%, sizes: 10K", "24ms")) for load in (10, 20))
    assert high / low == pytest.approx(2, rel=0.03)


def test_the_scaled_fabric_of_emulation_is_not_asked():
    """Flows are those of the file: what the rates of an emulated fabric would give is something else."""
    case = case_of("{kind: flows, load: 50%, sizes: 100K}", "10ms", fabric=FABRIC)
    file, scaled = build_fabric(case.fabric), scaled_fabric(case, 0.001)
    assert len(arrivals(case.workload, scaled, 1, case.duration)) < len(arrivals(case.workload, file, 1, case.duration))


def test_randomness_is_no_other_programs():
    random.seed(5)
    first = begun("load: 50%, sizes: 10K", "5ms")
    random.seed(6)
    assert begun("load: 50%, sizes: 10K", "5ms") == first
