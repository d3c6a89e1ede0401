"""Who may have how many of the agent's file descriptors: each client takes one, and each memory region.

Descriptors are numbered from the lowest that is free, so the number of a new one tells how full the table is. What a
region keeps is not the descriptor that came with the request but the next one: mapping memory duplicates it.

The last ``RESERVED`` are kept for the controller and for what the agent itself opens: applications that connect, or
register memory, without end are refused with a reason, and neither lock the controller out nor stop the NIC.
"""

from __future__ import annotations

import os
import resource

RESERVED = 64
NONE_LEFT = "The agent has as many clients and regions as it can: deregister memory, or use fewer, larger regions."


def is_reserved(fd: int) -> bool:
    """Whether a descriptor that has just been made is one of the last, which applications may not keep."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most != resource.RLIM_INFINITY and fd >= most - RESERVED


def may_map(fd: int) -> bool:
    """Whether an application may keep a mapping of `fd`: the next descriptor, which that takes, is not reserved."""
    try:
        following = os.dup(fd)
    except OSError:
        return False
    os.close(following)
    return not is_reserved(following)
