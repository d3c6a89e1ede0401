"""SIGTERM and SIGINT end a switch process and its children, whatever it does and long before that would end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from mrc_common import children
from mrc_common.c_build.object_cache import private_folder
from p4runtime_shim import build
from tests.waiting import until

LIMIT_S = 30.0  # less than anything here that would end by itself

# Busy in native code with the interpreter's lock held, so that no Python handler and no Python thread ever runs.
STUCK = """
import asyncio, ctypes, sys
from p4runtime_shim import shutdown
from p4runtime_shim.ctypes_bindings import load_engine
shutdown.exit_immediately()
native = load_engine()
async def main():
    loop = asyncio.get_running_loop()
    for number in shutdown.SIGNALS:
        loop.add_signal_handler(number, lambda: None)
    shutdown.exit_within_grace(native)
    child = await asyncio.create_subprocess_exec("sh", "-c", "sleep 60; true")
    print(child.pid, flush=True)
    while True:
        ctypes.PyDLL(None).usleep(100_000_000)
asyncio.run(main())
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            found += [child, *descendants(child)]
    return found


def end(process: subprocess.Popen[str], number: int) -> None:
    """Send a signal, and wait until the process and all that it has started are gone."""
    others = descendants(process.pid)
    assert others, "there is no child that could be left behind"
    process.send_signal(number)
    try:
        process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    until(lambda: not any(map(alive, others)), "its children to end", LIMIT_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_stuck_in_native_code_exits(number: int, tmp_path: Path) -> None:
    command = children.python_code(f"import sys; sys.path.insert(0, {os.getcwd()!r})\n{STUCK}")
    with children.popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        end(process, number)
    assert process.returncode == 128 + signal.SIGTERM


def fake_compiler(folder: Path, for_engine: bool) -> dict[str, str]:
    """A `cc` that never ends: with the engine already, or only with a program."""
    script = folder / "cc"
    stays = 'sleep 60 & echo $! > "$HERE/child"; touch "$HERE/began"; wait'
    other = "" if for_engine else 'case "$*" in *program-*) ;; *) exec /usr/bin/cc "$@";; esac\n'
    script.write_text(
        f'#!/bin/sh\nHERE={folder}\ncase "$*" in *--version*) exec /usr/bin/cc "$@";; esac\n{other}{stays}\n'
    )
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("for_engine", "number", "status"),
    [
        (True, signal.SIGTERM, 128 + signal.SIGTERM),
        (False, signal.SIGTERM, 0),  # in good order: the compiler is stopped, not waited for until time is over
        (True, signal.SIGKILL, -signal.SIGKILL),
        (False, signal.SIGKILL, -signal.SIGKILL),
    ],
    ids=["engine", "program", "engine, killed", "program, killed"],
)
def test_a_process_waiting_for_the_compiler_exits_together_with_it(
    for_engine: bool, number: int, status: int, tmp_path: Path, program_file: Path
) -> None:
    command = children.python(
        "p4runtime_shim",
        "--cache",
        str(tmp_path / "cache"),
        "--grpc-server-addr",
        f"unix:{tmp_path}/s",
        str(program_file),
    )
    if not for_engine:
        shutil.copy(build.build_engine(), private_folder(tmp_path / "cache"))
    environment = fake_compiler(tmp_path, for_engine)
    with children.popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        until((tmp_path / "began").exists, "the compiler to begin")
        end(process, number)
    assert process.returncode == status


@pytest.fixture
def program_file() -> Path:
    return Path(__file__).parent / "server" / "programs" / "families.json"
