"""``python -m benchmarks [--history] [--htsim PATH] SUBJECT...``: run every benchmark of each subject.

Those are the modules named SUBJECT_*.py. With ``--htsim`` the simulation is compared with htsim, whose binary
``htsim_eqds`` is at the path (:mod:`benchmarks.sim_permutation`). With ``--history`` results are kept by commit and
compared with those of the one before (:mod:`benchmarks.history`).
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import benchmarks
from benchmarks import history
from benchmarks.report import Measurement, report, report_changes

HISTORY, HTSIM = "--history", "--htsim"


def main(arguments: list[str], file: Path = history.FILE) -> int:
    """Run the benchmarks of the subjects named; returns the exit status."""
    modules = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    subjects = sorted({name.split("_")[0] for name in modules if "_" in name and not name.startswith("__")})
    asked, binary = _without_htsim([argument for argument in arguments if argument != HISTORY])
    if not asked or any(subject not in subjects for subject in asked):
        usage = f"python -m benchmarks [{HISTORY}] [{HTSIM} PATH] SUBJECT..."
        print(f"usage: {usage}   with subjects: {' '.join(subjects)}", file=sys.stderr)
        return 2
    if binary is not None and not os.access(binary, os.X_OK):
        print(f"There is no program {binary}: give {HTSIM} the path of csg-htsim's htsim_eqds.", file=sys.stderr)
        return 2
    if binary is not None:
        importlib.import_module("benchmarks.sim_permutation").use(binary)
    try:
        earlier = (
            history.kept(file) if HISTORY in arguments else []
        )  # a history that cannot be read is no use after an hour
        measured: list[Measurement] = []
        for subject in asked:
            for name in modules:
                if name.startswith(f"{subject}_"):
                    report(_noted(importlib.import_module(f"benchmarks.{name}").measure(), measured))
        if HISTORY in arguments:
            run = history.this_run(measured)
            history.keep(run, file)
            report_changes(run.tree, history.changes([*earlier, run]))
    except history.HistoryError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def _without_htsim(arguments: list[str]) -> tuple[list[str], Path | None]:
    """The arguments without ``--htsim PATH``, and the path; a missing one is left to be refused."""
    if HTSIM not in arguments[:-1]:
        return arguments, None
    at = arguments.index(HTSIM)
    return arguments[:at] + arguments[at + 2 :], Path(arguments[at + 1])


def _noted(measurements: Iterable[Measurement], into: list[Measurement]) -> Iterator[Measurement]:
    for measurement in measurements:
        into.append(measurement)
        yield measurement


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
