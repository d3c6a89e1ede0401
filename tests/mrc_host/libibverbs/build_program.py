"""The C program that tests the library, both with AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mrc_host.libibverbs import build

PROGRAM = Path(__file__).parent / "program"
_FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror")


def build_program(folder: Path) -> Path:
    """Build library and program in an empty folder; returns the program, which finds that library."""
    build.compile_into(folder, _FLAGS)
    sources = sorted(str(file) for file in PROGRAM.glob("*.c"))
    link = [f"-L{folder}", f"-l:{build.SONAME}", f"-Wl,-rpath,{folder}"]
    subprocess.run(
        ["cc", "-std=gnu11", *_FLAGS, "-pthread", "-o", str(folder / "verbs_test"), *sources, *link], check=True
    )
    return folder / "verbs_test"
