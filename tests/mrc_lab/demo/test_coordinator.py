import contextlib
import io
import json
import os
import signal
import threading
import time

import pytest
from rich.console import Console

from mrc_lab.demo import coordinator
from mrc_lab.demo.coordinator import Demo
from mrc_lab.demo.run import DemoRun
from mrc_lab.demo.settings import DemoSettings
from tests.mrc_lab.demo.world import FakeWorld
from topologies.emulation.process_watch import Crash

STEP_S = 0.03
STALLED_STEPS = 60  # many: others may keep the processors from MRC's steps for a while


def make(tmp_path, timeout_s=60.0, **world_options):
    (tmp_path / "scratch").mkdir(parents=True)
    settings = DemoSettings(
        steps=40, hidden=(24,), fault_s=0.1, timeout_s=timeout_s, results=tmp_path / "results", rate_bps=50_000_000
    )
    text = io.StringIO()
    worlds = []

    @contextlib.contextmanager
    def make_world(fabric, _folder):
        worlds.append(FakeWorld(fabric, tmp_path / "scratch", step_seconds=STEP_S, **world_options))
        yield worlds[0]

    return Demo(settings, Console(file=text, width=120), make_world), text, worlds


def test_the_demo_runs_with_both_transports(tmp_path):
    demo, text, worlds = make(tmp_path, stalled_steps=STALLED_STEPS)
    status = demo.run()
    print(text.getvalue())
    latest = tmp_path / "results" / "demo" / "latest"
    summary = json.loads((latest / "summary.json").read_text())
    assert status == 0
    assert summary["passed"] is True
    assert summary["wrong_bytes"] == 0
    assert summary["weights_max_abs_diff"] < 1e-9
    assert summary["bring_up_s"] == 1.5
    keys = ("steps", "median_step_s", "longest_stall_s", "packets_lost", "packets_retransmitted")
    for transport in ("mrc", "roce"):
        assert all(summary[transport][key] is not None for key in keys)
        assert summary[transport]["steps"] == 40
        assert summary[transport]["same_bits_as_one_process"] is True
        assert [f["link"] for f in summary[transport]["faults"]] == ["t0-0:t1-1@p0", "h2@p1"]
    assert summary["roce"]["longest_stall_s"] >= STALLED_STEPS * STEP_S
    assert summary["mrc"]["longest_stall_s"] < summary["roce"]["longest_stall_s"]
    assert summary["mrc"]["failover_time_s"] == pytest.approx(0.0007)
    assert 0 <= summary["mrc"]["recovery_time_s"] < 5
    assert summary["roce"]["failover_time_s"] is None
    assert any("RoCE has no failover" in note for note in summary["notes"])
    names = {path.name for path in latest.iterdir()}
    assert names == {
        "summary.json",
        "step_time.png",
        *(f"{kind}-{transport}.{end}" for transport in ("roce", "mrc") for kind, end in (
            ("steps", "csv"), ("events", "jsonl"), ("weights", "npy"),
        )),
    }  # fmt: skip
    assert (latest / "step_time.png").read_bytes().startswith(b"\x89PNG")
    assert "failover time" in text.getvalue()
    assert worlds[0].commands[:4] == worlds[0].commands[4:]  # the same faults in both runs


def test_an_interrupted_demo_writes_partial_results(tmp_path):
    demo, _, _ = make(tmp_path)

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    plain = FakeWorld.link_down

    def link_down(world, link):
        threading.Timer(0.1, interrupt).start()
        return plain(world, link)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeWorld, "link_down", link_down)
        assert demo.run() == 130
    summary = json.loads((tmp_path / "results" / "demo" / "latest" / "summary.json").read_text())
    assert summary["interrupted"] is True
    assert summary["passed"] is False
    assert summary["mrc"] is None
    assert summary["roce"]["steps"] > 10
    assert (tmp_path / "results" / "demo" / "latest" / "steps-roce.csv").exists()


def test_wrong_bytes_fail_the_demo(tmp_path):
    demo, _, _ = make(tmp_path)
    plain = FakeWorld.launch_worker

    def launch(world, host, rank, *rest):
        worker = plain(world, host, rank, *rest)
        world.network.corrupt_next = 1
        return worker

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeWorld, "launch_worker", launch)
        assert demo.run() == 1
    summary = json.loads((tmp_path / "results" / "demo" / "latest" / "summary.json").read_text())
    assert summary["wrong_bytes"] > 0
    assert summary["checks"]["no byte arrived wrong"] is False


def test_a_job_that_never_recovers_fails_the_demo(tmp_path):
    demo, _, _ = make(tmp_path)

    def run_of(transport, *rest, **options):
        """RoCE, which stands still for ever, is given up soon; MRC gets the time that a busy machine takes."""
        return DemoRun(transport, *rest, **{**options, "timeout_s": 2.0 if transport == "roce" else 60.0})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinator, "DemoRun", run_of)
        patch.setattr(FakeWorld, "link_up", lambda world, link: time.monotonic_ns())
        assert demo.run() == 1
    summary = json.loads((tmp_path / "results" / "demo" / "latest" / "summary.json").read_text())
    assert summary["roce"]["completed"] is False
    assert summary["roce"]["longest_stall_s"] >= 2.0
    assert summary["mrc"]["completed"] is True
    assert summary["weights_max_abs_diff"] is None


def test_a_fabric_crash_ends_the_demo_with_partial_results(tmp_path):
    demo, text, _ = make(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        crash = Crash("controller", 42, 0.0, "was killed by SIGKILL", "")
        patch.setattr(FakeWorld, "crashes", lambda world: (crash,) if world.network.placed_bytes else ())
        assert demo.run() == 3
    summary = json.loads((tmp_path / "results" / "demo" / "latest" / "summary.json").read_text())
    assert summary["roce"]["failures"] == [str(crash)]
    assert not summary["mrc"], "the second run was not begun"
    assert summary["passed"] is False
    assert "process controller was killed by SIGKILL" in text.getvalue()


def test_a_failed_bring_up_leaves_no_folder(tmp_path):
    demo, _, _ = make(tmp_path)

    @contextlib.contextmanager
    def fail(fabric, folder):
        raise RuntimeError("no veth")
        yield

    demo.make_world = fail
    with pytest.raises(RuntimeError, match="no veth"):
        demo.run()
    assert not (tmp_path / "results").exists()
