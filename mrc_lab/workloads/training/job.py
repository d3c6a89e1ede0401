"""The coordinator's job file for every worker, in JSON: the plan, the transport, and what to verify and report."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrc_common import named_files, strict_json
from mrc_common.written_files import write_text
from mrc_host.values import QpAttributes, QpType
from mrc_lab.workloads.collectives.ring import RingSettings
from mrc_lab.workloads.training.sgd import TrainingPlan


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """One training job over `world` ranks.

    `data` is the data set's file, `output` the folder for each rank's final weights. A pattern of `pattern_bytes` a
    rank is verified before the first step, after the last, and after every `pattern_every` steps (0: not in between).
    Paths and counters are reported every `status_interval_s` seconds.
    """

    plan: TrainingPlan
    world: int
    data: Path
    output: Path
    qp_type: QpType = QpType.MRC
    attributes: QpAttributes = field(default_factory=QpAttributes)
    chunk_bytes: int = 65536
    pattern_every: int = 50
    pattern_bytes: int = 65536
    status_interval_s: float = 0.25

    def ring_settings(self, vector_bytes: int) -> RingSettings:
        """The ring that carries gradients of `vector_bytes` and the patterns."""
        return RingSettings(
            max_bytes=max(vector_bytes, self.pattern_bytes * self.world),
            chunk_bytes=self.chunk_bytes,
            tail_bytes=self.attributes.path_mtu,
            qp_type=self.qp_type,
            attributes=self.attributes,
        )

    def save(self, path: Path) -> None:
        """Write the job to `path`."""
        value = dataclasses.asdict(self)
        value |= {"data": str(self.data), "output": str(self.output), "qp_type": self.qp_type.value}
        write_text(path, strict_json.dumps(value, indent=2) + "\n")

    @staticmethod
    def load(path: Path) -> WorkerJob:
        """Read what :meth:`save` wrote."""
        value: dict[str, Any] = strict_json.loads(named_files.read_text(path))
        plan = value.pop("plan")
        plan["hidden"] = tuple(plan["hidden"])
        return WorkerJob(
            plan=TrainingPlan(**plan),
            data=Path(value.pop("data")),
            output=Path(value.pop("output")),
            qp_type=QpType(value.pop("qp_type")),
            attributes=QpAttributes(**value.pop("attributes")),
            **value,
        )
