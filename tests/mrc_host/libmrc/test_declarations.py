"""Our declarations of the OCP's MRC API against the OCP's own headers, of which the user has a copy (MRC_H_PATH)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from mrc_host.libibverbs import build
from tests.mrc_host.libibverbs.build_program import build_libraries, needs_libraries
from tests.mrc_host.libmrc.declarations import layouts, macros

pytestmark = needs_libraries

HEADERS = os.environ.get("MRC_H_PATH", "")
needs_the_ocps_headers = pytest.mark.skipif(
    not HEADERS, reason="MRC_H_PATH is not set: the folder of a copy of the OCP's mrc.h and mrc_ctl.h"
)
TYPES = [f'#include "{name.name}"' for name in sorted(build.MRC_SOURCES.glob("mrc*_types.h"))]
FUNCTIONS = [f'#include "{name.name}"' for name in sorted(build.MRC_SOURCES.glob("mrc*_functions.h"))]
THEIR_HEADERS = ("mrc.h", "mrc_ctl.h")[: len(TYPES)]
THEIRS = [f"#include <{name}>" for name in THEIR_HEADERS]

# What a program's own choice of version is compared with, and the guards against including a header twice.
ABOUT_THE_HEADERS_THEMSELVES = re.compile(r"MRC_(\w+_)?(API_VER_USED|_H_|_TYPES_H|_FUNCTIONS_H)")


@needs_the_ocps_headers
def test_structures_and_enumerations_are_the_ocps(tmp_path: Path) -> None:
    ours = layouts(TYPES, [build.MRC_SOURCES], tmp_path)
    assert len(ours) > 100
    assert ours == layouts(THEIRS, [Path(HEADERS)], tmp_path)


@needs_the_ocps_headers
def test_constants_are_the_ocps(tmp_path: Path) -> None:
    ours, theirs = macros(TYPES, [build.MRC_SOURCES], tmp_path), macros(THEIRS, [Path(HEADERS)], tmp_path)
    assert "MRC_API_CURRENT_VERSION" in ours
    for known in (ours, theirs):
        for name in [name for name in known if ABOUT_THE_HEADERS_THEMSELVES.fullmatch(name)]:
            del known[name]
    assert ours == theirs


@needs_the_ocps_headers
def test_functions_are_the_ocps(tmp_path: Path) -> None:
    source = "\n".join([*THEIRS, *FUNCTIONS, ""])
    command = ["cc", f"-I{HEADERS}", f"-I{build.MRC_SOURCES}", "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # else "conflicting types"
    assert declared(Path(HEADERS) / name for name in THEIR_HEADERS) == declared(
        build.MRC_SOURCES.glob("mrc*_functions.h")
    )


def declared(headers: Iterable[Path]) -> set[str]:
    """Names of the functions that headers declare."""
    texts = [file.read_text() for file in headers]
    code = re.sub(r"/\*.*?\*/", "", "".join(texts), flags=re.DOTALL)
    return set(re.findall(r"^[\w *]*?\b(mrc_\w+)\s*\(", code, re.MULTILINE))


def test_every_function_that_is_declared_is_in_the_library(tmp_path_factory: pytest.TempPathFactory) -> None:
    library = build_libraries(tmp_path_factory) / build.MRC_SONAME
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    functions = declared(build.MRC_SOURCES.glob("mrc*_functions.h"))
    assert len(functions) >= 27
    assert set(re.findall(r" T (\w+)$", listing, re.MULTILINE)) == functions


def test_the_documentation_has_every_function() -> None:
    text = (Path(__file__).parents[3] / "docs" / "applications.md").read_text()
    rows = re.findall(r"^\|([^|\n]*`mrc_[^|\n]*)\|", text, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(mrc_\w+)`", row)}
    assert documented == declared(build.MRC_SOURCES.glob("mrc*_functions.h"))


def test_layouts_differ_when_a_field_moves_or_grows(tmp_path: Path) -> None:
    first = "struct mrc_a { int a; struct { short x[3]; char y; } b; enum mrc_e { ONE = 1 } e; } one;"
    known = layouts([first], [], tmp_path)
    assert known["struct mrc_a"] == 16
    assert known["struct mrc_a.b.y"] == 6
    assert known["sizeof struct mrc_a.b.x"] == 6
    assert known["ONE"] == 1
    for change in (
        ("short x[3]", "short x[4]"),
        ("char y", "unsigned char z"),
        ("ONE = 1", "ONE = 2"),
        ("int a", "long a"),
    ):
        assert layouts([first.replace(*change)], [], tmp_path) != known
