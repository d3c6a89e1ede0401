"""The loop that every fuzzer shares: cases until the time is up, each from a random generator of its own.

A fuzzer is the class ``Fuzzer`` of a file ``fuzz_NAME.py``, with two methods. ``case(chance)`` tries one input, chosen
with the generator it is given, and raises when what it attacks misbehaves; ``close()`` gives everything back. Case
number n of a seed always gets the same generator, so that ``--seed S --case N`` repeats one case on a fresh fuzzer; a
defect that needs the cases before it shows with ``--seed S`` alone. After a crash a new fuzzer takes over; after
MAX_CRASHES of them the run ends.
"""

from __future__ import annotations

import importlib
import json
import math
import random
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

MAX_CRASHES = 5
_PREFIX = "fuzz_"
NAMES = sorted(file.stem.removeprefix(_PREFIX) for file in Path(__file__).parent.glob(f"{_PREFIX}*.py"))


class Fuzzer(Protocol):
    """Something that is attacked."""

    def case(self, chance: random.Random) -> None:
        """Try one input; any exception is a crash."""

    def close(self) -> None:
        """Give back what the fuzzer holds."""


@dataclass(frozen=True)
class Result:
    """What a run tried and found; `longest_case_ms` is the time of the slowest case in milliseconds."""

    name: str
    seed: int
    cases: int
    crashes: int
    longest_case_ms: float

    def json(self) -> str:
        """One line for programs."""
        return json.dumps(asdict(self))


def load(name: str) -> type[Fuzzer]:
    """The fuzzer of this name."""
    kind: type[Fuzzer] = importlib.import_module(f"{__package__}.{_PREFIX}{name}").Fuzzer
    return kind


def run(
    name: str,
    make: Callable[[], Fuzzer],
    seed: int,
    *,
    seconds: float = math.inf,
    first: int = 0,
    most: float = math.inf,
) -> Result:
    """Try cases from number `first` on, for `seconds` or until there were `most`; prints how to repeat each crash."""
    end = time.monotonic() + seconds
    cases = crashes = 0
    longest = 0.0
    fuzzer = make()
    try:
        while crashes < MAX_CRASHES and cases < most and (start := time.monotonic()) < end:
            number = first + cases
            try:
                fuzzer.case(random.Random(f"{seed}/{number}"))
            except Exception:
                crashes += 1
                print(f"case {number} of seed {seed}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                print(
                    f"again: python -m tests.fuzz {name} --seed {seed} [--case {number}]", file=sys.stderr, flush=True
                )
                fuzzer.close()
                fuzzer = make()
            longest = max(longest, time.monotonic() - start)
            cases += 1
    finally:
        fuzzer.close()
    return Result(name, seed, cases, crashes, round(1e3 * longest, 1))
