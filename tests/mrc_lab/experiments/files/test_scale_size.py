"""Estimates of the scale backend: what is counted, and what is refused before it is built."""

from __future__ import annotations

import pytest

from mrc_lab.errors import ExperimentError, FileError
from mrc_lab.experiments.files import load_text, scale_size
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.scale_size import ScaleSize
from mrc_lab.experiments.running.run_experiment import run_experiment

HEAD = "backend: scale\n"
FABRIC = "fabric: {hosts: 16, planes: 2, t0: 4, t1: 2, rate: 100G}\n"
WORK = "workload: {kind: permutation, shift: 4}\n"
REST = "duration: 1ms\nmeasure: {bin: 100us}\n"


def size_of(text: str) -> ScaleSize:
    (case,) = load_text(text).cases
    return ScaleSize.of(case, build_fabric(case.fabric), 6)


def test_more_streams_bins_and_faults_take_more():
    one = size_of(HEAD + FABRIC + WORK + REST)
    all_to_all = "workload: {kind: collective, operation: all_to_all, bytes: 1M}\n"
    assert size_of(HEAD + FABRIC + all_to_all + REST).memory > one.memory
    assert size_of(HEAD + FABRIC + WORK + REST.replace("100us", "10us")).memory > one.memory
    fault = "faults: [{kind: link_down, link: 't0-0:t1-0@p0', at: 200us, until: 300us}]\n"
    assert size_of(HEAD + FABRIC + WORK + REST + fault).time > one.time
    assert size_of(HEAD + FABRIC + WORK + REST + fault).memory == one.memory


def test_pods_and_t2s_are_counted():
    def links(fabric: str) -> float:
        (case,) = load_text(HEAD + fabric + WORK + REST).cases
        return scale_size._links(case.fabric)

    tiers = "fabric: {hosts: 16, planes: 2, pods: 2, t0: 2, t1: 2, t2: 4, rate: 100G}\n"
    racks = "fabric: {racks: [[4, 4], [8]], planes: 2, t1: 2, t2: 4, rate: 100G}\n"
    for fabric in (FABRIC, tiers, racks):
        (case,) = load_text(HEAD + fabric + WORK + REST).cases
        assert links(fabric) == len(build_fabric(case.fabric).links)
    assert size_of(HEAD + tiers + WORK + REST).memory > size_of(HEAD + FABRIC + WORK + REST).memory
    more = tiers.replace("t2: 4", "t2: 16")
    assert size_of(HEAD + more + WORK + REST).time > size_of(HEAD + tiers + WORK + REST).time


def test_a_part_of_all_paths_takes_a_byte_for_each_path_of_a_queue_pair():
    all_paths = size_of(HEAD + FABRIC + WORK + REST).memory
    assert size_of(f"{HEAD}{FABRIC}{WORK}{REST}transport: {{qps: 3, paths: 2}}\n").memory == all_paths + 16 * 3 * 2 * 2
    assert size_of(f"{HEAD}{FABRIC}{WORK}{REST}transport: {{qps: 3, paths: 4}}\n").memory == all_paths


def test_a_fabric_that_does_not_fit_is_refused_at_its_key_before_it_is_built(monkeypatch):
    monkeypatch.setattr(scale_size, "available_memory", lambda: 1 << 30)
    monkeypatch.setattr(scale_size, "resident_memory", lambda: 0)
    monkeypatch.setattr("mrc_lab.experiments.files.checks.build_fabric", None)  # which is not called
    large = "fabric: {hosts: 131072, planes: 8, t0: 512, t1: 256, rate: 100G}\n"
    with pytest.raises(
        FileError, match=r"line 2: fabric: the run would take 1\.85\d* GiB of memory, and 1 GiB are free"
    ):
        load_text(HEAD + large + WORK + REST)


def test_a_run_that_does_not_fit_is_refused_and_others_are_told_their_size_first(monkeypatch):
    told: list[str] = []
    text = FABRIC + WORK + REST
    run_experiment(load_text(text), "scale", 1, notify=told.append)
    assert "16 NICs: about" in told[1]
    monkeypatch.setattr(scale_size, "available_memory", lambda: 1000)
    monkeypatch.setattr(scale_size, "resident_memory", lambda: 1000)
    with pytest.raises(ExperimentError, match=r"the run would take .* of memory, and 1\.953 KiB are free"):
        run_experiment(load_text(text), "scale", 1)
