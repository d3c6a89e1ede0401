"""C programs that test the libraries, with AddressSanitizer and UndefinedBehaviorSanitizer unless told otherwise."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mrc_host.libibverbs import build

PROGRAM = Path(__file__).parent / "program"
PAGES_PROGRAM = Path(__file__).parent / "pages_program" / "pages_test.c"
_MOVES_PAGES = ("shared_pages.c", "fork_pages.c", "mappings.c", "safe_stack.c", "segments.c")
_COUNTED = ("ioctl", "read", "fallocate")  # system calls
_FLAGS = ("-O1", "-g", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror")
ALL_SANITIZERS = "address,undefined"


def build_program(folder: Path, program: Path = PROGRAM, sanitizers: str = ALL_SANITIZERS) -> Path:
    """Build libraries and program in an empty folder; returns the program, which finds these libraries."""
    flags = (*_FLAGS, f"-fsanitize={sanitizers}")
    build.compile_into(folder, flags)
    sources = sorted(str(file) for file in program.glob("*.c"))
    link = [f"-L{folder}", f"-l:{build.MRC_SONAME}", f"-l:{build.SONAME}", f"-Wl,-rpath,{folder}"]
    subprocess.run(
        [
            "cc",
            "-std=gnu11",
            *flags,
            f"-I{build.MRC_SOURCES}",
            "-pthread",
            "-o",
            str(folder / "test_program"),
            *sources,
            *link,
        ],
        check=True,
    )
    return folder / "test_program"


def build_pages_program(folder: Path, sanitizers: str) -> Path:
    """Build the program of test_shared_pages.py in a folder, with these sanitizers if any."""
    flags = (*_FLAGS, f"-fsanitize={sanitizers}") if sanitizers else _FLAGS
    sources = [str(build.SOURCES / name) for name in _MOVES_PAGES]
    wraps = [f"-Wl,--wrap={name}" for name in _COUNTED]
    program = folder / "pages_test"
    command = ["cc", "-std=gnu11", *flags, f"-I{build.SOURCES}", "-pthread", "-o", str(program), *sources]
    subprocess.run([*command, str(PAGES_PROGRAM), *wraps], check=True)
    return program
