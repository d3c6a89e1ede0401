"""Version of this project that is installed: a digest of everything that decides what comes of a run.

The package's version number does not change with every commit, and an installed copy has no commit.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("mrc_common", "mrc_host", "mrc_lab", "p4runtime_shim", "p4src", "simulation", "topologies")
_SUFFIXES = (".py", ".c", ".h", ".mk", ".json", ".p4", ".txtpb", ".yaml")


@functools.cache
def digest(root: Path = _ROOT) -> str:
    """Twelve digits that are the same wherever the same sources are installed below `root`."""
    found = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in _SUFFIXES:
                content = path.read_bytes()
                found.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:12]
