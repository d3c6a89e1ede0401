"""Several workloads in one run: they share hosts, begin and end by themselves, and each has its own figures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.model import Selection
from mrc_lab.experiments.running.recording import FLOW_COUNTERS
from mrc_lab.reports.metric_table import MetricTable
from mrc_lab.reports.metrics import compute
from mrc_lab.reports.summary import tenant_summary
from tests.mrc_lab.experiments.running.cases import run

HEAD = """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 8, rate: 100G}
measure: {bin: 10us, warmup: 20us}
"""


def case_of(*tenants, duration="200us", more=""):
    listed = "\n".join(f"  - {tenant}" for tenant in tenants)
    (case,) = load_text(f"{HEAD}duration: {duration}\nworkloads:\n{listed}\n{more}").cases
    return case


def metric(case, recording, name, tenant=None, **selection):
    return compute(name, case, recording, Selection(tenant=tenant, **selection))


def test_two_tenants_on_the_same_nics_sum_to_the_total():
    pair = "kind: write_bw, pairs: h1>h5"
    one = case_of(f"{{name: a, {pair}}}")
    two = case_of(f"{{name: a, {pair}}}", f"{{name: b, {pair}}}")
    alone, shared = run(one), run(two)
    assert [flow.name for flow in shared.flows] == ["a/h1>h5", "b/h1>h5"]
    parts = [metric(two, shared, "throughput", tenant) for tenant in "ab"]
    assert sum(parts) == pytest.approx(metric(two, shared, "throughput"))
    assert sum(parts) == pytest.approx(metric(one, alone, "throughput"), rel=0.05), "the NIC has one rate for both"
    assert parts[0] == pytest.approx(parts[1], rel=0.2)
    assert metric(two, shared, "throughput", flows="h1>h5") == pytest.approx(sum(parts)), "by hosts: of any tenant"
    assert metric(two, shared, "throughput", flows="a/*") == pytest.approx(parts[0])


@pytest.mark.parametrize("seed", range(3))
def test_rc_and_mrc_tenants_share_hosts_under_a_fault(seed):
    case = case_of(
        "{name: mrc, kind: write_bw, pairs: [h1>h5, h2>h6], bidirectional: yes}",
        "{name: roce, kind: write_bw, pairs: [h1>h5, h2>h6], transport: {type: rc, congestion: dcqcn, qps: 4}}",
        duration="400us",
        more="faults: [{kind: link_down, at: 100us, until: 200us, link: t0-0:t1-0@p0}]",
    )
    recording = run(case, seed)
    assert recording.errors == ()
    assert recording.wrong_bytes == 0
    assert recording.checked_bytes == 6 * (256 << 10)
    for tenant in ("mrc", "roce"):
        assert metric(case, recording, "throughput", tenant) > 20e9
    assert metric(case, recording, "path_failures", "mrc") > 0
    assert metric(case, recording, "path_failures", "roce") == 0, "rc has no paths to give up"
    total = metric(case, recording, "throughput", start=20_000)
    assert total < 1.02 * 4 * 200e9


def test_a_tenant_may_start_after_another_ended():
    case = case_of(
        "{name: first, kind: write_bw, pairs: h1>h5, message: 64K, total: 512K}",
        "{name: second, kind: incast, target: h5, sources: [h1, h2], message: 64K, total: 512K, start: 100us}",
    )
    recording = run(case)
    first, second = recording.tenants
    assert recording.errors == ()
    assert 0 < first.ended < 100_000 < second.ended == recording.end < 200_000, "the run ends when all are done"
    began = {tenant: [] for tenant in range(2)}
    for message in recording.messages:
        began[recording.flows[message.flow].tenant].append(message.began)
    assert min(began[0]) == 0
    assert max(began[0]) < first.ended
    assert min(began[1]) == 100_000
    rates = recording.rates()
    assert rates[10:, 0].max() == 0
    assert rates[:9, 1:].max() == 0
    # Each tenant's own time counts, not that in which it was not there.
    assert metric(case, recording, "throughput", "second") > 150e9
    assert metric(case, recording, "throughput", "first") > 150e9


def test_a_tenant_that_never_completes_fails_alone():
    case = case_of(
        "{name: lost, kind: collective, operation: all_reduce, bytes: 64K, hosts: [h3, h4], iterations: 2}",
        "{name: mute, kind: write_bw, pairs: h3>h7, transport: {type: rc}}",
        "{name: fine, kind: write_bw, pairs: h1>h5, message: 64K, total: 1M}",
        more="faults: [{kind: port_down, at: 0us, node: h3, port: 0}, {kind: port_down, at: 0us, node: h3, port: 1}]",
    )
    recording = run(case)
    lost, mute, fine = recording.tenants
    assert (lost.ended, mute.ended) == (None, None)
    assert recording.end == 200_000
    assert lost.errors == ("lost: only 0 of 2 operations were done when the time was over",)
    assert mute.errors == ("mute: no write completed before the run ended: there is nothing to judge",)
    assert fine.errors == ()
    assert fine.ended is not None
    assert recording.errors == lost.errors + mute.errors
    assert [metric(case, recording, "errors", name) for name in ("lost", "mute", "fine", None)] == [1, 1, 0, 2]
    assert metric(case, recording, "throughput", "fine") > 100e9


def test_collectives_and_flows_side_by_side_have_their_own_metrics():
    case = case_of(
        "{name: ai, kind: collective, operation: all_reduce, bytes: 256K, iterations: 3, hosts: [h1, h2, h5, h6]}",
        "{name: web, kind: permutation, message: 16K, total: 64K}",
        "{name: late, kind: training, steps: 2, gradients: [64K, 32K], compute: 20us, hosts: [h1, h5], start: 50us}",
        duration="2ms",
    )
    recording = run(case)
    assert recording.errors == ()
    assert recording.wrong_bytes == 0
    assert [sum(one.tenant == number for one in recording.operations) for number in range(3)] == [3, 0, 2]
    assert min(one.began for one in recording.operations if one.tenant == 2) == 50_000
    bus, alg = (metric(case, recording, name, "ai", start=0) for name in ("busbw", "algbw"))
    assert bus == pytest.approx(alg * 2 * 3 / 4), "four ranks, not eight hosts"
    web = [m.time - m.began for m in recording.messages]
    assert metric(case, recording, "completion_time", "web", start=0) == np.median(web)
    assert metric(case, recording, "completion_time", "late", start=0, statistic="min") > 20_000


def test_adding_a_tenant_does_not_change_the_randomness_of_others():
    tenant = "{name: a, kind: permutation, message: 4K, total: 4K}"
    alone = run(case_of(tenant), 5)
    beside = run(case_of("{name: b, kind: permutation, message: 4K, total: 4K}", tenant), 5)
    assert {flow.name for flow in alone.flows} < {flow.name for flow in beside.flows}


def test_a_hundred_tenants_run():
    case = case_of(
        *(
            f"{{name: t{n}, kind: write_bw, pairs: h{n % 4 + 1}>h{n % 3 + 5}, message: 4K, total: 16K, start: {n}us,"
            f" transport: {{type: {'rc' if n % 2 else 'mrc'}, {'qps: 2' if n % 2 else 'evs: 1'}}}}}"
            for n in range(100)
        )
    )
    recording = run(case)
    assert recording.errors == ()
    assert len(recording.tenants) == 100
    metrics = MetricTable([case], {case.name: recording})
    for number, tenant in enumerate(recording.tenants):
        found = tenant_summary(case, metrics, number)
        assert (found["bytes"], found["wrong_bytes"]) == (16 << 10, 0)
        assert tenant.ended > number * 1000


SIZES = st.sampled_from(["1K", "4K", "10000", "64K"])
SHARE = st.sampled_from([0, 0.1, 1])


@st.composite
def tenants(draw):
    """A valid entry of `workloads` that ends by itself, and how many bytes it moves in all."""
    number = draw(st.integers(0, 99))
    kind = draw(st.sampled_from(["write_bw", "permutation", "incast", "collective", "training"]))
    transport = draw(
        st.sampled_from(["{type: mrc}", "{type: mrc, evs: 1}", "{type: mrc, qps: 3, paths: 2}", "{type: rc, qps: 2}"])
    )
    entry = {"kind": kind, "transport": transport, "start": f"{draw(st.integers(0, 50))}us"}
    hosts = draw(st.lists(st.sampled_from([f"h{n}" for n in range(1, 9)]), min_size=3, max_size=5, unique=True))
    if kind in ("write_bw", "permutation", "incast"):
        message = draw(st.sampled_from([1000, 4096, 65536]))
        count = draw(st.integers(1, 6))
        entry |= {"message": message, "total": message * count, "outstanding": draw(st.integers(1, 4))}
        flows = {"write_bw": 2, "permutation": len(hosts), "incast": len(hosts) - 1}[kind]
        moved = flows * message * count
        if kind == "write_bw":
            own = draw(st.integers(1, 5))
            entry["pairs"] = (
                f"[{hosts[0]}>{hosts[1]}, {{pair: {hosts[1]}>{hosts[2]}, message: 5000, total: {5000 * own}}}]"
            )
            moved = message * count + 5000 * own
        elif kind == "permutation":
            entry["hosts"] = f"[{', '.join(hosts)}]"
        else:
            entry |= {"target": hosts[0], "sources": f"[{', '.join(hosts[1:])}]", "starts": "[3us, 1us]"}
        return number, entry, moved
    entry |= {"hosts": f"[{', '.join(hosts)}]", "compute": "5us", "jitter": draw(SHARE)}
    entry["stragglers"] = f"{{hosts: {hosts[1]}, slowdown: 3, share: {draw(SHARE)}}}"
    size, times = draw(st.sampled_from([4096, 100_000])), draw(st.integers(1, 3))
    if kind == "training":
        entry |= {"gradients": f"[{size}, {size}]", "steps": times}
        return number, entry, 2 * size * times
    operation = draw(st.sampled_from(["all_reduce", "all_to_all", "broadcast"]))
    entry |= {"operation": operation, "bytes": size, "iterations": times}
    return number, entry, size * times


@settings(max_examples=25, deadline=None)
@given(
    st.lists(tenants(), min_size=1, max_size=4, unique_by=lambda one: one[0]),
    st.integers(0, 1000),
    st.sampled_from(["", "faults: [{kind: loss, at: 5us, until: 60us, link: 'h1@p0', probability: 1%}]"]),
)
def test_bytes_of_random_tenants_sum_to_the_total(chosen, seed, faults):
    case = case_of(
        *(
            "{" + ", ".join(f"{key}: {value}" for key, value in {"name": f"t{number}", **entry}.items()) + "}"
            for number, entry, _ in chosen
        ),
        duration="50ms",
        more=faults + "\ntransport: {settings: {}}",
    )
    note(f"seed {seed}")
    recording = run(case, seed)
    assert recording.errors == ()
    assert recording.wrong_bytes == 0
    metrics = MetricTable([case], {case.name: recording})
    found = [tenant_summary(case, metrics, number) for number in range(len(chosen))]
    assert [one["bytes"] for one in found] == [moved for *_, moved in chosen]
    totals = recording.flow_samples[-1].sum(axis=0)
    for column, name in enumerate(FLOW_COUNTERS):
        assert sum(one["packets"][name] for one in found) == totals[column]
    assert recording.checked_bytes == sum(one["checked_bytes"] for one in found) > 0
    assert all(one["ended_ns"] is not None for one in found)
    json.dumps(found)
