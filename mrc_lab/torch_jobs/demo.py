"""The demo with a PyTorch job: a small GPT is trained by DistributedDataParallel over gloo, RoCE and MRC.

gloo comes first, over TCP on the management network and without faults: its weights are what the others' are compared
with. RoCE and MRC then have the same links cut after the same steps. Training is in float64, where another order of
addition changes digits that do not matter, so that any lost or doubled gradient would show.
"""

from __future__ import annotations

import dataclasses
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from rich.console import Console

from mrc_common import strict_json
from mrc_common.units import show_rate
from mrc_common.written_files import write_text
from mrc_lab.demo.fabric_interface import World
from mrc_lab.demo.metrics import RunMetrics, run_metrics
from mrc_lab.demo.plot import plot_step_times
from mrc_lab.demo.progress import Progress
from mrc_lab.demo.record import RunRecord
from mrc_lab.demo.result_folder import ResultFolder
from mrc_lab.demo.settings import DemoSettings
from mrc_lab.demo.summary import fault_sections, print_checks, print_table, show_seconds, step_rows
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.emulation import EmulatedWorld
from mrc_lab.torch_jobs import installation
from mrc_lab.torch_jobs.demo_hosts import EmulatedHosts
from mrc_lab.torch_jobs.demo_run import GPT, Hosts, PytorchRun
from topologies.emulation import requirements
from topologies.fabric import Fabric

TRANSPORTS = ("gloo", "roce", "mrc")
WEIGHT_TOLERANCE = 1e-9  # of float64
Up = TypeVar("Up", bound=World)
PASSED, CHECK_FAILED, BROKEN = 0, 1, 3


def run_demo(
    settings: DemoSettings,
    fabric: Fabric,
    console: Console,
    make_world: Callable[[Fabric, Path], AbstractContextManager[EmulatedWorld]],
    *,
    install: bool,
) -> int:
    """Run the demo in the hosts of an emulated fabric; its exit status, as :meth:`PytorchDemo.run` gives it.

    Where PyTorch is missing it is installed first if `install`, or else ExperimentError says how to. Nothing is
    installed where no fabric can be brought up.
    """
    requirements.check(switch=settings.switch)
    if install and not installation.installed():
        size = installation.SIZE
        print(f"PyTorch is missing: installing its CPU build ({size}), which takes some minutes.", flush=True)
        installation.install_torch()
    installation.require_torch(", or run the demo without --no-install-torch, which does that.")
    return PytorchDemo(settings, console, make_world, EmulatedHosts, fabric).run()


