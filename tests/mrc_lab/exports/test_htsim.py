"""Experiments as files of htsim: run again from there they have the same flows, and what htsim lacks is refused."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from click.testing import CliRunner

from mrc_lab.cli.main import run as mrc
from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.from_htsim import experiment_text, load_matrix
from mrc_lab.experiments.running.arrivals import arrivals
from mrc_lab.exports.command import export
from mrc_lab.exports.htsim import exported
from mrc_lab.workloads.htsim.matrix_file import parse_matrix
from mrc_lab.workloads.htsim.topology import parse_topology
from tests.mrc_lab.experiments.running.cases import run
from tests.mrc_lab.workloads.htsim.random_files import random_matrix, random_tree
from tests.seeds import SEED

TWO = "{planes: 1, t0: 4, t1: 2, hosts: 8, rate: 100G}"
THREE = "{planes: 1, pods: 2, t0: 2, t1: 2, t2: 4, hosts: 8, rate: 100G, delay: 500ns}"
WORKLOADS = {
    "permutation": "{kind: permutation, total: 100K}",
    "shifted": "{kind: permutation, total: 100K, shift: 2, start: 3us}",
    "incast": "{kind: incast, target: h8, sources: ['h[1-5]'], total: 50K, victim: ['h1>h7'], starts: [1us, 2us]}",
    "write_bw": "{kind: write_bw, pairs: [h1>h3, {pair: h2>h8, total: 5000, start: 7us}], total: 64K}",
    "both ways": "{kind: write_bw, pairs: [h1>h3], total: 64K, bidirectional: true}",
    "flows": "{kind: flows, load: 30%, sizes: hadoop, until: 300us, count: 30}",
    "all to all": "{kind: collective, operation: all_to_all, bytes: 1M, hosts: ['h[1-5]']}",
}


def experiment(workload, fabric=TWO, **parts):
    lines = {"fabric": fabric, "workload": workload, "duration": "5ms", "measure": "{bin: 50us}", **parts}
    return load_text("\n".join(f"{name}: {text}" for name, text in lines.items()))


@pytest.mark.parametrize("fabric", [TWO, THREE])
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("seed", [1, 5])
def test_what_was_exported_runs_with_the_same_flows(workload, fabric, seed, tmp_path):
    """Bytes from host to host, and for flows of a size when each begins."""
    given = experiment(WORKLOADS[workload], fabric)
    matrix, tree = exported(given, seed)
    (tmp_path / "x.cm").write_text(matrix.text())
    (tmp_path / "x.topo").write_text(tree.text())
    again = load_matrix(tmp_path / "x.cm", None).cases[0]
    ours, theirs = run(given.cases[0], seed), run(again)
    assert theirs.errors == ours.errors == ()
    if ours.flow_records:
        assert flows_of(ours) == flows_of(theirs)
    listed = Counter[str]()
    for flow in matrix.flows:
        listed[f"h{flow.source + 1}>h{flow.destination + 1}"] += flow.size
    assert written(theirs) == listed
    if workload == "all to all":
        assert set(listed.values()) <= {209712, 209716}  # 1 MiB among five, in elements of four bytes
        sent = {info.name: row[1] - row[2] for info, row in zip(ours.flows, ours.flow_samples[-1], strict=True)}
        assert {name.partition(" ")[0] for name in sent} >= set(listed)
    part = given.cases[0].fabric
    assert (again.fabric.t0, again.fabric.t1, again.fabric.t2) == (part.t0, part.t1, part.t2)
    assert (again.fabric.hosts, again.fabric.rate_bps, again.fabric.delay) == (part.hosts, part.rate_bps, part.delay)


def flows_of(recording):
    return sorted(
        (one.began, recording.flows[one.flow].name.partition("#")[0], one.size) for one in recording.flow_records
    )


def written(recording):
    found = Counter()
    for message in recording.messages:
        found[recording.flows[message.flow].name] += message.size
    return found


def test_a_matrix_and_a_topology_come_back_as_they_were(tmp_path):
    for seed in range(SEED, SEED + 40):
        chance = random.Random(seed)
        tree = random_tree(chance)
        matrix = replace(random_matrix(chance, tree.nodes), failures=())
        (tmp_path / "x.cm").write_text(matrix.text())
        text = experiment_text(matrix, tree, "x.cm", "random")
        found, again = exported(load_text(text, source=str(tmp_path / "x.yaml")), 1)
        assert (found.text(), again) == (matrix.text(), tree), f"seed {seed}"


def test_failed_links_come_back(tmp_path):
    given = experiment(WORKLOADS["permutation"], THREE, faults="[{kind: link_down, link: 't1-1:t2-3*', at: 0us}]")
    matrix, tree = exported(given, 1)
    assert [(one.switch_id, one.link_id) for one in matrix.failures] == [(1, 1)]
    (tmp_path / "x.cm").write_text(matrix.text())
    (tmp_path / "x.topo").write_text(tree.text())
    assert load_matrix(tmp_path / "x.cm", None).cases[0].faults[0].fault.link == "t1-1:t2-3@p0"


@pytest.mark.parametrize(
    ("workload", "parts", "message"),
    [
        ("{kind: permutation}", {}, "workload.total is missing"),
        ("{kind: permutation, total: 4G}", {}, "workload: h1 writes 4,294,967,296 bytes to h"),
        ("{kind: training, steps: 1, gradients: [1M]}", {}, "workload.kind: htsim has no training"),
        ("{kind: collective, operation: all_reduce, bytes: 1M}", {}, "workload.kind: htsim has no all_reduce"),
        ("{kind: collective, operation: all_to_all, bytes: 1M, iterations: 2}", {}, "workload.iterations must be"),
        ("{kind: collective, operation: all_to_all, bytes: 1M, compute: 1us}", {}, "workload.compute must be left out"),
        ("", {"fabric": "{planes: 2, t0: 2, t1: 2, hosts: 4}"}, "fabric.planes is 2"),
        ("", {"fabric": "{hosts: 4}"}, "fabric.t1 is 0"),
        ("", {"fabric": "{racks: [2, 3], t1: 2}"}, "fabric.racks: all racks and all pods"),
        ("", {"fabric": "{t0: 2, t1: 2, hosts: 4, rate: 1500M}"}, "fabric.rate: nic-t0 links have 1.5 Gb/s"),
        ("", {"fabric": "{t0: 2, t1: 2, hosts: 4, delay: 0us}"}, "fabric.delay is 0"),
        ("", {"fabric": "{t0: 2, t1: 3, hosts: 4}"}, "fabric.t1: the switches of tier 0 have 200 Gb/s"),
        ("", {"fabric": "{t0: 2, t1: 1, hosts: 4, uplink_rate: 200G}"}, "fabric: its topology, line 11: htsim needs"),
        ("", {"fabric": "{t0: 2, t1: 2, hosts: 4, links: {'t0-0:t1-0@p0': {rate: 50G}}}"}, "fabric.links: t0-t1"),
        ("", {"fabric": "{t0: 2, t1: 2, hosts: 4, links: {'t0-0:t1-0@p0': missing}}"}, "fabric.links: links are"),
        ("", {"fabric": "{pods: 2, t0: 1, t1: 2, t2: 2, hosts: 4, t2_wiring: mesh}"}, "fabric.t2_wiring is mesh"),
        ("", {"fabric": "{t0: 2, t1: 2, hosts: 4, kernel_switches: [t1-0@p0]}"}, "fabric.kernel_switches"),
        ("", {"fabric": "{t0: 2, t1: 2, hosts: 4, reroute: 1ms}"}, "fabric.reroute"),
        ("", {"timing": "published_testbed"}, "timing: of all its times"),
        ("", {"faults": "[{kind: link_down, link: 't0-0:t1-0@p0', at: 0us}]"}, "faults: htsim can fail some"),
        ("", {"faults": "[{kind: link_down, link: 't0-0:t1-0@p0', at: 1us}]"}, "faults, line 5: in htsim a"),
        ("", {"faults": "[{kind: loss, link: 't0-0:t1-0@p0', at: 0us, probability: 1%}]"}, "faults, line 5: in htsim"),
        ("", {"variants": "[{name: a}, {name: b}]"}, "variants, axis and sizes are several runs"),
    ],
)  # fmt: skip
def test_what_htsim_has_no_like_of_is_refused_by_its_key(workload, parts, message):
    with pytest.raises(FileError) as refused:
        exported(experiment(workload or "{kind: permutation, total: 1M}", **parts), 1)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_several_workloads_are_refused():
    one = "{{name: {}, kind: permutation, total: 1M}}"
    text = f"fabric: {TWO}\nworkloads: [{one.format('a')}, {one.format('b')}]\nduration: 1ms\n"
    with pytest.raises(FileError, match="workloads: a connection matrix has the flows of one workload"):
        exported(load_text(text), 1)


def test_the_command_writes_two_files_and_mrc_run_takes_them(tmp_path):
    place = tmp_path / "some.yaml"
    place.write_text(f"fabric: {TWO}\nworkload: {WORKLOADS['flows']}\nduration: 1ms\n")
    done = CliRunner().invoke(export, ["htsim", str(place), "-o", str(tmp_path / "out"), "--seed", "3"])
    assert done.exit_code == 0, done.output
    written_there = tmp_path / "out" / "some.cm"
    assert f"{written_there}: 8 nodes, 30 flows" in done.output
    parse_topology((tmp_path / "out" / "some.topo").read_text(), "x")
    case = load_text(place.read_text()).cases[0]
    planned = arrivals(case.workload, case.fabric.fabric(), 3, case.duration)
    found = parse_matrix(written_there.read_text(), "x").flows
    assert [(one.start_ns, one.size) for one in found] == [(one.start, one.size) for one in planned]
    assert mrc(["run", str(written_there), "--check"]) == 0
    assert mrc(["run", str(written_there), "--check", "--topo", str(tmp_path / "out" / "some.topo")]) == 0
    assert mrc(["run", str(place), "--check", "--topo", str(tmp_path / "out" / "some.topo")]) == 2
    assert mrc(["run", str(tmp_path / "missing.cm"), "--check"]) == 3
