"""Four hosts all-reduce with TCP blocked between them: every byte is on a NIC's counters, and no NIC has others."""

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
RANKS, PLANES, ROUNDS = 4, 2, 8
BYTES = 1 << 20  # of the array that is summed
CHUNK, PACKET, CREDIT = 32768, 4096, 4  # docs/collectives.md
# In a ring each rank sends a quarter of the array three times to add it up and three times to hand the sum on.
SENT = ROUNDS * 6 * BYTES // 4
CHUNKS = SENT // CHUNK
PROGRAM = f"""
import sys, time
from pathlib import Path
import torch, torch.distributed as dist

def pause(name):  # until the test says so, by a file: the hosts have no network any more
    print(name, flush=True)
    while not Path(sys.argv[1], name).exists():
        time.sleep(0.01)

dist.init_process_group("mrc")
dist.barrier()
pause("joined")
for round in range({ROUNDS}):
    if round == {ROUNDS // 2}:
        pause("half")
    values = torch.full(({BYTES // 4},), float(dist.get_rank() + round))
    dist.all_reduce(values)
    assert bool((values == {sum(range(RANKS))} + {RANKS} * round).all())
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


class Counters:
    """Readings of all NICs; `interfaces` and `nics` have bytes that each host's port in each plane has sent."""

    def __init__(self, world: EmulatedWorld) -> None:
        self._world = world
        self._contexts = [verbs.open(world.emulation.socket(nic.name)) for nic in world.fabric.nics]

    def read(self, name: str) -> list[int]:
        return [context.hw_counters()[name] for context in self._contexts]

    def nics(self) -> list[list[int]]:
        return [[port["tx_bytes"] for port in context.port_counters()] for context in self._contexts]

    def interfaces(self) -> list[list[int]]:
        traffic = link_counters.read(self._world.fabric)
        hosts = [nic.name for nic in self._world.fabric.nics]
        return [[traffic[f"{host}@p{plane}"].upward.bytes for plane in range(PLANES)] for host in hosts]

    def sent(self) -> tuple[list[list[int]], list[list[int]]] | None:
        """What NICs and interfaces have sent, read while nothing was; None if something was."""
        before = self.nics()
        interfaces = self.interfaces()
        return (before, interfaces) if self.nics() == before else None

    def close(self) -> None:
        for context in self._contexts:
            context.close()


def less(now: Sequence[int], then: Sequence[int]) -> list[int]:
    return [a - b for a, b in zip(now, then, strict=True)]


@pytest.mark.timeout(300)
def test_nics_send_the_rings_bytes_and_no_others_over_all_planes_with_a_link_cut(
    world: EmulatedWorld, tmp_path: Path
) -> None:
    hosts = [nic.name for nic in world.fabric.nics]
    names = ("bytes_completed", "rx_write_requests", "tx_data_packets", "rx_data_packets")
    script = tmp_path / "sums.py"
    script.write_text(PROGRAM)
    counters = Counters(world)
    command = [MRC, "train", "--fabric", world.fabric.name, str(script), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        output: list[str] = []

        def wait_for(word: str) -> None:
            assert process.stdout is not None
            while sum(line.endswith(f"] {word}\n") for line in output) < RANKS:
                output.append(process.stdout.readline())
                assert output[-1], "".join(output)

        try:
            wait_for("joined")
            for host in hosts:
                world.emulation.host(host).cmd("ip link set mgmt down")
            assert "bytes from" not in world.emulation.host("h1").cmd("ping -c 1 -W 1 h4")
            before = {name: counters.read(name) for name in names}
            nics, interfaces = until(counters.sent, "NICs that send nothing for a moment")
            (tmp_path / "joined").touch()
            wait_for("half")
            world.link_down("t0-0:t1-0@p0")
            (tmp_path / "half").touch()
            wait_for("summed")
            until(lambda: not any(counters.read("inflight_bytes")), "all packets to be acknowledged")
            after = {name: less(counters.read(name), before[name]) for name in names}
            nics_now, interfaces_now = until(counters.sent, "NICs that send nothing for a moment")
        finally:
            for host in hosts:
                world.emulation.host(host).cmd("ip link set mgmt up")
            (tmp_path / "summed").touch()
            rest, _ = process.communicate()
            world.link_up("t0-0:t1-0@p0")
            counters.close()
    assert process.returncode == 0, "".join(output) + rest
    assert "hostname" not in "".join(output), "the addresses of the management network have names"
    # Each chunk is two requests, and what else a rank gets are the credits of the next one.
    credits_sent = [after["rx_write_requests"][rank - 1] - 2 * CHUNKS for rank in range(RANKS)]
    assert all(0 < count <= CHUNKS // 16 + 1 for count in credits_sent), "one for every half of a window of 32 chunks"
    assert after["bytes_completed"] == [SENT + CREDIT * count for count in credits_sent]
    assert after["tx_data_packets"] == [SENT // PACKET + count for count in credits_sent]
    assert sum(after["rx_data_packets"]) == sum(after["tx_data_packets"]), "each is placed once, whatever was lost"
    for rank in range(RANKS):
        carried = less(nics_now[rank], nics[rank])
        assert carried == less(interfaces_now[rank], interfaces[rank]), "what left in each plane, left by the NIC"
        assert sum(carried) > SENT
        assert min(carried) > SENT / PLANES / 2, carried
