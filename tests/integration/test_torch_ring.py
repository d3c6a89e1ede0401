"""DistributedDataParallel on four hosts with TCP blocked and links cut: the NICs count its bytes, and no others."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mrc_host import verbs
from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration.names import own
from tests.integration.nic_traffic import CONTROL, IMMEDIATE, WRITE, Reading, Traffic
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup, link_counters

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install '.[torch]'"
    ),
]

MRC = Path(sys.executable).with_name("mrc")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
RANKS, PLANES = 4, 2
SIDE = 512  # of the matrix of weights: a MiB of gradients, in a single bucket
CHUNK, WINDOW, PACKET, CREDIT = 131072, 16, 4096, 4  # docs/collectives.md
PHASES = ("joined", "cut", "summed")  # the program waits at each; between them it takes STEPS steps
STEPS = 6
# In a ring each rank sends a quarter of the gradients three times to add them up and three times to hand the sum on.
STEP_BYTES = 6 * 4 * SIDE * SIDE // RANKS
SENT = 2 * STEPS * STEP_BYTES
CHUNKS = SENT // CHUNK
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MRC_PEER_TIMEOUT": "none"}  # no heartbeats among the bytes
UP_LINK, NIC_LINK, CUT_HOST, CUT_PLANE = "t0-0:t1-0@p0", "h2@p1", 1, 1
PROGRAM = f"""
import sys, time
from pathlib import Path
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def pause(name):  # until the test says so, by a file: the hosts have no network any more
    print(name, flush=True)
    while not Path(sys.argv[1], name).exists():
        time.sleep(0.01)

def step(number):
    inputs = torch.full((1, {SIDE}), float(dist.get_rank() + number))
    optimizer.zero_grad()
    model(inputs).sum().backward()
    assert bool((model.module.weight.grad == {sum(range(RANKS)) / RANKS} + number).all()), "gradients are averages"
    optimizer.step()

torch.set_num_threads(1)
dist.init_process_group("mrc")
model = DistributedDataParallel(torch.nn.Linear({SIDE}, {SIDE}, bias=False))
optimizer = torch.optim.SGD(model.parameters(), 0.5 ** 10)
for number in range(2):  # in which DistributedDataParallel arranges its buckets
    step(number)
dist.barrier()
pause("joined")
for number in range({STEPS}):
    step(number)
    print("step", number, flush=True)
pause("cut")
for number in range({STEPS}):
    step(number)
