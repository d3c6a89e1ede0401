"""What workers do in tests of how runs are spread; seeds say how a run goes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from mrc_lab.sweeps.grid import Run
from mrc_lab.sweeps.run_one import Outcome


def runs(*seeds: int, text: str = "") -> list[Run]:
    return [Run("test", "test.yaml", text, (), seed) for seed in seeds]


def record(run: Run) -> Outcome:
    return Outcome(run, {"run": run.id, "pid": os.getpid()})


def killed_at_13(run: Run) -> Outcome:
    """A run whose worker is killed in the middle of it."""
    if run.seed == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return record(run)


def say_and_stay(run: Run) -> Outcome:
    """A run that writes its process id to the FIFO that its text names, and would last long."""
    Path(run.text).write_text(f"{os.getpid()}\n")
    time.sleep(600)
    return record(run)
