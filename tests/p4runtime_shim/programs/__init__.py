"""P4 programs of the tests: sources, and what p4c made of them (`test_programs.py` compares)."""

from __future__ import annotations

import functools
from pathlib import Path

from p4runtime_shim.pipeline import Pipeline

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.p4")))
FABRIC = FOLDER.parents[2] / "p4src" / "build" / "fabric.json"


def text(name: str) -> str:
    """The BMv2 JSON of a program."""
    return (FOLDER / f"{name}.json").read_text()


@functools.cache
def pipeline(name: str) -> Pipeline:
    """A program, loaded."""
    return Pipeline.load(text(name))
