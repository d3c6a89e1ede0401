"""What a case came to mean is counted: senders, receivers, flows, queue pairs, ranks, links of faults."""

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.running.case_warnings import case_warnings
from mrc_lab.experiments.running.extent import extent_of, spans
from mrc_lab.experiments.running.simulated_backend import simulated_backend
from tests.mrc_lab.experiments.running.cases import case_of, run

FABRIC = "{planes: 2, t0: 2, t1: 2, hosts: 20, rate: 100G}"


def lines(workload, **parts):
    case = case_of(workload, **{"fabric": FABRIC, **parts})
    return list(extent_of(case, build_fabric(case.fabric)).lines())


def test_parts_are_counted_over_all_planes_and_by_kind():
    fabric = "{hosts: 16, planes: 2, t0: 4, t1: 2, t2: 2, pods: 2, rate: 100G}"  # T0s and T1s of each pod
    case = case_of("{kind: permutation}", fabric=fabric)
    found = extent_of(case, build_fabric(case.fabric))
    assert found.parts == {"t0_t1_links": 2 * 8 * 2, "t1s": 2 * 4, "nic_ports": 2 * 16}
    assert found.links > 32 + 32  # and those of T2s


@pytest.mark.parametrize(
    ("workload", "line"),
    [
        (
            "{kind: incast, target: h20, sources: 'h[1-16]'}",
            "incast: 16 senders (h1 to h16), 1 receiver (h20), 16 flows on 16 queue pairs",
        ),
        (
            "{kind: incast, target: h9, sources: [h1, 'h[3,5-7]'], victim: [h2>h8]}",
            "incast: 6 senders (h1 to h3, h5 to h7), 2 receivers (h8, h9), 6 flows on 6 queue pairs",
        ),
        (
            "{kind: write_bw, pairs: [h1>h3, {pair: h2>h3, qps: 3}], bidirectional: yes}",
            "write_bw: 3 senders (h1 to h3), 3 receivers (h1 to h3), 4 flows on 8 queue pairs",
        ),
        (
            "{kind: permutation, hosts: 'h[1-4]'}",
            "permutation: 4 senders (h1 to h4), 4 receivers (h1 to h4), 4 flows on 4 queue pairs",
        ),
        (
            "{kind: training, steps: 1, gradients: 64K, compute: 1us, hosts: 'h[1-8]', stragglers: {hosts: h3, slowdown: 2}}",  # noqa: E501
            "training among 8 hosts (h1 to h8), 1 straggler (h3)",
        ),
        (
            "{kind: collective, operation: all_reduce, bytes: 64K, hosts: ['h1*', h2]}",
            "all_reduce among 12 hosts (h1, h2, h10 to h19)",
        ),
    ],
)
def test_a_workload_says_how_many_of_everything_it_means(workload, line):
    assert lines(workload) == [line]


def test_an_incast_of_sixteen_runs_sixteen_flows():
    case = case_of("{kind: incast, target: h20, sources: 'h[1-16]', message: 4K, total: 4K}", fabric=FABRIC)
    recording = run(case)
    assert sorted(flow.source for flow in recording.flows) == sorted(f"h{number}" for number in range(1, 17))


def test_faults_say_how_many_links_and_switches_they_are_about():
    faults = (
        "[{kind: link_down, at: 50us, link: 'h[1-3]@p*'}, {kind: power_off, at: 50us, switch: 't1-*@p0'},"
        " {kind: loss, at: 50us, link: 't0-0:t1-*@p1', towards: 't1-[0-1]', probability: 1%}]"
    )
    found = lines("{kind: write_bw, pairs: h1>h20}", faults=faults.replace("'t1-[0-1]'", "'t1-[0-1]@p1'"))
    assert found[1:] == [
        "link_down: 6 links",
        "power_off: 2 switches, 4 links",
        "loss: 2 links (t0-0:t1-0@p1, t0-0:t1-1@p1)",
    ]
    many = ", ".join("{kind: link_down, at: 50us, link: h1@p0}" for _ in range(8))
    assert lines("{kind: write_bw, pairs: h1>h20}", faults=f"[{many}]")[-1] == "2 more faults; 1 link in all"


def test_a_pattern_of_one_host_is_warned_about():
    case = case_of("{kind: incast, target: h4, sources: 'h1*'}", duration="1ms")
    with simulated_backend(case, 1) as backend:
        assert "'h1*' matches one host only, h1" in list(case_warnings(case, backend.fabric, backend.time_scale))


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("{kind: incast, target: h1, sources: 'h[2-40]'}", r"no name has 21-40: write \[2-20\]"),
        ("{kind: incast, target: h1, sources: 'h[23]'}", r"ambiguous: write \[2,3\]"),
        ("{kind: incast, target: h1, sources: 'h{2,3}'}", r"write 'h\[2,3\]'"),
        ("{kind: incast, target: h1, sources: 'h2-16'}", r"for h2 to h16 write h\[2-16\]"),
        ("{kind: incast, target: h1, sources: 'h99*'}", r"no NIC that matches 'h99\*': did you mean h9"),
    ],
)
def test_patterns_that_mean_something_else_are_refused(workload, message):
    with pytest.raises(FileError, match=message):
        lines(workload)


def test_spans_name_hosts_in_short():
    assert spans(["h1", "h2", "h3", "h7", "h9", "h10", "x"]) == "h1 to h3, h7, h9, h10, x"
    assert spans(f"h{number}" for number in range(1, 40, 2)) == "h1, h3, h5, h7, h9, h11 ..."
