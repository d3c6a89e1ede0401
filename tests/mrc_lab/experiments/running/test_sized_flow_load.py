"""Random flows in the simulated world: what each takes, and what is recorded of it."""

from collections import Counter

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.running.arrivals import arrivals
from tests.mrc_lab.experiments.running.cases import case_of, run

FRAME_NS = 341  # of 4096 bytes at 100 Gb/s


def flows(keys, duration="20ms", seed=1, **parts):
    case = case_of(f"{{kind: flows, {keys}}}", duration, **{"measure": "{bin: 50us}", **parts})
    return case, run(case, seed)


@pytest.mark.parametrize("size", ["1", "4096", "5000", "100K", "3M"])
@pytest.mark.parametrize(("transport", "planes"), [("mrc", 1), ("mrc", 2), ("mrc", 4), ("rc", 1)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_flow_alone_takes_the_ideal_time(size, transport, planes, seed):
    """Within two frames and, of windows that close for a moment at the start, a share of half a percent."""
    _, recording = flows(
        f"load: 50%, sizes: {size}, count: 1",
        seed=seed,
        transport=f"{{type: {transport}, congestion: none}}",
        fabric=f"{{planes: {planes}, t0: 2, t1: 2, hosts: 4, rate: 100G}}",
    )
    (record,) = recording.flow_records
    assert recording.errors == ()
    assert record.ideal <= record.time <= 1.005 * record.ideal + 2 * FRAME_NS
    assert record.slowdown == pytest.approx(1, abs=0.005 + 2 * FRAME_NS / record.ideal)


def test_flows_are_those_that_were_drawn():
    case, recording = flows("load: 50%, sizes: web_search, count: 40", seed=3)
    planned = arrivals(case.workload, build_fabric(case.fabric), 3, case.duration)
    found = [
        (record.began, recording.flows[record.flow].name, record.size, record.number)
        for record in recording.flow_records
    ]
    assert found == [
        (flow.start, f"{flow.source}>{flow.destination}", flow.size, number) for number, flow in enumerate(planned)
    ]
    assert recording.errors == ()
    assert recording.wrong_bytes == 0
    assert all(record.slowdown >= 1 for record in recording.flow_records)
    written = Counter()
    for message in recording.messages:
        written[message.flow] += message.size
    assert sum(written.values()) == sum(flow.size for flow in planned)


@pytest.mark.parametrize("transport", ["mrc", "rc"])
@pytest.mark.parametrize("connections", ["own", "shared"])
@pytest.mark.parametrize("qps", [1, 3])
def test_every_byte_is_written_once_whatever_the_queue_pairs(transport, connections, qps):
    keys = f"load: 60%, sizes: 300K, count: 30, message: 64K, outstanding: 2, connections: {connections}"
    _, recording = flows(keys, transport=f"{{type: {transport}, qps: {qps}}}")
    assert recording.errors == ()
    assert len(recording.messages) == 30 * 5
    assert sum(message.size for message in recording.messages) == 30 * (300 << 10)
    assert recording.checked_bytes == 4 * (64 << 10)
    assert recording.wrong_bytes == 0
    new = sum(recording.flow_samples[-1, :, 1] - recording.flow_samples[-1, :, 2])  # sent for the first time
    assert new == 30 * (300 << 10) // 4096
    known = [record.retransmitted is None for record in recording.flow_records]
    assert known == [connections == "shared"] * 30


def test_what_flows_retransmit_is_counted_by_flow():
    _, recording = flows(
        "load: 5%, sizes: 300K, count: 60", faults="[{kind: loss, link: 'h1@p0', at: 0us, probability: 5%}]"
    )
    of_h1 = [one for one in recording.flow_records if "h1" in recording.flows[one.flow].name]
    others = [one for one in recording.flow_records if "h1" not in recording.flows[one.flow].name]
    assert sum(one.retransmitted for one in of_h1) > 10
    assert sum(one.retransmitted for one in others) == 0
    total = recording.flow_samples[-1, :, 2].sum()
    assert sum(one.retransmitted for one in recording.flow_records) == total


def test_flows_that_have_not_ended_have_no_end():
    _, recording = flows("load: 100%, sizes: 5M", "2ms")
    late = [record for record in recording.flow_records if record.ended is None]
    assert late
    assert all(record.time is None and record.slowdown is None for record in late)
    assert all(record.ended is None or record.ended <= recording.end for record in recording.flow_records)
    assert recording.end == 2_000_000


def test_the_run_is_over_with_the_last_flow():
    _, recording = flows("load: 50%, sizes: 100K, count: 10", "20ms")
    assert recording.end < 1_000_000
    assert max(record.ended for record in recording.flow_records) <= recording.end


def test_the_same_seed_gives_the_same_run():
    keys = "load: 50%, sizes: hadoop, count: 200"
    first, second, other = (flows(keys, seed=seed)[1].flow_records for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_flows_of_a_tenant_do_not_depend_on_the_others():
    background = "{name: background, kind: flows, load: 20%, sizes: 50K, count: 30}"
    storage = "{name: storage, kind: write_bw, pairs: h1>h3, message: 64K, total: 1M}"
    head = "fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}\nduration: 20ms\nmeasure: {bin: 50us}\n"
    shared, single = (
        run(load_text(f"{head}workloads: [{', '.join(tenants)}]\n").cases[0])
        for tenants in ((background, storage), (background,))
    )
    own = [one for one in shared.flow_records if shared.flows[one.flow].tenant == 0]
    drawn = [(one.size, one.began) for one in own]
    assert drawn == [(one.size, one.began) for one in single.flow_records]
    (record,) = [one for one in shared.flow_records if shared.flows[one.flow].tenant == 1]
    assert shared.flows[record.flow].name == "storage/h1>h3"
    assert record.size == 1 << 20


def test_a_workload_without_any_flow_is_an_error():
    """Of a process with 1.3 flows on average a quarter has none."""
    case = case_of("{kind: flows, load: 10%, sizes: 15M}", "2ms")
    fabric = build_fabric(case.fabric)
    seed = next(seed for seed in range(100) if not arrivals(case.workload, fabric, seed, case.duration))
    with pytest.raises(ExperimentError, match="no flow begins in the run"):
        run(case, seed)


def test_flows_of_a_total_are_recorded_as_flows():
    recording = run(
        case_of("{kind: write_bw, pairs: [h1>h3, {pair: h2>h4, total: 64K}], message: 16K, bidirectional: yes}", "60us")
    )
    found = [(recording.flows[one.flow].name, one.size, one.slowdown) for one in recording.flow_records]
    assert [one[:2] for one in found] == [("h2>h4", 64 << 10), ("h4>h2", 64 << 10)]
    assert all(1 <= slowdown < 2 for *_, slowdown in found)


def test_an_incast_of_n_is_n_times_as_slow():
    """Three hosts share the ports of the fourth, so the last flow takes about three times as long as one alone."""
    recording = run(case_of("{kind: incast, target: h4, sources: [h1, h2, h3], message: 256K, total: 4M}", "10ms"))
    assert max(one.slowdown for one in recording.flow_records) == pytest.approx(3, rel=0.1)
    assert recording.errors == ()


def test_a_flow_that_fails_is_named_and_the_others_go_on():
    _, recording = flows(
        "load: 50%, sizes: 300K, count: 40",
        transport="{type: rc, attributes: {retry_count: 1, timeout: 4}}",
        faults="[{kind: link_down, at: 0us, link: 'h2@p*'}]",
    )
    assert any("flow " in error and "h2" in error for error in recording.errors)
    ended = {recording.flows[one.flow].name for one in recording.flow_records if one.ended is not None}
    assert ended
    assert not any("h2" in name for name in ended)
