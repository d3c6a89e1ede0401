"""What ``mrc`` does about a process that it is started in."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations

import pytest

CODE = """
import os, subprocess, sys
from types import ModuleType

def main():
    print("a hint", file=sys.stderr)
    files = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
    given = subprocess.check_output(["readlink", "/proc/self/fd/0", "/proc/self/fd/2"], text=True).split()
    os.write(9, "\\n".join([*files, *given]).encode())

command_line = sys.modules["mrc_lab.cli.main"] = ModuleType("main")
command_line.main = main
from mrc_lab.__main__ import main
main()
"""


@pytest.mark.parametrize("closed", [those for count in range(4) for those in combinations(range(3), count)])
def test_standard_streams_that_are_closed_are_no_other_files(closed: tuple[int, ...]) -> None:
    redirections = "".join(f" {number}>&-" for number in closed)
    found = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" 9>&1{redirections}', sys.executable, CODE],
        stdin=subprocess.PIPE, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *files, childs_input, childs_errors = found.stdout.split("\n")
    assert [number for number, name in enumerate(files) if name == "/dev/null"] == list(closed)
    assert (childs_input, childs_errors) == (files[0], files[2])
    assert ("a hint" in found.stderr) is (2 not in closed)
