"""What a group can be made with: ``init_process_group("mrc", pg_options=GroupOptions(...))``, or by the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch.distributed as dist

from mrc_host.values import QpType
from mrc_lab.workloads.collectives import StreamSettings

QP_TYPE = "MRC_QP_TYPE"  # environment: mrc or rc, as for programs that use libibverbs


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """`streams` is how data moves between two ranks (docs/collectives.md); all ranks of a group need the same."""

    streams: StreamSettings = field(default_factory=StreamSettings)

    @classmethod
    def from_environment(cls) -> GroupOptions:
        """MRC, or RoCE's RC where MRC_QP_TYPE says ``rc``. DistBackendError for any other word."""
        given = os.environ.get(QP_TYPE, "mrc")
        try:
            return cls(StreamSettings(qp_type=QpType(given)))
        except ValueError:
            known = " or ".join(each.value for each in QpType)
            raise dist.DistBackendError(f"{QP_TYPE} is {given!r}: set it to {known}, or leave it out.") from None
