"""A PyTorch job outlives one of its hosts: it goes on from its last checkpoint on those that are left."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration.names import own
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install '.[torch]'"
    ),
]

ELASTIC = Path(__file__).parents[2] / "examples" / "elastic.py"
STEPS, EVERY, LOST_AFTER = 40, 5, 12


@pytest.fixture
def world() -> Iterator[EmulatedWorld]:
    name = own("elastic")
    try:
        with running(multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=4, rate_bps=50_000_000)) as world:
            yield world
    finally:
        cleanup.clean(name, force=True)


@pytest.mark.timeout(300)
def test_training_goes_on_from_the_checkpoint_on_the_hosts_that_are_left(world: EmulatedWorld, tmp_path: Path) -> None:
    checkpoint = ("--checkpoint", str(tmp_path / "gpt.pt"), "--every", str(EVERY))
    command = [sys.executable, ELASTIC, world.fabric.name, "--steps", str(STEPS), *checkpoint]
    output = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if f"step {LOST_AFTER} loss" in line:
                world.emulation.children["h4"].process.send_signal(signal.SIGKILL)
                world.emulation.host("h4").cmd("ip link set mgmt down")
    printed = "".join(output)
    assert process.returncode == 0, printed
    assert "[h4] is drained: its NIC does not answer" in printed
    resumed = re.findall(r"(\d) ranks go on from step (\d+)", printed)
    assert resumed, printed
    assert resumed[-1][0] == "3", "the others"
    assert resumed[0][1] == str(LOST_AFTER // EVERY * EVERY), "the last checkpoint before the loss"
    steps = [(int(step), float(loss)) for step, loss in re.findall(r"step (\d+) loss (\S+) in", printed)]
    assert sorted({step for step, _ in steps}) == list(range(1, STEPS + 1))
    before = max(loss for step, loss in steps[:3])
    again = [loss for step, loss in steps[[step for step, _ in steps].index(LOST_AFTER) + 1 :]]
    assert max(again) < before, "no loss is that of a model that begins again"
    digests = re.findall(r"weights, digest (\S+),", printed)
    assert len(digests) == 3
    assert len(set(digests)) == 1
