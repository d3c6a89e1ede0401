"""What workers do in tests of how runs are spread; seeds say how a run goes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from mrc_lab.sweeps.grid import SweepRun
from mrc_lab.sweeps.run_one import SweepOutcome


def runs(*seeds: int, text: str = "") -> list[SweepRun]:
    return [SweepRun("test", "test.yaml", text, (), seed) for seed in seeds]


def record(run: SweepRun) -> SweepOutcome:
    return SweepOutcome(run, {"run": run.id, "pid": os.getpid()})


def killed_at_13(run: SweepRun) -> SweepOutcome:
    """A run whose worker is killed in the middle of it."""
    if run.seed == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return record(run)


def say_and_stay(run: SweepRun) -> SweepOutcome:
    """A run that writes its process id to the FIFO that its text names, and would last long."""
    Path(run.text).write_text(f"{os.getpid()}\n")
    time.sleep(600)
    return record(run)
