"""The fabric of an experiment from a fabric file, with racks or with fewer ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import FileError, load_file
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.model import Experiment
from mrc_lab.experiments.running import emulated_backend, scaling
from mrc_lab.reports.report import describe
from mrc_lab.reports.run_and_report import run_and_report
from topologies.loader import load_text

LAB = """
name: lab
planes: 2
pods: 2
t0: 2
t1: 2
t2: 2
hosts: 4
rate: 100G
queues: {trimming: no}
links: {t1-t2: {rate: 200G}, "t0-0:t1-1@p1": missing}
"""


def loaded(folder: Path, fabric: str, workload: str = "{kind: write_bw, pairs: h1>h4, message: 64KiB}") -> Experiment:
    (folder / "lab.yaml").write_text(LAB)
    path = folder / "experiment.yaml"
    path.write_text(f"fabric: {fabric}\nworkload: {workload}\nduration: 300us\n")
    return load_file(path)


def test_a_fabric_file_beside_the_experiment_defines_the_fabric(tmp_path: Path) -> None:
    (case,) = loaded(tmp_path, "{file: lab.yaml}").cases
    expected = load_text(LAB)
    made = build_fabric(case.fabric, "lab")
    assert made == expected
    part = case.fabric
    assert (part.hosts, part.planes, part.pods, part.t0, part.t1, part.t2, part.rate_bps) == (4, 2, 2, 2, 2, 2, 10**11)
    assert "2 planes of 2 pods of 2 T0 and 2 T1, and 2 T2, 4 hosts" in describe(case)


def test_queue_settings_override_those_of_the_fabric_file(tmp_path: Path) -> None:
    (case,) = loaded(tmp_path, "{file: lab.yaml, delay: 2us, pfc: yes, queues: {trim: 90}}").cases
    queues = build_fabric(case.fabric).queues
    assert (queues.trimming, queues.pfc, queues.trim) == (False, True, 90)
    assert case.fabric.delay == 2_000


def test_racks_and_ports_are_read(tmp_path: Path) -> None:
    text = "{planes: 2, t1: 2, racks: [[2, 1], [1]], t2: 2, ports: {h2: 1}}"
    fabric = build_fabric(loaded(tmp_path, text).cases[0].fabric)
    assert [len(fabric.nics_of(t0)) for t0 in range(3)] == [2, 1, 1]
    assert "h2@p1" not in {link.name for link in fabric.links}
    flat = build_fabric(loaded(tmp_path, "{t1: 2, racks: [3, 1]}").cases[0].fabric)
    assert (flat.pods, flat.t0_count, len(flat.nics)) == (1, 2, 4)


def test_an_experiment_takes_all_keys_of_a_fabric_file(tmp_path: Path) -> None:
    text = "{hosts: 2, mtu: 9000, usid_block: 'fc00:1::/32', protocol: {hop_limit: 9}, queues: {pfc: yes}}"
    fabric = build_fabric(loaded(tmp_path, text, "{kind: write_bw, pairs: h1>h2}").cases[0].fabric)
    assert (fabric.mtu, fabric.usid_block, fabric.settings.hop_limit) == (9000, 0xFC00_0001, 9)
    assert fabric.queues.pfc


@pytest.mark.parametrize(
    ("fabric", "problem"),
    [
        ("{planes: 2}", "line 1: fabric: hosts is missing: hosts in all, a multiple of the T0s; or give racks"),
        ("{file: none.yaml}", "line 1: fabric.file: "),
        ("{file: lab.yaml, planes: 2}", "line 1: fabric.planes: follows from the file: leave it out"),
        ("{racks: [1, 1], hosts: 2}", "line 1: fabric.hosts: follows from racks: leave it out"),
        ("{racks: []}", "fabric.racks: must list the hosts of each T0"),
        ("{racks: [[1], 2]}", "fabric.racks: has numbers of hosts, or lists of them, not both"),
        ("{racks: [0]}", "fabric.racks[0]: is 0, but must be 1 to 1024"),
        ("{hosts: 2, ports: {t0-0: 1}}", "fabric.ports.t0-0: is no host"),
    ],
)
def test_invalid_fabrics_are_refused_with_line_and_reason(tmp_path: Path, fabric: str, problem: str) -> None:
    with pytest.raises(FileError) as found:
        loaded(tmp_path, fabric)
    assert problem in str(found.value)


def test_an_invalid_fabric_file_is_named_with_the_line(tmp_path: Path) -> None:
    loaded(tmp_path, "{file: lab.yaml}")
    (tmp_path / "lab.yaml").write_text("name: lab\nplanes: nine\n")
    with pytest.raises(FileError, match=r"line 1: fabric\.file: .*lab\.yaml, line 1: t0 is missing"):
        load_file(tmp_path / "experiment.yaml")


def test_emulation_scales_the_rates_of_a_file_and_refuses_its_delays(tmp_path: Path) -> None:
    (case,) = loaded(tmp_path, "{file: lab.yaml}").cases
    scale = scaling.scale_of([case])
    assert {link.rate_bps for link in scaling.scaled_fabric(case, scale).links} == {
        round(10**11 * scale),
        round(2 * 10**11 * scale),
    }
    (tmp_path / "lab.yaml").write_text(LAB.replace("rate: 200G", "delay: 5us"))
    (slow,) = load_file(tmp_path / "experiment.yaml").cases
    with pytest.raises(ExperimentError, match=r"emulated links have no propagation delay, but lab\.yaml gives some"):
        emulated_backend.check(slow, scale)


def test_the_copy_in_the_result_runs_again(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, "{file: lab.yaml}")
    result = run_and_report(experiment, "sim", 1, tmp_path / "results")
    again = load_file(result.folder / "experiment.yaml")
    assert build_fabric(again.cases[0].fabric) == build_fabric(experiment.cases[0].fabric)


@pytest.mark.parametrize(
    ("own", "beside", "expected"),
    [("", "", None), ("reroute: 5ms\n", "", 5_000_000), ("reroute: 5ms\n", ", reroute: 50us", 50_000)],
)
def test_a_time_to_reroute_is_laid_over_that_of_the_file(
    tmp_path: Path, own: str, beside: str, expected: int | None
) -> None:
    (tmp_path / "mine.yaml").write_text(f"name: mine\nplanes: 2\nt0: 2\nt1: 2\nhosts: 4\n{own}")
    (case,) = loaded(tmp_path, f"{{file: mine.yaml{beside}}}").cases
    assert build_fabric(case.fabric).reroute_ns == expected
