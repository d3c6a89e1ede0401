"""Settings of the demo, with defaults that suit a machine of two cores."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc_host.verbs_types import QpAttributes
from mrc_lab.demo.faults import FaultPlan
from mrc_lab.errors import ExperimentError
from mrc_lab.workloads.training.sgd import TrainingPlan
from topologies.clos import multi_plane_clos
from topologies.emulation import switch_kind, wire_kind
from topologies.fabric import Fabric, LinkKind

FIRST_CUT, SECOND_CUT = 0.28, 0.64  # share of the steps after which each fault comes
PROBE_FROM, PROBE_STEPS = 3, 8  # link counters are compared over these steps to find what carries the traffic
FEWEST_STEPS = 40
AFTER_STEPS = 5  # of a run, before which the second link is up again however busy the machine is
AFTER_FAULT_S = 1.0  # at least, for steps to compare those before and during a fault with
_WINDOW_S = 0.020
_MIN_WINDOW = 8 * 4096
_WIRE_OVERHEAD = 1.05  # headers of a 4096-byte packet, acknowledgements
_PIXELS, _CLASSES = 64, 10


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """Dimensions of the fabric, size of the job, and length of the faults.

    `rate_bps` is that of every link and direction, `fault_s` how long each link stays cut, `timeout_s` how long no
    step may complete before a run counts as stalled to the end.
    """

    hosts: int = 4  # one worker each
    planes: int = 2  # of the fabric
    t0: int = 2  # T0s of a plane
    t1: int = 4  # T1s of a plane
    rate_bps: int = 25_000_000
    steps: int = 70  # of training, in each run
    batch: int = 64  # samples a step, over all hosts
    hidden: tuple[int, ...] = (256, 256)  # widths of the hidden layers
    seed: int = 1
    fault_s: float = 3.0
    timeout_s: float = 30.0
    switch: str = switch_kind.DEFAULT  # kind of switch, as for --switch
    wire: str = wire_kind.DEFAULT  # what carries frames, as for --wire
    name: str = "demo"  # of the fabric
    results: Path = Path("results")  # folder for results

    def __post_init__(self) -> None:
        few = f"{self.steps} steps are too few for two faults"
        for wrong, message, hint in (
            (self.steps < FEWEST_STEPS, few, f"Use {FEWEST_STEPS} or more."),
            (self.hosts < 2, "training in parallel needs at least two hosts", ""),
            (
                min(self.t0, self.t1) < 2,
                "cutting a T0-T1 link needs another way round it",
                "Use 2 T0 and 2 T1 or more.",
            ),
            (self.batch < self.hosts, f"a batch of {self.batch} cannot be shared by {self.hosts} hosts", ""),
            (self.fault_s <= 0, f"a fault of {self.fault_s:g} s is none", ""),
            (self.timeout_s <= self.fault_s, "the time without a completed step must be longer than a fault", ""),
        ):
            if wrong:
                raise ExperimentError(message, hint)

    @staticmethod
    def with_enough_steps(*, steps: int | None = None, **options: Any) -> DemoSettings:
        """Settings with `steps` or, where None, as many as leave room for both faults if nothing slows a run down.

        They are no more than that: by default both transports' first faults are over within a minute.
        """
        if steps is not None:
            return DemoSettings(steps=steps, **options)
        settings = DemoSettings(**options)
        wanted = (settings.fault_s + AFTER_FAULT_S) / min(SECOND_CUT - FIRST_CUT, 1 - SECOND_CUT)
        return dataclasses.replace(settings, steps=max(FEWEST_STEPS, math.ceil(wanted / settings.fastest_step_s)))

    @property
    def fastest_step_s(self) -> float:
        """Time that a step's gradients need on the wires of one host, over all planes, at least."""
        sizes = (_PIXELS, *self.hidden, _CLASSES)
        parameters = sum(rows * columns + columns for rows, columns in itertools.pairwise(sizes))
        sent = 2 * (self.hosts - 1) / self.hosts * 8 * parameters
        return sent * 8 * _WIRE_OVERHEAD / (self.planes * self.rate_bps)

    @property
    def plan(self) -> TrainingPlan:
        """The training job."""
        return TrainingPlan(steps=self.steps, batch=self.batch, hidden=self.hidden, seed=self.seed)

    def attributes(self, transport: str) -> QpAttributes:
        """Queue pairs of a run. They never give up, so that a stall ends with the fault.

        MRC has NSCC. RoCE has a fixed window, 20 ms of its one link's rate. The ACK timeout, the same for both, is the
        first one (1.024 us * 2**n) above one and a half times what 20 ms of all planes' rate need on a single link, as
        when all planes but one are gone.
        """
        window = max(int(self.rate_bps / 8 * _WINDOW_S), _MIN_WINDOW)
        whole = window * self.planes
        timeout = math.ceil(math.log2(1.5 * whole * 8 / self.rate_bps / 1.024e-6))
        fixed = None if transport == "mrc" else window
        return QpAttributes(timeout=timeout, retry_count=255, congestion_window=fixed)

    @property
    def fault_steps(self) -> tuple[int, int]:
        """Steps after whose completion the links are cut."""
        return int(self.steps * FIRST_CUT), int(self.steps * SECOND_CUT)

    def faults(self, links: Sequence[str]) -> list[FaultPlan]:
        """Two cuts, of the links given or of the busiest ones; each is over before the next, and before the end."""
        kinds = (LinkKind.T0_T1, LinkKind.NIC_T0)
        given = [*links, *[None] * (len(kinds) - len(links))]
        ends = (self.fault_steps[1], self.steps - AFTER_STEPS)
        return [
            FaultPlan(kind, step, self.fault_s, link, by_step=end)
            for kind, step, link, end in zip(kinds, self.fault_steps, given, ends, strict=True)
        ]

    def fabric(self) -> Fabric:
        """The fabric to bring up; raises `topologies.errors.FabricError` when the numbers make none."""
        return multi_plane_clos(
            self.name, planes=self.planes, t0=self.t0, t1=self.t1, hosts=self.hosts, rate_bps=self.rate_bps
        )
