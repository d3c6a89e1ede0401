"""The plan of a performance test's run, the same on every rank."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from mrc_common import strict_json
from mrc_host.verbs.remote.codec import from_json, to_json
from mrc_lab.workloads.collectives.reduction import ReduceOp
from mrc_lab.workloads.collectives.settings import StreamSettings

DATATYPES = {
    "int8": np.int8,
    "uint8": np.uint8,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
}
"""nccl-tests' names of element types."""


class Average(enum.IntEnum):
    """Whose time is reported, by nccl-tests' numbers."""

    RANK0 = 0
    MEAN = 1
    MINIMUM = 2
    MAXIMUM = 3

    def of(self, values: list[int]) -> float:
        """One figure from those of all ranks."""
        if self is Average.RANK0:
            return values[0]
        if self is Average.MEAN:
            return sum(values) / len(values)
        return min(values) if self is Average.MINIMUM else max(values)


@dataclass(frozen=True, slots=True)
class PerfPlan:
    """`case` names the operation (see `cases`).

    Each size (bytes) is measured with every element type, reduction and root: `warmup` operations, `iterations` timed
    ones, and `checks` with other data each, whose result is compared. `cycles` repeats the whole. Reductions and roots
    are used only where the operation has them; a root of -1 stands for every rank in turn. `timeout` (seconds, 0: none)
    bounds one size.
    """

    case: str
    sizes: tuple[int, ...]
    datatypes: tuple[str, ...] = ("float",)
    reductions: tuple[ReduceOp, ...] = (ReduceOp.SUM,)
    root: int = 0
    iterations: int = 20
    warmup: int = 5
    checks: int = 1
    cycles: int = 1
    average: Average = Average.MEAN
    timeout: float = 0.0
    streams: StreamSettings = field(default_factory=StreamSettings)

    def to_json(self) -> str:
        """The plan as text."""
        return strict_json.dumps(to_json(self))

    @classmethod
    def from_json(cls, text: str) -> PerfPlan:
        """What :meth:`to_json` gave."""
        return from_json(cls, strict_json.loads(text))
