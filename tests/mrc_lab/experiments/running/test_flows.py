import pytest

from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.running.flows import FlowPlan, plan
from tests.mrc_lab.experiments.running.cases import case_of, run


def planned(workload, seed=1):
    case = case_of(workload)
    return plan(case.tenants[0], build_fabric(case.fabric), seed)


def test_pairs():
    assert planned("{kind: write_bw, pairs: [h1>h3, h2>h4], bidirectional: yes}") == [
        FlowPlan("h1", "h3", message=256 << 10, outstanding=4, qps=1, both_ways=True),
        FlowPlan("h2", "h4", message=256 << 10, outstanding=4, qps=1, both_ways=True),
    ]


def test_permutation_by_a_shift():
    flows = planned("{kind: permutation, shift: 1}")
    assert [(flow.source, flow.destination) for flow in flows] == [
        ("h1", "h2"),
        ("h2", "h3"),
        ("h3", "h4"),
        ("h4", "h1"),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_random_permutation_moves_everybody_and_follows_the_seed(seed):
    flows = planned("{kind: permutation}", seed)
    assert sorted(flow.destination for flow in flows) == ["h1", "h2", "h3", "h4"]
    assert all(flow.source != flow.destination for flow in flows)
    assert flows == planned("{kind: permutation}", seed)


def test_seeds_give_different_permutations():
    assert len({tuple(planned("{kind: permutation}", seed)) for seed in range(20)}) > 3


def test_incast_with_a_victim():
    flows = planned("{kind: incast, target: h4, sources: ['h[1-2]'], victim: h3>h1}")
    assert [(flow.source, flow.destination) for flow in flows] == [("h1", "h4"), ("h2", "h4"), ("h3", "h1")]


def test_a_pair_may_begin_later():
    case = case_of("{kind: write_bw, pairs: [h1>h3, h2>h4], starts: [0us, 60us], message: 16K}", "100us")
    recording = run(case)
    first, second = ([record.began for record in recording.messages if record.flow == number] for number in range(2))
    assert min(first) == 0
    assert min(second) == 60_000
    assert recording.rates()[:6, 1].max() == 0
