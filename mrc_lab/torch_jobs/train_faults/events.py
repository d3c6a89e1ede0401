"""Events of a training job: lines of JSON that ranks print, with times of CLOCK_MONOTONIC, which one machine shares.

A rank goes through them in this order; what is behind `FAILED` may repeat until it is done, out, or has given up.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mrc_common import strict_json


class What(enum.Enum):
    """What a rank reports."""

    READY = "ready"  # the first group is there, and the weights are the same everywhere
    STEP = "step"  # a step is complete
    FAILED = "failed"  # an operation has raised an error: the rank knows
    ABORTED = "aborted"  # nothing of the old group is under way any more
    AGREED = "agreed"  # who goes on is decided
    FORMED = "formed"  # the new group is there, with the state of a survivor
    OUT = "out"  # others go on without this rank
    GAVE_UP = "gave up"
    DONE = "done"  # all steps are complete and the weights written


@dataclass(frozen=True, slots=True)
class RankEvent:
    """One of them: `at` is in ns, `step` the steps that the rank has completed, `members` the ranks of its group."""

    what: What
    rank: int
    at: int
    step: int = 0
    members: tuple[int, ...] = ()
    words: str = ""

    def line(self) -> str:
        """As a rank prints it."""
        return strict_json.dumps(self.plain()) + "\n"

    def plain(self) -> dict[str, Any]:
        """As it is written to files."""
        return {**asdict(self), "what": self.what.value, "members": list(self.members)}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> RankEvent:
        """The event that :meth:`plain` was made of; KeyError, TypeError or ValueError if it was none."""
        return RankEvent(
            What(plain["what"]), int(plain["rank"]), int(plain["at"]), int(plain["step"]),
            tuple(map(int, plain["members"])), str(plain["words"]),
        )  # fmt: skip


def parse(line: str) -> RankEvent | None:
    """The event that a line has; None where a rank has printed something else."""
    try:
        return RankEvent.of(strict_json.loads(line))
    except (KeyError, TypeError, ValueError):
        return None
