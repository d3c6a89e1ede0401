"""Processes of this machine by their command and environment, wherever they run: those that a test has to find."""

from __future__ import annotations

from pathlib import Path


def processes(command: bytes, variable: bytes) -> list[int]:
    """Those with `command` in their command line and `variable` in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if command in line and variable in environment:
            found.append(int(entry.name))
    return found
