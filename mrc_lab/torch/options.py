"""Options of a group: ``init_process_group("mrc", pg_options=GroupOptions(...))``, or the environment.

Also those of a call of its method `reconfigure`, which torch has from 2.14 on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import torch.distributed as dist

from mrc_common.units import parse_time
from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.workloads.collectives import StreamSettings
from mrc_lab.workloads.liveness import LivenessSettings

QP_TYPE = "MRC_QP_TYPE"  # environment: mrc or rc, as for programs that use libibverbs
RETRY_COUNT = "MRC_RETRY_COUNT"  # environment: ACK timeouts in a row before a queue pair, and with it the group, fails
PEER_TIMEOUT = "MRC_PEER_TIMEOUT"  # environment: a time with unit, or none
FOR_EVER = 255  # as many retries are no limit


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """All ranks of a group need the same.

    `streams` is how data moves between two ranks (docs/collectives.md), `liveness` how ranks watch each other: with
    None they do not. With `enable_reconfigure` the group has no members before its method `reconfigure` was called, as
    with torch's own option of that name.
    """

    streams: StreamSettings = field(default_factory=StreamSettings)
    liveness: LivenessSettings | None = field(default_factory=LivenessSettings)
    enable_reconfigure: bool = False

    @classmethod
    def from_environment(cls) -> GroupOptions:
        """MRC, or the baseline that MRC_QP_TYPE names; MRC_RETRY_COUNT and MRC_PEER_TIMEOUT as they say.

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
        return cls(StreamSettings(qp_type=kind, attributes=QpAttributes(retry_count=int(retries))), _liveness())


@dataclass(frozen=True, slots=True)
class ReconfigureOptions:
    """For `reconfigure`, which takes torch's value of this name as well.

    `uuid` is a number not used before, `handles` are those of the new members in the order of ranks, the same on all,
    and `timeout` is how long it may take (None: as the group's operations).
    """

    uuid: int
    handles: Sequence[str] | set[str]
    timeout: timedelta | None = None


def _liveness() -> LivenessSettings | None:
    """As MRC_PEER_TIMEOUT says."""
    given = os.environ.get(PEER_TIMEOUT)
    if given is None:
        return LivenessSettings()
    if given == "none":
        return None
    try:
        return LivenessSettings.with_timeout(parse_time(given))
    except ValueError as error:
        raise dist.DistBackendError(
            f"{PEER_TIMEOUT} is {given!r}, but {error}: set it to a time such as 800ms, to none, or leave it out."
        ) from None
