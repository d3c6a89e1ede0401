"""The switch program; as a Python package only so that what p4c made of it is found wherever the project is installed.

``build/fabric.json`` (BMv2 JSON) and ``build/fabric.p4info.txtpb`` (P4Info) are package data; :data:`BUILD` is their
folder, in a checkout and in an installed wheel alike. ``build/manifest.json`` holds the hash of every source that they
were made from, so that sources that have been edited since are noticed (:func:`changed`): they are then compiled by
whoever runs the program (``topologies.p4_program``), and what p4c made is left as it is.
"""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path

SOURCES = Path(str(files(__name__)))
BUILD = SOURCES / "build"
PROGRAM = BUILD / "fabric.json"
P4INFO = BUILD / "fabric.p4info.txtpb"
DROP_REASONS = (  # headers.p4, DropReason; the place is the index in the counter drop_reasons
    "none", "malformed", "hop limit", "no uSID", "no route", "queue full",
    "arrival loss", "departure loss", "path loss", "blackhole",
)  # fmt: skip
PORT_COUNTERS = ("marked_packets", "trimmed_packets", "arrival_corrupted", "departure_corrupted")  # a cell a port
_REASON_BITS = 4  # drops.p4: a cell of port_drops is port << 4 | reason
NO_COMPILER = (
    "p4c is not installed, and p4src/build/ is left as it is. To run what you have edited neither is needed: every"
    " command compiles it. To commit p4src/, get the package p4lang-p4c (docs/p4-and-bmv2.md says where from), use the"
    " virtual machine in vagrant/, which has it, or give ARGS=--force, with which tests against p4c's output fail."
)


def port_drop(port: int, reason: int) -> int:
    """Where the counter `port_drops` counts a reason (its place in DROP_REASONS) at a port."""
    return port << _REASON_BITS | reason


def source_hashes(directory: Path = SOURCES) -> dict[str, str]:
    """SHA-256 of each P4 source, by file name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.glob("*.p4"))}


def changed(directory: Path = SOURCES) -> list[str]:
    """Names of the sources that are not as they were when the program was built; all of them if it is not there."""
    now = source_hashes(directory)
    try:
        compiled = json.loads((directory / "build" / "manifest.json").read_text())["sources"]
        names = {*compiled, *now}
        whole = all((directory / "build" / file.name).is_file() for file in (PROGRAM, P4INFO))
    except (OSError, ValueError, KeyError, TypeError):
        return sorted(now)
    return sorted(name for name in names if not whole or compiled.get(name) != now.get(name))
