"""C programs that test the libraries, all with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mrc_host.libibverbs import build

PROGRAM = Path(__file__).parent / "program"
_FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror")


def build_program(folder: Path, program: Path = PROGRAM) -> Path:
    """Build libraries and program in an empty folder; returns the program, which finds these libraries."""
    build.compile_into(folder, _FLAGS)
    sources = sorted(str(file) for file in program.glob("*.c"))
    link = [f"-L{folder}", f"-l:{build.MRC_SONAME}", f"-l:{build.SONAME}", f"-Wl,-rpath,{folder}"]
    subprocess.run(
        [
            "cc",
            "-std=gnu11",
            *_FLAGS,
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
