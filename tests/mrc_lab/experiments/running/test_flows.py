import pytest

from mrc_lab.experiments.files import FileError
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.running.flows import FlowPlan, plan
from tests.mrc_lab.experiments.running.cases import case_of, run


def planned(workload, seed=1):
    case = case_of(workload)
    return plan(case.tenants[0], build_fabric(case.fabric), seed)


def test_pairs_become_flows():
    assert planned("{kind: write_bw, pairs: [h1>h3, h2>h4], bidirectional: yes}") == [
        FlowPlan("h1", "h3", message=256 << 10, outstanding=4, qps=1, both_ways=True),
        FlowPlan("h2", "h4", message=256 << 10, outstanding=4, qps=1, both_ways=True),
    ]


def test_a_permutation_by_a_shift():
    flows = planned("{kind: permutation, shift: 1}")
    assert [(flow.source, flow.destination) for flow in flows] == [
        ("h1", "h2"),
        ("h2", "h3"),
        ("h3", "h4"),
        ("h4", "h1"),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_random_permutation_has_no_fixed_point_and_follows_the_seed(seed):
    flows = planned("{kind: permutation}", seed)
    assert sorted(flow.destination for flow in flows) == ["h1", "h2", "h3", "h4"]
    assert all(flow.source != flow.destination for flow in flows)
    assert flows == planned("{kind: permutation}", seed)


def test_seeds_give_different_permutations():
    assert len({tuple(planned("{kind: permutation}", seed)) for seed in range(20)}) > 3


def test_an_incast_can_have_a_victim_flow():
    flows = planned("{kind: incast, target: h4, sources: ['h[1-2]'], victim: h3>h1}")
    assert [(flow.source, flow.destination) for flow in flows] == [("h1", "h4"), ("h2", "h4"), ("h3", "h1")]


def test_a_pair_may_start_later():
    case = case_of("{kind: write_bw, pairs: [h1>h3, h2>h4], starts: [0us, 60us], message: 16K}", "100us")
    recording = run(case)
    first, second = ([record.began for record in recording.messages if record.flow == number] for number in range(2))
    assert min(first) == 0
    assert min(second) == 60_000
    assert recording.rates()[:6, 1].max() == 0


def test_each_flow_may_have_its_own_size_total_queue_pairs_and_start():
    case = case_of(
        "{kind: write_bw, message: 16K, total: 64K, pairs: [h1>h3, {pair: h2>h4, message: 4K, total: 8K, qps: 3,"
        " outstanding: 1, start: 30us}], start: 10us}",
        "200us",
    )
    recording = run(case)
    first, second = ([one for one in recording.messages if one.flow == number] for number in range(2))
    assert [flow.qps for flow in recording.flows] == [1, 3]
    assert ([one.size for one in first], [one.size for one in second]) == ([16 << 10] * 4, [4 << 10] * 2)
    assert min(one.began for one in first) == 10_000
    assert min(one.began for one in second) == 40_000
    assert recording.checked_bytes == (16 + 4) << 10


def test_the_same_pair_twice_makes_two_flows_with_different_names():
    recording = run(case_of("{kind: write_bw, pairs: [h1>h3, h1>h3], message: 4K, total: 4K}"))
    assert [flow.name for flow in recording.flows] == ["h1>h3", "h1>h3#2"]


@pytest.mark.parametrize(
    ("workload", "begins"),
    [
        ("{kind: permutation, shift: 1, message: 4K, total: 4K, start: 5us, starts: [0us, 20us]}", [5, 25, 5, 5]),
        (
            "{kind: incast, target: h4, sources: [h1, h2], victim: h3>h1, message: 4K, total: 4K,"
            " starts: [1us, 2us, 3us]}",
            [1, 2, 3],
        ),
        ("{kind: write_bw, pairs: [h1>h3, h2>h4], message: 4K, total: 4K, start: 7us}", [7, 7]),
    ],
)
def test_every_flow_workload_accepts_starts(workload, begins):
    recording = run(case_of(workload))
    assert [message.began for message in sorted(recording.messages, key=lambda one: one.flow)] == [
        1000 * begin for begin in begins
    ]


@pytest.mark.parametrize("kind", ["permutation, shift: 1", "incast, target: h4, sources: [h1, h2]"])
def test_too_many_starts_are_refused(kind):
    with pytest.raises(FileError, match=r"starts has 5 times for [24] flows"):
        case_of(f"{{kind: {kind}, starts: [1us, 1us, 1us, 1us, 1us]}}")


def planes_and_uplinks(recording):
    """Planes that the first host sent data in, and uplinks of its T0 that carried data."""
    sent = recording.link_samples[-1, :, 1] - recording.link_samples[0, :, 1]
    busy = {name for name, size in zip(recording.channels, sent, strict=True) if size > 100_000}
    return {name for name in busy if name.startswith("h1@") and name.endswith(">")}, {
        name for name in busy if name.startswith("t0-0:") and name.endswith(">")
    }


def test_one_ev_is_one_path_in_one_plane_and_not_always_the_same():
    """`paths: 1` is a path in each plane; `evs: 1` is one in all."""
    fabric = {"fabric": "{planes: 4, t0: 2, t1: 4, hosts: 4, rate: 100G}"}
    load = "{kind: write_bw, pairs: h1>h3, outstanding: 8}"
    found = {
        keys: planes_and_uplinks(run(case_of(load, "100us", transport=keys, **fabric)))
        for keys in ("{paths: 1}", "{evs: 1}", "{evs: 2}", "{evs: 8}")
    }
    assert [tuple(map(len, ports)) for ports in found.values()] == [(4, 4), (1, 1), (2, 2), (4, 8)], found
    seen = {
        tuple(sorted(planes_and_uplinks(run(case_of(load, transport="{evs: 1}", **fabric), seed))[1]))
        for seed in range(6)
    }
    assert len({path[0].split("@")[1] for path in seen}) > 1, "the plane is drawn too"
    assert all(len(path) == 1 for path in seen)


def test_one_ev_leaves_no_alternative_path():
    load = "{kind: write_bw, pairs: h1>h3, outstanding: 8}"
    (link,) = planes_and_uplinks(run(case_of(load, transport="{evs: 1}")))[1]
    fault = {"faults": f"[{{kind: link_down, at: 20us, link: '{link[:-1]}'}}]"}
    stuck, others = (run(case_of(load, transport=keys, **fault)).rates()[6:, 0] for keys in ("{evs: 1}", "{}"))
    assert stuck.max() == 0
    assert others.min() > 50e9


def test_evs_apply_to_collectives_on_every_nic():
    fabric = {"fabric": "{planes: 4, t0: 2, t1: 4, hosts: 4, rate: 100G}"}
    load = "{kind: collective, operation: all_reduce, bytes: 4M, hosts: [h1, h3]}"
    recording = run(case_of(load, "5ms", transport="{evs: 1}", **fabric))
    assert recording.errors == ()
    assert tuple(map(len, planes_and_uplinks(recording))) == (1, 1)
    assert tuple(map(len, planes_and_uplinks(run(case_of(load, "5ms", **fabric))))) == (4, 16)


def test_flows_of_rc_take_the_uplinks_that_the_file_gives_them():
    case = case_of(
        "{kind: write_bw, pairs: [h1>h3, h2>h4], uplinks: [[0, 1], [1]], message: 64K}",
        "200us",
        fabric="{planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G, pfc: yes}",
        transport="{type: rc, qps: 2}",
    )
    alone, shared = (run(case).rates()[5:, number].mean() for number in range(2))
    assert alone > 1.5 * shared > 0  # half of h1>h3's queue pairs share an uplink with both of h2>h4's
