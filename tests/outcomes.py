"""How tests of other projects ended, and the tables in YAML that say how each of them is expected to end.

A table has the lists `passed`, `skipped` and `failed`: the first of names, the others of names under their reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Outcome:
    """How a test ended: `passed`, `skipped` or `failed`, and why it was no pass."""

    test: str
    outcome: str
    reason: str = ""


def read_table(table: Path) -> dict[str, Outcome]:
    """What a table says, by its names in their order."""
    lists = yaml.safe_load(table.read_text())
    outcomes = [Outcome(test, "passed") for test in lists["passed"]]
    for kind in ("skipped", "failed"):
        for reason, tests in lists[kind].items():
            outcomes += [Outcome(test, kind, reason) for test in tests]
    by_name = {outcome.test: outcome for outcome in outcomes}
    assert len(by_name) == len(outcomes), f"{table.name} names a test twice"
    return by_name
