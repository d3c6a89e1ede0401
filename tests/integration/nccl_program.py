"""The C program that drives NCCL's plugin for MRC, in two hosts of a fabric; tests/mrc_host/libmrc/nccl_program has it.

It needs Microsoft's plugin (mrc-nccl-plugin), built as its page says: MRC_NCCL_PLUGIN is the path of
``libnccl-net-mrc.so``. NCCL itself, CUDA and a GPU are not needed: the program is what calls it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import IO

import pytest

from mrc_host import verbs
from mrc_host.libibverbs import build
from mrc_lab.fabric.emulation import EmulatedWorld
from topologies.emulation import host_environment, namespaces

PLUGIN = os.environ.get("MRC_NCCL_PLUGIN", "")
MARKS = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(
        not build.is_current(), reason=f"libmrc is not built: {build.missing() or 'python -m mrc_host.libibverbs'}"
    ),
    pytest.mark.skipif(not PLUGIN, reason="MRC_NCCL_PLUGIN is not set: the path of libnccl-net-mrc.so"),
]

_SOURCES = Path(__file__).parents[1] / "mrc_host" / "libmrc" / "nccl_program"
# In hosts sysfs does not say which entry of the GID table is what; all are the same here.
_ENVIRONMENT = {"NCCL_IB_GID_INDEX": "0", "ASAN_OPTIONS": "detect_leaks=0"}


def built(folder: Path) -> Path:
    """The program, compiled into a folder."""
    program = folder / "nccl_test"
    flags = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    sources = sorted(map(str, _SOURCES.glob("*.c")))
    words = ["cc", *flags, "-Wall", "-Wextra", "-Werror", "-rdynamic", "-o", str(program), *sources, "-ldl"]
    subprocess.run(words, check=True)
    return program


def start(
    world: EmulatedWorld,
    program: Path,
    host: str,
    role: str,
    folder: Path,
    case: str,
    stdout: IO[str] | int = subprocess.PIPE,
    **environment: str,
) -> subprocess.Popen[str]:
    """Start it in a host; `role` is send or receive, and both ends have one folder."""
    run = world.emulation.run
    known = {**os.environ, **host_environment.variables(run, host), **_ENVIRONMENT, **environment}
    words = [*namespaces.enter_host(run.shells()[host].pid), program, PLUGIN, role, folder, case]
    return subprocess.Popen(words, env=known, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE, text=True)


def counters(world: EmulatedWorld, host: str) -> dict[str, int]:
    """Of a host's NIC."""
    with verbs.open(world.emulation.socket(host)) as context:
        return dict(context.hw_counters())


def released(world: EmulatedWorld, *hosts: str) -> bool:
    """Whether nobody has a queue pair on the NICs of these hosts."""
    return not any(counters(world, host)["queue_pairs"] for host in hosts)