pause("summed")
"""


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    name = own("ring")
    try:
        with running(multi_plane_clos(name, planes=PLANES, t0=2, t1=2, hosts=RANKS, rate_bps=50_000_000)) as world:
            yield world
    finally:
        cleanup.clean(name, force=True)


class Nics:
    """All NICs of a fabric; the kernel's and the switch's counters beside their own."""

    def __init__(self, world: EmulatedWorld) -> None:
        self._world = world
        self.hosts = [nic.name for nic in world.fabric.nics]
        self._contexts = [verbs.open(world.emulation.socket(host)) for host in self.hosts]

    def read(self) -> list[Reading]:
        return [Reading.take(context) for context in self._contexts]

    def idle(self) -> bool:
        """Whether all data is acknowledged."""
        return not any(context.hw_counters()["inflight_bytes"] for context in self._contexts)

    def interfaces(self) -> list[list[int]]:
        """Bytes that switches received from each host in each plane."""
        traffic = link_counters.read(self._world.fabric)
        return [[traffic[f"{host}@p{plane}"].upward.bytes for plane in range(PLANES)] for host in self.hosts]

    def at_rest(self) -> tuple[list[Reading], list[list[int]]] | None:
        """What NICs and switches counted, read while nothing was sent; None if something was."""
        before = [reading.port("tx_bytes") for reading in self.read()]
        interfaces = self.interfaces()
        readings = self.read()
        return (readings, interfaces) if [reading.port("tx_bytes") for reading in readings] == before else None

    def close(self) -> None:
        for context in self._contexts:
            context.close()


class Ranks:
    """A rank in each host, started by ``mrc train`` or by a torchrun in each; what they print."""

    def __init__(self, world: EmulatedWorld, launcher: str, folder: Path) -> None:
        script, name = folder / "train.py", world.fabric.name
        script.write_text(PROGRAM)
        commands: list[list[str | Path]] = [[MRC, "train", "--fabric", name, script, folder]]
        if launcher == "torchrun":
            options = ["--nnodes", str(RANKS), "--master-addr", "h1"]
            commands = [
                [MRC, "exec", "--fabric", name, f"h{rank + 1}", "--", *TORCHRUN, *options, "--node-rank", str(rank),
                 script, folder]
                for rank in range(RANKS)
            ]  # fmt: skip
        output, into = os.pipe()
        self._output = os.fdopen(output)
        self.printed = ""
        self._processes = [
            subprocess.Popen(words, stdout=into, stderr=subprocess.STDOUT, env=ENVIRONMENT) for words in commands
        ]
        os.close(into)

    def wait_for(self, word: str, ranks: int = RANKS) -> None:
        """Until so many have printed this at the end of a line."""
        while sum(f"] {line}".endswith(f"] {word}") for line in self.printed.splitlines()) < ranks:
            line = self._output.readline()
            self.printed += line
            assert line, self.printed

    def end(self) -> list[int]:
        """Statuses of what was started."""
        self.printed += self._output.read()
        self._output.close()
        return [process.wait() for process in self._processes]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("launcher", ["mrc train", "torchrun"])
def test_gradients_of_ddp_and_nothing_else_leave_the_nics_on_every_plane_with_links_cut(
    world: EmulatedWorld, launcher: str, tmp_path: Path
) -> None:
    nics, ranks = Nics(world), Ranks(world, launcher, tmp_path)
    hosts = [world.emulation.host(host) for host in nics.hosts]
    try:
        ranks.wait_for("joined")
        for host in hosts:
            host.cmd("ip link set mgmt down")
        assert "bytes from" not in hosts[0].cmd("ping -c 1 -W 1 h4")
        began, wires_began = until(nics.at_rest, "NICs that send nothing for a moment")
        (tmp_path / "joined").touch()
        ranks.wait_for("step 0", 1)  # the rest of the first phase is under way
        for link in (UP_LINK, NIC_LINK):
            world.link_down(link)
        ranks.wait_for("cut")
        until(nics.idle, "all packets to be acknowledged")
        cut, _ = until(nics.at_rest, "NICs that send nothing for a moment")
        assert not cut[CUT_HOST].ports[CUT_PLANE]["link_up"]
        (tmp_path / "cut").touch()
        ranks.wait_for("summed")
        until(nics.idle, "all packets to be acknowledged")
        ended, wires_ended = until(nics.at_rest, "NICs that send nothing for a moment")
    finally:
        for host in hosts:
            host.cmd("ip link set mgmt up")
        for link in (UP_LINK, NIC_LINK):
            world.link_up(link)
        for phase in PHASES:
            (tmp_path / phase).touch()
        statuses = ranks.end()
        nics.close()
    assert not any(statuses), ranks.printed
    assert "hostname" not in ranks.printed, "the addresses of the management network have names"
    whole = [Traffic(*readings) for readings in zip(began, ended, strict=True)]
    assert_the_rings_bytes(whole)
    for rank, traffic in enumerate(whole):
        wires = less(wires_ended[rank], wires_began[rank])
        lost = traffic.by_plane("tx_plane_lost_packets")[CUT_PLANE] * (PACKET + IMMEDIATE)
        lost += traffic.control * CONTROL[1]  # whose loss nobody counts
        for plane, (sent, arrived) in enumerate(zip(traffic.by_plane("tx_bytes"), wires, strict=True)):
            assert 0 <= sent - arrived <= (lost if (rank, plane) == (CUT_HOST, CUT_PLANE) else 0), (rank, plane)
    assert_planes([Traffic(*readings) for readings in zip(cut, ended, strict=True)])


def assert_the_rings_bytes(whole: Sequence[Traffic]) -> None:
    """Each rank's messages are those of a ring, to the byte, and its frames have room for nothing else."""
    # Each chunk is two requests, and what else a rank gets are the credits of the next one.
    credits_sent = [whole[rank - 1]["rx_write_requests"] - 2 * CHUNKS for rank in range(RANKS)]
    assert all(0 < count <= CHUNKS // (WINDOW // 2) + 1 for count in credits_sent), "one for every half of a window"
    assert [traffic["bytes_completed"] for traffic in whole] == [SENT + CREDIT * count for count in credits_sent]
    assert [traffic["tx_data_packets"] for traffic in whole] == [SENT // PACKET + count for count in credits_sent]
    received = sum(traffic["rx_data_packets"] for traffic in whole)
    assert received == sum(traffic["tx_data_packets"] for traffic in whole), "each is placed once, whatever was lost"
    for traffic, count in zip(whole, credits_sent, strict=True):
        headers = WRITE * (SENT // PACKET) + (IMMEDIATE - WRITE) * CHUNKS  # the last packet of a chunk has the number
        traffic.assert_sent(SENT + headers + count * (CREDIT + IMMEDIATE), CREDIT + IMMEDIATE)


def assert_planes(with_links_cut: Sequence[Traffic]) -> None:
    """The plane whose link is cut counts nothing there, the other takes its part, and elsewhere both go on."""
    half = STEPS * STEP_BYTES
    for rank, traffic in enumerate(with_links_cut):
        sent, received = traffic.by_plane("tx_bytes"), traffic.by_plane("rx_bytes")
        if rank == CUT_HOST:
            assert (sent[CUT_PLANE], received[CUT_PLANE]) == (0, 0)
            assert min(sent[1 - CUT_PLANE], received[1 - CUT_PLANE]) > half
        elif rank == CUT_HOST - 1:  # its gradients go to the host that has one plane left
            assert sent[1 - CUT_PLANE] > half
        else:
            assert sum(sent) > half
            assert min(sent) > half / PLANES / 2, sent


def less(now: Sequence[int], then: Sequence[int]) -> list[int]:
    return [a - b for a, b in zip(now, then, strict=True)]
