"""``python -m benchmarks SUBJECT``: run every benchmark of a subject, that is each module named SUBJECT_*.py here."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks.report import report


def main(arguments: list[str]) -> int:
    """Run the benchmarks of the subjects named; returns the exit status."""
    modules = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    subjects = sorted({name.split("_")[0] for name in modules if "_" in name and not name.startswith("__")})
    unknown = [subject for subject in arguments if subject not in subjects]
    if unknown or not arguments:
        print(f"usage: python -m benchmarks SUBJECT...   with subjects: {' '.join(subjects)}", file=sys.stderr)
        return 2
    for subject in arguments:
        for name in modules:
            if name.startswith(f"{subject}_"):
                report(importlib.import_module(f"benchmarks.{name}").measure())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
