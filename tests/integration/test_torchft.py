"""Replica groups of torchft on a fabric: a killed one starts again and joins the others, whose weights it takes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_host import verbs
from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration.names import own
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "torchft")),
        reason="PyTorch or torchft is not installed: pip install '.[torch,torchft]'",
    ),
]

MRC = Path(sys.executable).with_name("mrc")
EXAMPLE = Path(__file__).parents[2] / "examples" / "replicas.py"
STOPPED_AFTER = 10


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    name = own("replicas")
    try:
        with running(multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=4, rate_bps=100_000_000)) as world:
            yield world
    finally:
        cleanup.clean(name, force=True)


def train(world: EmulatedWorld, *arguments: object) -> subprocess.Popen[str]:
    command = [MRC, "train", "--fabric", world.fabric.name, "--elastic", "torchft", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rank_in(world: EmulatedWorld, host: str) -> int:
    """The process of the example in a host."""
    marks = {f"MRC_HOST={host}", f"MRC_FABRIC={world.fabric.name}"}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            variables = set((entry / "environ").read_text(errors="replace").split("\0"))
            if str(EXAMPLE) in (entry / "cmdline").read_text(errors="replace") and marks <= variables:
                return int(entry.name)
    raise AssertionError(f"no rank runs in {host}")


def nothing_is_left(world: EmulatedWorld) -> bool:
    for host in world.fabric.nic_names:
        with verbs.open(world.emulation.socket(host)) as context:
            if context.hw_counters()["queue_pairs"]:
                return False
    return True


@pytest.mark.timeout(170)
@pytest.mark.parametrize(
    ("method", "options", "steps"),
    [
        ("ddp", ("--min-groups", 2), 400),
        ("local-sgd", ("--min-groups", 2), 250),
        ("diloco", ("--min-groups", 2), 250),
        ("hsdp", ("--group-size", 2), 600),
    ],
)
def test_a_killed_replica_joins_the_others_again(
    world: EmulatedWorld, method: str, options: tuple[object, ...], steps: int
) -> None:
    output, killed = [], False
    with train(world, *options, EXAMPLE, "--method", method, "--steps", steps) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if not killed and re.search(rf"step {STOPPED_AFTER} loss .* groups [2-4]$", line):
                os.kill(rank_in(world, "h4"), signal.SIGKILL)
                killed = True
    printed = "".join(output)
    assert process.returncode == 0, printed
    assert re.search(r"\[h4\] was killed by SIGKILL; replica group \d starts again \(1 of 10\)", printed), printed
    digests = re.findall(r"rank (\d) of group (\d): digest (\S+)", printed)
    assert len(digests) == 4, printed
    for rank in ("0", "1") if method == "hsdp" else ("0",):
        assert len({digest for number, _, digest in digests if number == rank}) == 1, digests
    steps_done = [int(step) for step in re.findall(r"\[h1\] step (\d+) loss", printed)]
    assert steps_done == sorted(steps_done), "nobody has begun again"
    until(lambda: nothing_is_left(world), "the agents to take everything back")


@pytest.mark.timeout(170)
def test_a_stopped_replica_is_left_behind(world: EmulatedWorld) -> None:
    output, stopped = [], False
    with train(world, "--min-groups", 2, EXAMPLE, "--steps", 40, "--timeout", 3) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if not stopped and re.search(rf"step {STOPPED_AFTER} loss .* groups [2-4]$", line):
                os.kill(rank_in(world, "h4"), signal.SIGSTOP)
                stopped = True
    printed = "".join(output)
    assert process.returncode == 0, printed
    assert "3 of 4 replica groups trained to the end." in printed
    assert len(set(re.findall(r"digest (\S+)", printed))) == 1
    until(lambda: nothing_is_left(world), "the agents to take everything back")
