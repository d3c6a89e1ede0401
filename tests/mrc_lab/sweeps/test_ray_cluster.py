"""Runs over Ray, on a cluster of this machine (skipped without the extra); what a node does and refuses."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mrc_host import compiled
from mrc_lab.errors import ExperimentError
from mrc_lab.sweeps import ray_worker
from mrc_lab.sweeps.ray_cluster import over_ray
from mrc_lab.sweeps.ray_connection import connect
from mrc_lab.sweeps.version import digest
from tests.controller.serving import free_port
from tests.mrc_lab.sweeps.workers import killed_at_13, record, runs

_HERE = importlib.util.find_spec("ray") is not None


@pytest.mark.skipif(not _HERE, reason="Ray is not installed: pip install '.[ray]'")
def test_ray_executes_runs_and_a_crash_loses_only_its_own(monkeypatch: pytest.MonkeyPatch):
    outcomes = list(over_ray("local", killed_at_13)(runs(11, 12, 13)))
    done = [outcome.record for outcome in outcomes if outcome.record]
    assert {record["node"] for record in done} == {"127.0.0.1"}, "the cluster listens on loopback only"
    assert sorted(outcome.run.seed for outcome in outcomes if outcome.record) == [11, 12]
    (lost,) = [outcome for outcome in outcomes if outcome.record is None]
    assert lost.run.seed == 13
    assert lost.lost

    monkeypatch.setattr("mrc_lab.sweeps.ray_cluster.digest", lambda: "another")
    with pytest.raises(ExperimentError, match=r"the Ray node .* has another version of this project"):
        list(over_ray("local", record)(runs(1)))


@pytest.mark.skipif(_HERE, reason="Ray is installed")
def test_without_ray_a_message_says_what_to_install():
    with pytest.raises(ExperimentError, match="Ray is not installed") as raised:
        over_ray("local")
    assert "[ray]" in raised.value.hint


@pytest.fixture
def on_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    ray: Any = ModuleType("ray")
    ray.util = SimpleNamespace(get_node_ip_address=lambda: "10.9.8.7")
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.util", ray.util)
    monkeypatch.setattr(compiled, "use", lambda: False)


@pytest.mark.usefixtures("on_a_node")
def test_a_node_executes_a_run_and_reports_its_name():
    answer = ray_worker.work(pickle.dumps((record, runs(3)[0])), digest())
    assert isinstance(answer, bytes)
    assert pickle.loads(answer).record["node"] == "10.9.8.7"


@pytest.mark.usefixtures("on_a_node")
def test_a_node_with_another_version_or_without_the_project_is_reported(monkeypatch: pytest.MonkeyPatch):
    other = ray_worker.work(b"", "another")
    assert f"the Ray node 10.9.8.7 has another version of this project: its sources are {digest()}," in str(other)
    monkeypatch.setitem(sys.modules, "mrc_lab.sweeps.version", None)
    assert "the Ray node 10.9.8.7 cannot import this project" in str(ray_worker.work(b"", digest()))


def test_an_unreachable_cluster_address_is_reported():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ExperimentError, match=f"no Ray cluster answers at {address}: Connection refused"):
        connect(None, address)


def test_the_version_follows_the_sources(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "simulation").mkdir(parents=True)
        (tmp_path / name / "simulation" / "world.py").write_text("now = 0\n")
    assert digest(tmp_path / "one") == digest(tmp_path / "two") != digest()
    (tmp_path / "three" / "simulation").mkdir(parents=True)
    (tmp_path / "three" / "simulation" / "world.py").write_text("now = 1\n")
    assert digest(tmp_path / "three") != digest(tmp_path / "one")
