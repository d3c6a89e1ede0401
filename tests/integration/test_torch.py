"""PyTorch programs in hosts: they train over MRC alone, through cut links, and end when a rank does."""

from __future__ import annotations

import importlib.util
import os
import re
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
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install '.[torch]'"
    ),
]

MRC = Path(sys.executable).with_name("mrc")
GPT = Path(__file__).parents[2] / "examples" / "gpt.py"
WEIGHT_BYTES = 4 * 116_077


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    name = own("torch")
    try:
        with running(multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=2, rate_bps=100_000_000)) as world:
            yield world
    finally:
        cleanup.clean(name, force=True)


def train(world: EmulatedWorld, script: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [MRC, "train", "--fabric", world.fabric.name, str(script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def bytes_sent(world: EmulatedWorld, host: str) -> list[int]:
    """By plane."""
    with verbs.open(world.emulation.socket(host)) as context:
        return [port["tx_bytes"] for port in context.port_counters()]


def queue_pairs(world: EmulatedWorld, host: str) -> int:
    with verbs.open(world.emulation.socket(host)) as context:
        return context.hw_counters()["queue_pairs"]


@pytest.mark.timeout(300)
def test_gpt_trains_through_two_cut_links_with_tcp_blocked(world: EmulatedWorld) -> None:
    steps, before = 12, bytes_sent(world, "h1")
    output = []
    with train(world, GPT, "--steps", str(steps)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if "step 2 loss" in line:  # the rendezvous is over
                for host in ("h1", "h2"):
                    world.emulation.host(host).cmd("ip link set mgmt down")
                assert "bytes from" not in world.emulation.host("h1").cmd("ping -c 1 -W 1 h2")
            if "step 4 loss" in line:
                world.link_down("t0-0:t1-0@p0")
                world.link_down("h2@p1")
    for link in ("t0-0:t1-0@p0", "h2@p1"):
        world.link_up(link)
    for host in ("h1", "h2"):
        world.emulation.host(host).cmd("ip link set mgmt up")
    printed = "".join(output)
    assert process.returncode == 0, printed
    digests = re.findall(r"weights, digest (\S+),", printed)
    assert len(digests) == 2, printed
    assert digests[0] == digests[1]
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", printed)]
    assert len(losses) == steps
    assert losses[-1] < losses[0]
    sent = [now - then for now, then in zip(bytes_sent(world, "h1"), before, strict=True)]
    assert sum(sent) >= steps * WEIGHT_BYTES, "in a ring of two each rank sends all gradients once"
    assert min(sent) >= WEIGHT_BYTES, sent
    until(lambda: not queue_pairs(world, "h1") + queue_pairs(world, "h2"), "the agents to take everything back")


@pytest.mark.timeout(120)
def test_a_rank_that_fails_ends_the_others_and_leaves_nothing(world: EmulatedWorld, tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(
        "import subprocess, sys, time, torch, torch.distributed as dist\n"
        "dist.init_process_group('mrc')\n"
        "dist.all_reduce(torch.ones(3))\n"
        "if dist.get_rank():\n"
        "    subprocess.Popen(['sleep', '1000'])  # which keeps the rank's output open\n"
        "    sys.exit(7)\n"
        "try:\n"
        "    dist.barrier()\n"
        "except dist.DistBackendError:\n"
        "    time.sleep(1000)  # or it might end before the other, which has only said goodbye\n"
    )
    with train(world, script) as process:
        printed, _ = process.communicate()
    assert process.returncode == 7, printed
    assert "[h2] ended with status 7; the other ranks are ended." in printed
    until(lambda: not queue_pairs(world, "h1") + queue_pairs(world, "h2"), "the agents to take everything back")
