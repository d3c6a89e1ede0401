"""The libraries and C programs that test them, with and without AddressSanitizer and UndefinedBehaviorSanitizer.

Compiling takes longer than most tests with the result, so each is compiled once in a run of pytest: in a folder that
all processes of xdist share, by the first that asks, while others that ask wait.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mrc_host.libibverbs import build

PROGRAM = Path(__file__).parent / "program"
MRC_PROGRAM = Path(__file__).parents[1] / "libmrc" / "program"
PAGES_PROGRAM = Path(__file__).parent / "pages_program" / "pages_test.c"
_MOVES_PAGES = ("shared_pages.c", "fork_pages.c", "mappings.c", "safe_stack.c", "segments.c")
_COUNTED = ("ioctl", "read", "fallocate")  # system calls
_FLAGS = ("-O1", "-g", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror")
ALL_SANITIZERS = "address,undefined"
_MISSING = build.missing()
needs_libraries = pytest.mark.skipif(_MISSING is not None, reason=_MISSING or "")


def build_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder of that name which `make` fills in this run of pytest; nobody may change it."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=shared))
            make(making)
            making.rename(folder)
    return folder


def build_libraries(factory: pytest.TempPathFactory, sanitizers: str = "") -> Path:
    """The folder with both libraries."""
    return build_once(
        factory, _named("libraries", sanitizers), lambda folder: build.compile_into(folder, _flags(sanitizers))
    )


def build_program(factory: pytest.TempPathFactory, program: Path = PROGRAM, sanitizers: str = ALL_SANITIZERS) -> Path:
    """The program of a folder with sources, which finds the libraries with the same sanitizers."""
    libraries = build_libraries(factory, sanitizers)
    sources = sorted(str(file) for file in program.glob("*.c"))
    link = [f"-L{libraries}", f"-l:{build.MRC_SONAME}", f"-l:{build.SONAME}", f"-Wl,-rpath,{libraries}"]
    command = ["cc", "-std=gnu11", *_flags(sanitizers), f"-I{build.MRC_SOURCES}", "-pthread", "-o", "test_program"]
    folder = build_once(
        factory,
        _named(program.parent.name, sanitizers),
        lambda folder: subprocess.run([*command, *sources, *link], cwd=folder, check=True),
    )
    return folder / "test_program"


def build_pages_program(folder: Path, sanitizers: str) -> Path:
    """Build the program of test_shared_pages.py in a folder, with these sanitizers if any."""
    sources = [str(build.SOURCES / name) for name in _MOVES_PAGES]
    wraps = [f"-Wl,--wrap={name}" for name in _COUNTED]
    program = folder / "pages_test"
    command = ["cc", "-std=gnu11", *_flags(sanitizers), f"-I{build.SOURCES}", "-pthread", "-o", str(program), *sources]
    subprocess.run([*command, str(PAGES_PROGRAM), *wraps], check=True)
    return program


def _flags(sanitizers: str) -> tuple[str, ...]:
    return (*_FLAGS, f"-fsanitize={sanitizers}") if sanitizers else _FLAGS


def _named(what: str, sanitizers: str) -> str:
    return f"{what}-{sanitizers.replace(',', '-') or 'plain'}"
