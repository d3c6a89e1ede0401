"""The coordinator's job file for every worker, in JSON: the plan, the transport, and what to verify and report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mrc_common import named_files, strict_json
from mrc_common.written_files import write_text
from mrc_host.verbs.remote.codec import from_json, to_json
from mrc_host.verbs_types import QpAttributes, QpType
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
        write_text(path, strict_json.dumps(to_json(self), indent=2) + "\n")

    @staticmethod
    def load(path: Path) -> WorkerJob:
        """Read what :meth:`save` wrote."""
        return from_json(WorkerJob, strict_json.loads(named_files.read_text(path)))
