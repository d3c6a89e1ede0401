"""The demo's PyTorch job from launch to exit status, on hosts that only print what the job would."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mrc_lab.demo.settings import DemoSettings
from mrc_lab.errors import ExperimentError
from mrc_lab.torch_jobs.demo import PytorchDemo
from mrc_lab.torch_jobs.launch import RankFailure
from tests.waiting import until
from topologies.emulation.process_watch import Crash

STEPS = 40


class PrintingHosts:
    """A fabric whose hosts print 40 steps at once, but wait for each cut link to be restored."""

    def __init__(self, fabric: Any, scratch: Path) -> None:
        self.fabric = fabric
        self.scratch = scratch
        self.commands: list[tuple[str, str]] = []
        self.runs: list[Mapping[str, str]] = []
        self.failing: str | None = None  # the variable MRC_QP_TYPE of the run in which h2 fails
        self.wrong: str | None = None  # of the run whose weights are not gloo's
        self.crashed: tuple[Crash, ...] = ()
        self.bytes = 0

    def train(
        self, command: Sequence[str], more: Mapping[str, str], write: Callable[[str], object]
    ) -> RankFailure | None:
        gloo = command[command.index("--backend") + 1] == "gloo"
        kind = "gloo" if gloo else more["MRC_QP_TYPE"]
        self.runs.append(more)
        before = len(self.commands)
        for step in range(STEPS):
            write(f"[h1] step {step + 1} loss {3 / (step + 1):.4f} in 0.010 s\n")
            if step == 20 and kind == self.failing:
                write("[h2] RuntimeError: the dog ate the gradients\n")
                write("[h2] ended with status 1; the other ranks are ended.\n")
                return RankFailure("h2", 1, "ended with status 1")
            for cut, at in enumerate(DemoSettings(steps=STEPS).fault_steps):
                if step == at and not gloo:
                    until(lambda: len(self.commands) >= before + 2 * (cut + 1), "a cut link to be restored")  # noqa: B023
        folder = Path(command[command.index("--weights") + 1])
        for rank in range(2):
            weights = np.linspace(0, 1, 5) + (1e-6 if kind == self.wrong and rank == 1 else 0)
            np.save(folder / f"weights-{rank}.npy", weights)
        return None

    def retransmitted(self) -> int:
        return 7 * len(self.runs)

    def link_bytes(self) -> Mapping[str, int]:
        self.bytes += 1000
        return {"t0-0:t1-1@p0": self.bytes, "h2@p1": self.bytes}

    def link_down(self, link: str) -> int:
        self.commands.append(("down", link))
        return time.monotonic_ns()

    def link_up(self, link: str) -> int:
        self.commands.append(("up", link))
        return time.monotonic_ns()

    def crashes(self) -> Sequence[Crash]:
        return self.crashed


def demo(folder: Path, prepare: Callable[[PrintingHosts], object] = lambda hosts: None) -> Any:
    settings = DemoSettings(steps=STEPS, fault_s=0.01, results=folder)
    hosts = PrintingHosts(settings.fabric(), folder)
    prepare(hosts)

    @contextlib.contextmanager
    def up(fabric: Any, folder: Any) -> Any:
        yield hosts

    shown = io.StringIO()
    made = PytorchDemo(settings, Console(file=shown, width=160), up, lambda world: hosts, settings.fabric())  # type: ignore[type-var]
    return made, hosts, shown


def summary(folder: Path) -> Any:
    return json.loads((folder / "demo" / "latest" / "summary.json").read_text())


def test_all_three_runs_end_and_both_transports_have_the_same_links_cut(tmp_path: Path) -> None:
    made, hosts, shown = demo(tmp_path)
    assert made.run() == 0, shown.getvalue()
    cuts = [("down", "t0-0:t1-1@p0"), ("up", "t0-0:t1-1@p0"), ("down", "h2@p1"), ("up", "h2@p1")]
    assert hosts.commands == cuts * 2
    assert [run["MRC_QP_TYPE"] for run in hosts.runs[1:]] == ["rc", "mrc"]
    found = summary(tmp_path)
    assert all(found["checks"].values())
    for transport in ("gloo", "roce", "mrc"):
        assert (found[transport]["steps"], found[transport]["packets_retransmitted"]) == (STEPS, 7)
        assert found[transport]["median_step_s"] == pytest.approx(0.01)
    assert [len(found[transport]["faults"]) for transport in ("gloo", "roce", "mrc")] == [0, 2, 2]
    assert (tmp_path / "demo" / "latest" / "step_time.png").stat().st_size
    assert "A GPT takes 40 steps over each of gloo, RoCE and MRC" in shown.getvalue()
    assert "gloo step    0/40" in shown.getvalue(), "before PyTorch has started"
    assert "step time, median" in shown.getvalue()


def test_weights_other_than_gloos_fail_the_demo(tmp_path: Path) -> None:
    made, _, shown = demo(tmp_path, lambda hosts: setattr(hosts, "wrong", "mrc"))
    assert made.run() == 1
    assert "NO  all ranks' weights equal gloo's" in shown.getvalue()
    assert summary(tmp_path)["mrc"]["weights_max_abs_diff_to_gloo"] == pytest.approx(1e-6)


def test_a_rank_that_fails_ends_the_demo_in_one_sentence_and_leaves_the_results(tmp_path: Path) -> None:
    made, hosts, _ = demo(tmp_path, lambda hosts: setattr(hosts, "failing", "rc"))
    with pytest.raises(ExperimentError) as raised:
        made.run()
    assert str(raised.value) == "the rank on h2 ended with status 1: RuntimeError: the dog ate the gradients"
    assert hosts.commands[-1][0] == "up", "no link stays cut"
    assert len(hosts.runs) == 2, "nothing is trained after that"
    assert summary(tmp_path)["roce"]["steps"] == 21


def test_a_crash_of_the_fabric_ends_the_demo_with_status_3(tmp_path: Path) -> None:
    crash = Crash("switches", 1234, 0.0, "was killed by SIGKILL", "")
    made, hosts, _ = demo(tmp_path, lambda hosts: setattr(hosts, "crashed", (crash,)))
    assert made.run() == 3
    assert len(hosts.runs) == 1


def test_a_fault_that_cannot_be_made_fails_the_run(tmp_path: Path) -> None:
    made, hosts, _ = demo(tmp_path)

    def refuse(link: str) -> int:
        hosts.commands.extend([("down", link)] * 4)
        raise RuntimeError("the controller is gone")

    hosts.link_down = refuse
    with pytest.raises(ExperimentError, match="a fault could not be made: the controller is gone"):
        made.run()


def test_an_interrupt_ends_the_demo_with_its_status_and_leaves_the_results(tmp_path: Path) -> None:
    made, hosts, shown = demo(tmp_path)

    def interrupt(command: Sequence[str], more: Mapping[str, str], write: Callable[[str], object]) -> None:
        write("[h1] step 1 loss 3.0 in 0.010 s\n")
        raise KeyboardInterrupt

    hosts.train = interrupt
    assert made.run() == 130
    found = summary(tmp_path)
    assert (found["interrupted"], found["passed"], found["gloo"]["steps"]) == (True, False, 1)
    assert "NO  every run was made to the end" in shown.getvalue()
