"""The backends that an experiment may run on, by the names of files and command lines, as reports call them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BACKENDS: Final[Mapping[str, str]] = {"sim": "simulation", "emulation": "emulation", "scale": "scale"}
DEFAULT: Final = "sim"
