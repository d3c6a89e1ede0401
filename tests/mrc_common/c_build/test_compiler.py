"""The compiler as a bounded child: what it may take, what it sees, and that nothing of it is left."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_common.c_build import compiler
from mrc_common.c_build.compiler import Limits
from mrc_common.c_build.errors import CBuildError, CBuildLimitError
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


def script(folder: Path, text: str) -> str:
    """A compiler that does something else."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def run(folder: Path, text: str, limits: Limits) -> None:
    compiler.run(script(folder, text), [], folder, "x.so", limits)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_compiler_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(CBuildLimitError, match=r"took longer than 0\.5 s"):
        run(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; sleep 1000", Limits(seconds=0.5))
    child = int((tmp_path / "child").read_text())
    until(lambda: not alive(child), "init to collect it")


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("while :; do :; done", Limits(cpu_seconds=1)),
        ("head -c 100000000 /dev/zero > big", Limits(output=1 << 20)),
        ("yes error: 1>&2", Limits(output=1 << 20)),
        ("exec tail /dev/zero", Limits(memory=64 << 20)),
    ],
    ids=["processor time", "a large file", "many messages", "memory"],
)
def test_a_compiler_that_uses_too_much_memory_is_stopped(text: str, limits: Limits, tmp_path: Path) -> None:
    with pytest.raises(CBuildLimitError, match=r"compiling x\.so exceeds the limits of a compilation"):
        run(tmp_path, text, limits)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3 << 20


def test_the_compiler_gets_a_minimal_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "CPATH",
        "C_INCLUDE_PATH",
        "LIBRARY_PATH",
        "COMPILER_PATH",
        "GCC_EXEC_PREFIX",
        "CFLAGS",
        "TMPDIR",
        "CC",
    ):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    run(tmp_path, "env > variables; pwd > place", Limits())
    variables = dict(line.split("=", 1) for line in (tmp_path / "variables").read_text().splitlines())
    assert variables.keys() - {"PWD", "OLDPWD", "SHLVL", "_"} <= {"PATH", "HOME", "LC_ALL", "TMPDIR"}
    assert (variables["LC_ALL"], variables["TMPDIR"]) == ("C", str(tmp_path))
    assert (tmp_path / "place").read_text().strip() == str(tmp_path)


def test_compile_errors_name_the_first_error(tmp_path: Path) -> None:
    with pytest.raises(CBuildError, match=r"refused x\.so: y\.c:1: error: no"):
        run(tmp_path, "echo y.c: warning 1>&2; echo y.c:1: error: no 1>&2; exit 1", Limits())


STOPPED = """
import sys, threading, time
from pathlib import Path
from mrc_common.c_build import compiler
from mrc_common.c_build.errors import CBuildError
folder = Path(sys.argv[1])
def work():
    try:
        compiler.run(sys.argv[2], [], folder, "x.so", compiler.Limits())
    except CBuildError as error:
        print(type(error).__name__)
thread = threading.Thread(target=work)
thread.start()
while not (folder / "started").exists():
    time.sleep(0.01)
compiler.stop_compilers()
thread.join()
work()
"""


def test_compilers_end_with_their_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path), script(tmp_path, "touch started; sleep 1000")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=100,
    )
    assert done.stdout == "CBuildLimitError\nCBuildError\n"
    assert os.path.exists(tmp_path / "started")
