"""When a process has done all it was given: every thread sleeps, and none has run since the look before.

A single look is not enough. While it goes from thread to thread, one that it has not reached yet may hand work to one
that it has seen asleep. The kernel counts how often a thread has left the processor: who is asleep in two looks in a
row with the same count has slept from the one to the other, so between the two looks all threads slept at once.

That says nothing of what is still on its way to the process.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

_STATUS = re.compile(r"^State:\s+(\w)|ctxt_switches:\s+(\d+)$", re.MULTILINE)
_PAUSE_S = 0.0003


def wait_until_at_rest(pid: int, timeout: float = 60.0) -> None:
    """Wait until every thread of a process sleeps with nothing to do.

    Raises AssertionError when the process is not idle in time, and OSError when it has exited.
    """
    deadline = time.monotonic() + timeout
    before: dict[str, int] | None = None
    while (now := _asleep(pid)) is None or now != before:
        assert time.monotonic() < deadline, f"process {pid} did not become idle within {timeout} s"
        before = now
        if now is None:
            time.sleep(_PAUSE_S)


def _asleep(pid: int) -> dict[str, int] | None:
    """How often each thread has left the processor, or None when one is not asleep."""
    switches: dict[str, int] = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            found = _STATUS.findall((thread / "status").read_text())
        except (FileNotFoundError, ProcessLookupError):
            return None  # it has just ended
        if found[0][0] == "Z" and thread.name == str(pid):
            raise ProcessLookupError(f"process {pid} has ended")
        if found[0][0] != "S":
            return None
        switches[thread.name] = sum(int(count) for _, count in found[1:])
    return switches
