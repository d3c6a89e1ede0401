"""Memory of this machine that a process can still have, as Linux estimates it (`MemAvailable` of /proc/meminfo)."""

from __future__ import annotations

import os
import re
from pathlib import Path


def available_memory() -> int:
    """Bytes that can be had without swapping; 0 where the kernel does not say."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def resident_memory() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
