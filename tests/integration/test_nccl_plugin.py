"""A network plugin of NCCL for MRC between hosts of a fabric, driven through its table of functions on host memory.

:mod:`tests.integration.nccl_program` says what is needed; ``test_nccl_plugin_faults.py`` puts more faults under it.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("mininet")

from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration import nccl_program
from tests.integration.names import own
from tests.integration.nccl_program import counters, released
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import management

pytestmark = nccl_program.MARKS


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    with running(multi_plane_clos(own("nccl"), planes=2, t0=2, t1=2, hosts=4, rate_bps=100_000_000)) as world:
        yield world


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nccl_program.built(tmp_path_factory.mktemp("nccl"))


@contextmanager
def ends(
    world: EmulatedWorld, program: Path, folder: Path, case: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """The program that sends, in h1, and the one that receives, in h3; both killed in the end."""
    processes = [
        nccl_program.start(world, program, host, role, folder, case, **environment)
        for host, role in (("h3", "receive"), ("h1", "send"))
    ]
    receiver, sender = processes
    try:
        yield sender, receiver
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def succeeded(*processes: subprocess.Popen[str]) -> None:
    said = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    assert all(output.endswith("closed\n") for output, _ in said)


@pytest.mark.parametrize("case", ["messages", "multiple"])
@pytest.mark.parametrize("queue_pairs", [1, 4])
def test_messages_arrive_whole(
    world: EmulatedWorld, program: Path, tmp_path: Path, case: str, queue_pairs: int
) -> None:
    options = {"NCCL_IB_QPS_PER_CONNECTION": str(queue_pairs), "NCCL_IB_SPLIT_DATA_ON_QPS": "1"}
    with ends(world, program, tmp_path, case, **options) as (sender, receiver):
        succeeded(sender, receiver)
    assert released(world, "h1", "h3")


def test_messages_arrive_with_tcp_blocked_and_a_link_cut(world: EmulatedWorld, program: Path, tmp_path: Path) -> None:
    link, host, management_link = (
        "t0-0:t1-1@p1",
        world.emulation.host("h1"),
        ["ip", "link", "set", management.INTERFACE],
    )
    before = counters(world, "h3")["rx_write_requests"]
    with ends(world, program, tmp_path, "flight") as (sender, receiver):
        assert sender.stdout is not None
        assert sender.stdout.readline() == "halfway\n"
        host.cmd(*management_link, "down")
        world.link_down(link)
        repair = threading.Timer(0.5, lambda: world.link_up(link))
        repair.start()
        try:
            succeeded(sender, receiver)
        finally:
            repair.join()
            host.cmd(*management_link, "up")
    assert counters(world, "h3")["rx_write_requests"] - before == 1000  # one for each message: none is split
    assert released(world, "h1", "h3")


def test_a_closed_connection_leaves_nothing_while_its_program_lives(
    world: EmulatedWorld, program: Path, tmp_path: Path
) -> None:
    with ends(world, program, tmp_path, "closed") as (sender, receiver):
        for process in (sender, receiver):
            assert process.stdout is not None
            assert process.stdout.readline() == "closed\n"
        assert released(world, "h1", "h3")


def test_sends_fail_when_the_peer_was_killed(world: EmulatedWorld, program: Path, tmp_path: Path) -> None:
    with ends(world, program, tmp_path, "gone") as (sender, receiver):
        for process, said in ((receiver, "received\n"), (sender, "sent\n")):
            assert process.stdout is not None
            assert process.stdout.readline() == said
        receiver.kill()
        receiver.wait()
        until(lambda: counters(world, "h3")["queue_pairs"] == 0, "its agent to release everything")
        output, errors = sender.communicate("\n")
    assert sender.returncode == 0, errors
    assert output == "closed\n"
    assert released(world, "h1", "h3")
