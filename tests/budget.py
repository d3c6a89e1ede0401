"""What the tests of each room cost, and what they may, so that whatever makes them slow is seen when it comes.

Cost is processor time, user and system, of tests and of the processes they waited for: it is much the same on a busy
machine, which the elapsed time beside it is not. `pytest --costs=FILE` appends it to a file, whether pytest runs the
tests itself or xdist's workers do; `python -m tests.budget FILE RING` prints the table, as `scripts/test` does at its
end.
A room over its budget is a line of warning, not a failure: a newcomer's machine may be slower.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pytest

COLLECTING = "(collecting)"  # imports and whatever else is done between tests

# CPU minutes by ring of tests (tests/rings.py), the first and the second: a tenth more than they took on 2026-11-29, on
# two slow cores of an AMD EPYC server. Who raises one says in the commit why.
BUDGET_MIN: Final = {
    COLLECTING: (1.2, 0.5),
    "benchmarks": (0, 0.05),
    "congestion": (0.1, 0),
    "controller": (0.45, 0.35),
    "docs": (0.1, 2),
    "examples": (0, 0.5),
    "fuzz": (0, 1.5),
    "integration": (4.3, 6),
    "mrc_common": (0.7, 0.1),
    "mrc_host": (2.7, 1.5),
    "mrc_lab": (3.4, 8.5),
    "p4compiler": (0.5, 0.8),
    "p4runtime_shim": (1.2, 1.6),
    "p4src": (0.1, 0),
    "rank_faults": (0, 1),
    "scale_comparison": (0.05, 0.6),
    "scripts": (0, 2.4),
    "simulation": (1.1, 0.6),
    "soak_kill": (0.05, 0),
    "swarm": (0.35, 0.1),
    "topologies": (0.35, 0),
    "vagrant": (0, 0.05),
}
ELAPSED_MIN: Final = 5.0  # either ring, on two cores of a 2024 server that do nothing else

_COST = "cost"


@dataclass
class Cost:
    """Tests of one room: how many, the processor time and the elapsed time they took together, in seconds."""

    tests: int = 0
    cpu_s: float = 0.0
    elapsed_s: float = 0.0

    def add(self, tests: int, cpu_s: float, elapsed_s: float) -> None:
        """Some more of them."""
        self.tests += tests
        self.cpu_s += cpu_s
        self.elapsed_s += elapsed_s


def room(test: str) -> str:
    """The room of a test, by its id: the folder, or the file, below tests/."""
    return Path(test.partition("::")[0]).parts[1]


def processor_time(who: int) -> float:
    """User and system seconds of this process, or of the children that it has waited for."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


class Costs:
    """A pytest plugin: notes in each process what its tests cost, and adds it up in the one that was started first."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rooms: defaultdict[str, Cost] = defaultdict(Cost)
        self._began = time.monotonic()
        self._before = (0.0, 0.0, 0.0)  # when the test began: of this process, of its children, elapsed
        self._own_s = 0.0  # processor time of this process in tests

    @staticmethod
    def _now() -> tuple[float, float, float]:
        own, children = (processor_time(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return own, children, time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._before = self._now()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            own, children, elapsed = (after - before for after, before in zip(self._now(), self._before, strict=True))
            self._own_s += own
            report.user_properties.append((_COST, (own + children, elapsed)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, cost in report.user_properties:
            if name == _COST:
                self._rooms[room(report.nodeid)].add(1, *cost)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self._rooms[COLLECTING].add(0, getattr(node, "workeroutput", {}).get(_COST, 0.0), 0.0)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        rest_s = processor_time(resource.RUSAGE_SELF) - self._own_s
        to_first = getattr(
            session.config, "workeroutput", None
        )  # what xdist takes to the process that was started first
        if to_first is not None:
            to_first[_COST] = rest_s
            return
        self._rooms[COLLECTING].add(0, rest_s, 0.0)
        rooms = {name: asdict(cost) for name, cost in self._rooms.items()}
        with self._file.open("a") as file:
            file.write(json.dumps({"began": self._began, "ended": time.monotonic(), "rooms": rooms}) + "\n")


def read(lines: Iterable[str]) -> tuple[dict[str, Cost], float]:
    """The cost of each room in several runs of pytest, and the seconds from the first begin to the last end."""
    rooms: defaultdict[str, Cost] = defaultdict(Cost)
    runs = [json.loads(line) for line in lines]
    for run in runs:
        for name, cost in run["rooms"].items():
            rooms[name].add(**cost)
    elapsed_s = max((run["ended"] for run in runs), default=0.0) - min((run["began"] for run in runs), default=0.0)
    return dict(sorted(rooms.items())), elapsed_s


def table(rooms: Mapping[str, Cost], elapsed_s: float, ring: int) -> list[str]:
    """One line a room, in minutes, and a warning for each that is over its budget of the ring or has none."""
    lines = [f"{'room':<16}{'tests':>7}{'elapsed':>9}{'CPU':>8}{'budget':>8}  minutes"]
    warnings = []
    budgets = {name: by_ring[ring - 1] for name, by_ring in BUDGET_MIN.items()}
    for name, cost in rooms.items():
        budget = budgets.get(name)
        cpu = cost.cpu_s / 60
        row = f"{name:<16}{cost.tests:>7}{cost.elapsed_s / 60:>9.2f}{cpu:>8.2f}"
        lines.append(f"{row}{'none':>8}" if budget is None else f"{row}{budget:>8.2f}")
        if budget is None:
            warnings.append(f"WARNING: {name} has no budget: give it one in tests/budget.py.")
        elif cpu > budget:
            warnings.append(f"WARNING: {name} is over its budget: {cpu:.2f} CPU minutes, {budget:.2f} are allowed.")
    every = [sum(cost.tests for cost in rooms.values()), sum(cost.cpu_s for cost in rooms.values()) / 60]
    lines.append(f"{'all':<16}{every[0]:>7}{elapsed_s / 60:>9.2f}{every[1]:>8.2f}{sum(budgets.values()):>8.2f}")
    if elapsed_s > ELAPSED_MIN * 60:
        lines.append(f"On two cores that do nothing else it should take {ELAPSED_MIN:g} minutes.")
    return lines + warnings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FILE", type=Path, help="append what the tests of each room cost to a file")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("costs"):
        config.pluginmanager.register(Costs(config.getoption("costs").absolute()))


if __name__ == "__main__":
    print(*table(*read(Path(sys.argv[1]).read_text().splitlines()), int(sys.argv[2])), sep="\n")
