"""The default rate of a fabric's links: as fast as this machine carries."""

from __future__ import annotations

import os

_TOTAL_PER_CORE_BPS = 100_000_000  # of all NIC ports together; leaves about half of a core of 2020 idle
_MAX_BPS, _MIN_BPS = 100_000_000, 1_000_000
_STEP_BPS = 100_000


def carried_rate(hosts: int, planes: int, *, cores: int | None = None) -> int:
    """Rate (b/s) for each link of a fabric that this machine carries with room to spare when all hosts send.

    `cores` is how many processors there are to use; by default those that this process may use.
    """
    if cores is None:
        cores = len(os.sched_getaffinity(0))
    rate = _TOTAL_PER_CORE_BPS * cores // max(hosts * planes, 1)
    return max(_MIN_BPS, min(_MAX_BPS, rate // _STEP_BPS * _STEP_BPS))
