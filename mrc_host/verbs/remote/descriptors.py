"""Limits on the agent's file descriptors, of which each client and each memory region takes one.

The kernel hands out the lowest free number, so the number of a new descriptor shows how full the table is. A region
keeps not the descriptor that came with the request but the next one: mapping memory duplicates it.

The last ``RESERVED`` are kept for the controller and for what the agent itself opens: applications that open too many
connections or regions are refused with a reason, and can neither lock the controller out nor stop the NIC.
"""

from __future__ import annotations

import os
import resource
import sys

RESERVED = 64
NONE_LEFT = "The agent can hold no more clients or regions: deregister memory, or use fewer, larger regions."


def most() -> int:
    """How many descriptors the agent may have."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def share() -> int:
    """How many clients one user may have, other than the agent's own: half of what is not reserved."""
    return max(1, (most() - RESERVED) // 2)


def is_reserved(fd: int) -> bool:
    """Whether a descriptor just created is one of the last, which applications may not keep."""
    return fd >= most() - RESERVED


def may_map(fd: int) -> bool:
    """Whether an application may keep a mapping of `fd`: it takes the next descriptor, which must not be reserved."""
    try:
        following = os.dup(fd)
    except OSError:
        return False
    os.close(following)
    return not is_reserved(following)
