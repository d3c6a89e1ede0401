"""Options of a group: ``init_process_group("mrc", pg_options=GroupOptions(...))``, or the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch.distributed as dist

from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.workloads.collectives import StreamSettings

QP_TYPE = "MRC_QP_TYPE"  # environment: mrc or rc, as for programs that use libibverbs
RETRY_COUNT = "MRC_RETRY_COUNT"  # environment: ACK timeouts in a row before a queue pair, and with it the group, fails
FOR_EVER = 255  # as many retries are no limit


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """`streams` is how data moves between two ranks (docs/collectives.md); all ranks of a group need the same."""

    streams: StreamSettings = field(default_factory=StreamSettings)

    @classmethod
    def from_environment(cls) -> GroupOptions:
        """MRC, or the baseline that MRC_QP_TYPE names; as many retries as MRC_RETRY_COUNT says.

        DistBackendError for words that they cannot be.
        """
        given = os.environ.get(QP_TYPE, "mrc")
        try:
            kind = QpType(given)
        except ValueError:
            known = " or ".join(each.value for each in QpType)
            raise dist.DistBackendError(f"{QP_TYPE} is {given!r}: set it to {known}, or leave it out.") from None
        retries = os.environ.get(RETRY_COUNT, str(QpAttributes().retry_count))
        if not (retries.isascii() and retries.isdecimal() and int(retries) <= FOR_EVER):
            raise dist.DistBackendError(
                f"{RETRY_COUNT} is {retries!r}: set it to a number up to {FOR_EVER}, for ever, or leave it out."
            )
        return cls(StreamSettings(qp_type=kind, attributes=QpAttributes(retry_count=int(retries))))