@dataclass(slots=True)
class PytorchDemo(Generic[Up]):
    """One demo on `fabric`, which `make_world` brings up, given the result folder; `hosts_of` it run the programs."""

    settings: DemoSettings
    console: Console
    make_world: Callable[[Fabric, Path], AbstractContextManager[Up]]
    hosts_of: Callable[[Up], Hosts]
    fabric: Fabric
    records: dict[str, RunRecord] = field(default_factory=dict)
    retransmitted: dict[str, int] = field(default_factory=dict)
    broken: bool = False

    def run(self) -> int:
        """0 if all checks passed, 1 if one failed, 3 if a process of the fabric crashed, 128 + signal if interrupted.

        ExperimentError, in one sentence, when a rank fails. Results are written in any case, if there are some.
        """
        if not GPT.exists():
            raise ExperimentError(
                "the program that this trains is not installed", f"Run it in a checkout, which has {GPT.name}."
            )
        folder = ResultFolder(self.settings.results)
        summary: dict[str, Any] = {"passed": False}
        interrupted = False
        try:
            with self.make_world(self.fabric, folder.path) as world:
                self._print_plan()
                self._runs(world, folder.path)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if self.records:
                summary = self._write(folder, interrupted=interrupted)
            else:
                folder.discard()
        failure = next((why for record in self.records.values() for why in record.failures), None)
        if interrupted:
            return 128 + signal.SIGINT
        if self.broken:
            return BROKEN
        if failure is not None:
            raise ExperimentError(failure, f"All output is in {folder.path}.")
        return PASSED if summary["passed"] else CHECK_FAILED

    def _print_plan(self) -> None:
        s = self.settings
        self.console.print(
            f"{s.planes} planes x ({s.t0} T0 + {s.t1} T1), {s.hosts} hosts, {show_rate(s.rate_bps)} a link."
            f" A GPT takes {s.steps} steps over each of gloo, RoCE and MRC; PyTorch takes a while to start.",
            highlight=False,
            soft_wrap=True,
        )

    def _runs(self, world: Up, folder: Path) -> None:
        """All runs, until one fails."""
        links: list[str] = []
        hosts = self.hosts_of(world)
        with Progress(self.console) as progress:
            for transport in TRANSPORTS:
                faults = [] if transport == "gloo" else self.settings.faults(links)
                run = PytorchRun(transport, world, hosts, faults, progress, folder=folder)
                try:
                    record = run.run(self.settings.steps, self.settings.timeout_s)
                finally:
                    self.records[transport] = run.record
                self.retransmitted[transport] = run.retransmitted
                links = [fault.link for fault in record.faults]
                crashes = world.crashes()
                self.broken = bool(crashes)
                for crash in crashes:
                    progress.mark(record, str(crash))
                if self.broken or record.failures:
                    return

    # Results

    def _write(self, folder: ResultFolder, *, interrupted: bool) -> dict[str, Any]:
        """Write the result folder, and print the summary."""
        try:
            weights = {name: _weights(folder.path, name) for name in self.records}
            differences = {name: largest_difference(each, weights["gloo"]) for name, each in weights.items()}
            metrics = {name: run_metrics(record, self.fabric) for name, record in self.records.items()}
            summary = self._summarise(metrics, differences, interrupted=interrupted)
            write_text(folder.path / "summary.json", strict_json.dumps(strict_json.finite(summary), indent=2) + "\n")
            plot_step_times(list(self.records.values()), folder.path / "step_time.png")
        finally:
            folder.finish()
        names = [name for name in TRANSPORTS if name in metrics]
        print_table(self.console, names, self._rows(names, metrics, differences))
        print_checks(self.console, summary["checks"])
        self.console.print(f"Results: {folder.path}", highlight=False, soft_wrap=True)
        return summary

    def _summarise(
        self, metrics: Mapping[str, RunMetrics], differences: Mapping[str, float | None], *, interrupted: bool
    ) -> dict[str, Any]:
        """The whole of ``summary.json``. Times are seconds."""
        complete = (
            not interrupted and len(metrics) == len(TRANSPORTS) and all(r.complete for r in self.records.values())
        )
        faulty = [metrics[name] for name in ("roce", "mrc") if name in metrics]
        checks = {
            "every run was made to the end": complete,
            "all ranks' weights equal gloo's": complete
            and all(each is not None and each <= WEIGHT_TOLERANCE for each in differences.values()),
            "every link came back up": len(faulty) == 2
            and all([f.link_up_s is not None for f in each.faults] == [True, True] for each in faulty),
        }
        return {
            **{
                name: {
                    "steps": each.steps,
                    "median_step_s": each.median_step_s,
                    "longest_stall_s": each.longest_stall_s,
                    "packets_retransmitted": self.retransmitted.get(name),
                    "weights_max_abs_diff_to_gloo": differences[name],
                    "failures": self.records[name].failures,
                    "faults": [_fault(fault) for fault in dataclasses.asdict(each)["faults"]],
                }
                for name, each in metrics.items()
            },
            "interrupted": interrupted,
            "checks": checks,
            "passed": all(checks.values()),
            "settings": dataclasses.asdict(self.settings) | {"results": str(self.settings.results)},
        }

    def _rows(
        self, names: Sequence[str], metrics: Mapping[str, RunMetrics], differences: Mapping[str, float | None]
    ) -> list[tuple[str, list[str]]]:
        each = [metrics[name] for name in names]
        rows = [
            ("steps completed", [f"{one.steps}/{self.settings.steps}" for one in each]),
            ("step time, median", [show_seconds(one.median_step_s) for one in each]),
            ("longest stall", [show_seconds(one.longest_stall_s) for one in each]),
            ("retransmissions", [str(self.retransmitted.get(name, "unknown")) for name in names]),
            ("weights off gloo's", [_number(differences[name]) for name in names]),
        ]
        faults = fault_sections(each, lambda _, faults: step_rows(faults))
        # gloo's run has none.
        return [*rows, *((label, ["-", *cells[1:]] if cells else []) for label, cells in faults)]


def largest_difference(some: Sequence[Any], others: Sequence[Any]) -> float | None:
    """Between any weight of any rank in `some` and the same of the first in `others`; None where there are none."""
    if not some or not others:
        return None
    return max(float(np.abs(weights - others[0]).max()) for weights in some)


def _weights(folder: Path, transport: str) -> list[Any]:
    """Those of all ranks of a run, which are left as one file if they were written."""
    made = folder / f"weights-{transport}"
    weights = [np.load(path) for path in sorted(made.glob("*.npy"))]
    shutil.rmtree(made, ignore_errors=True)
    if weights:
        np.save(folder / f"weights-{transport}.npy", weights[0])
    return weights


def _fault(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a fault without reports of paths."""
    paths = ("failover", "recovery", "never_recovered", "collateral_paths", "port_down", "port_up")
    return {name: value for name, value in metrics.items() if name not in paths}


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1e}"
