"""Place of the NIC's libibverbs in this Python environment, where ``mrc_host.libibverbs.build`` puts it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

SONAME: Final = "libibverbs.so.1"


def folder() -> Path:
    """Its folder, which never moves, as running hosts have it in their search path."""
    return Path(sys.prefix) / "libibverbs"


def library() -> Path | None:
    """The library, if it has been built."""
    path = folder() / SONAME
    return path if path.exists() else None
