"""Halt polling: whether idle processors of a virtual machine look for work for a while before they halt.

A processor that halts goes back to the host, and to get it again takes some 25 us on KVM, several times as long as
waking a process on one that still runs. So Linux has a governor for guests, haltpoll, which looks for work for up to
``guest_halt_poll_ns`` first, 200 us by default (Documentation/virt/guest-halt-polling.rst). Some virtual machines come
with that set to 0.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from topologies.emulation.errors import EmulationError

GOVERNOR = Path("/sys/devices/system/cpu/cpuidle/current_governor")
PARAMETER = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
USUAL_NS = 200_000
_LEAST_NS = 50_000


def polling_ns() -> int | None:
    """For how long they look for work; None where that is not how this machine waits."""
    with contextlib.suppress(OSError, ValueError):
        if GOVERNOR.read_text().strip() == "haltpoll":
            return int(PARAMETER.read_text())
    return None


def is_off(polling: int | None) -> bool:
    """Whether they do so for too short a time to be of use."""
    return polling is not None and polling < _LEAST_NS


def turn_on() -> None:
    """Set it to Linux's default, until the machine is restarted. EmulationError where it cannot be changed."""
    try:
        PARAMETER.write_text(f"{USUAL_NS}\n")
    except OSError as error:
        raise EmulationError(f"{PARAMETER} cannot be changed: {error.strerror}.") from None
