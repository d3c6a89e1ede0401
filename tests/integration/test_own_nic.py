"""Applications with a NIC of their own, opposite an agent and each other, in real namespaces and in fabrics."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mrc_common import children
from mrc_host import verbs
from mrc_host.agent.config_file import dump_config
from mrc_host.back_to_back import BackToBack
from mrc_host.values import CompletionOpcode, QpAttributes
from mrc_host.verbs import Endpoint
from mrc_lab.fabric.emulation import running
from mrc_lab.perf.hosts import find_nics
from mrc_lab.perf.launch import Launch
from mrc_lab.perf.options import parse
from tests.integration.names import own
from tests.mrc_lab.perf.printed import footer
from tests.waiting import TIMEOUT_S
from topologies.clos import multi_plane_clos

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

MEBI = 1 << 20
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/own_nic.py"
SMALL = ("--planes", "2", "--t0", "2", "--t1", "2", "--hosts", "4")
PATIENT = QpAttributes(timeout=12, retry_count=64)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[BackToBack]:
    with BackToBack(tmp_path) as hosts:
        yield hosts


def command(hosts: BackToBack, number: int, mode: str) -> tuple[str, ...]:
    """The program on host `number`, with its NIC."""
    config = hosts.folder / f"own-{number}.json"
    config.write_text(dump_config(hosts.configs[number]))
    program = children.python("tests.integration.own_nic_program", str(config), mode)
    return ("ip", "netns", "exec", hosts.namespaces[number], *program)


@contextmanager
def application(hosts: BackToBack, number: int, mode: str) -> Iterator[subprocess.Popen[str]]:
    """It runs meanwhile."""
    process = children.popen(
        command(hosts, number, mode), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.readline().strip() or pytest.fail(process.stderr.read())


def say(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


class Client:
    """On the agent of the first host, connected to the program on the second."""

    def __init__(self, hosts: BackToBack, program: subprocess.Popen[str]) -> None:
        self.context = verbs.open(hosts.start(0).socket)
        self.cq = self.context.create_cq(1024)
        domain = self.context.alloc_pd()
        self.memory = domain.alloc_mr(2 * MEBI)
        self.qp = domain.create_qp(self.cq, attributes=PATIENT)
        peer = Endpoint.parse(line(program))
        say(program, str(self.qp.endpoint(self.memory)))
        self.remote = peer.memory
        self.qp.connect(peer)
        assert line(program) == "connected"

    def exchange(self, data: bytes) -> bytes:
        """Write `data`, and return what comes back."""
        length = len(data)
        self.memory.buffer[:length] = data
        self.qp.write(self.memory, self.remote, length=length, imm=length, signaled=False)
        while (entry := verbs.check(self.cq.wait(TIMEOUT_S))).opcode is not CompletionOpcode.RECV_WRITE_WITH_IMM:
            pass
        assert entry.imm == length
        return bytes(self.memory.buffer[MEBI : MEBI + length])


def incremented(data: bytes) -> bytes:
    return bytes(byte + 1 & 0xFF for byte in data)


@pytest.mark.parametrize("mode", ["blocking", "polling", "asyncio", "mistakes"])
def test_an_application_with_its_own_nic_exchanges_messages_with_an_agents_client(hosts: BackToBack, mode: str) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    with application(hosts, 1, mode) as program:
        client = Client(hosts, program)
        for length in (1, 4095, 4096, 4097, 100_001, MEBI, *(rng.randrange(1, 9000) for _ in range(20))):
            data = rng.randbytes(length)
            assert client.exchange(data) == incremented(data)
        client.exchange(b"")
        if mode == "asyncio":
            word, slept = line(program).split()
            assert word == "slept"
            assert 0.001 <= float(slept) < 0.002, "sleeps keep their time while the NIC works"
        assert line(program) == "closed"
        assert program.wait(TIMEOUT_S) == 0


def test_what_arrived_is_acknowledged_before_the_application_ends(hosts: BackToBack) -> None:
    with application(hosts, 1, "leave") as program:
        client = Client(hosts, program)
        client.memory.buffer[:4] = b"last"
        client.qp.write(client.memory, client.remote, length=4, imm=4, wr_id=9)
        assert verbs.check(client.cq.wait(TIMEOUT_S)).wr_id == 9
        assert program.wait(TIMEOUT_S) == 0


def test_two_processes_do_not_run_the_same_nic(hosts: BackToBack) -> None:
    hosts.start(1)
    done = children.run(command(hosts, 1, "blocking"), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 1
    assert "A process, perhaps this one, runs the NIC at h2-eth0" in done.stderr
    with pytest.raises(RuntimeError, match="did not come up"):
        hosts.start(1)
    hosts.agents[1].kill()
    with application(hosts, 1, "leave") as program:
        assert line(program), "whoever was killed has left nothing behind"


@pytest.mark.parametrize("mode", ["alarms", "client", "closed", "closing", "context", "failed_run", "fork", "threads"])
def test_interruptions_leave_the_nic_whole(hosts: BackToBack, mode: str) -> None:
    *inside, _module, config, _mode = command(hosts, 1, mode)
    program = (*inside, "tests.integration.own_nic_interruptions", config, str(hosts.start(0).socket), mode)
    done = children.run(program, capture_output=True, text=True, timeout=4 * TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_may_not_open_raw_sockets_is_told_so(hosts: BackToBack) -> None:
    *inside, python, isolated, run_module, module, config, mode = command(hosts, 1, "blocking")
    without = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", "--")
    argv = (*inside, *without, python, isolated, run_module, module, config, mode)
    done = children.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 1
    assert "NicDriverError: Opening a raw socket needs the CAP_NET_RAW capability: run as root." in done.stderr


def test_a_cut_link_does_not_interrupt_it(hosts: BackToBack) -> None:
    with application(hosts, 1, "asyncio") as program:
        client = Client(hosts, program)
        assert client.exchange(b"before") == incremented(b"before")
        hosts.set_link(1, 0, "down")
        for number in range(20):
            assert client.exchange(bytes([number])) == bytes([number + 1])
        hosts.set_link(1, 0, "up")
        assert client.exchange(b"after") == incremented(b"after")
        client.exchange(b"")
        assert line(program).startswith("slept")


@pytest.mark.parametrize("wire", ["veth", "ring"])
def test_ranks_with_their_own_nics_and_ranks_of_agents_reduce_together(wire: str) -> None:
    fabric = multi_plane_clos(own("own-nic"), planes=2, t0=2, t1=2, hosts=4, rate_bps=100_000_000)
    with running(fabric, wire=wire, own_nics=("h1", "h3")) as world:
        run = world.emulation.run
        nics = find_nics(run, None)
        assert [bool(nic.enter) for nic in nics] == [True, False, True, False]
        for _ in range(2):  # and the NICs are free again for the next
            options = parse("all_reduce", ["-b", "256K", "-n", "2", "-w", "1", "--chunk", "64K"])
            lines: list[str] = []
            report = asyncio.run(Launch(options.plan, options.step, nics, lines.append).run())
            assert report.wrong == 0
            assert footer(lines, "Out of bounds values") == "0 OK"
        assert not world.crashes()


def test_the_example_runs_in_a_fabric_that_is_up() -> None:
    name = own("own-nic")
    mrc = children.python("mrc_lab")
    children.run((*mrc, "up", name, *SMALL, "--own-nic", "h1", "--own-nic", "h3"), check=True)
    try:

        def example(host: str, *more: str) -> tuple[str, ...]:
            program = (sys.executable, str(EXAMPLE), f"/run/mrc/{name}/{host}.json", *more)
            return (*mrc, "exec", name, host, "--", *program)

        listed = children.run((*mrc, "shell", name, "-c", "qps"), capture_output=True, text=True, check=True)
        assert "no queue pairs" in listed.stdout, "of the hosts that have an agent"
        for _ in range(4):
            waits = children.popen(example("h1"))
            try:
                done = children.run(example("h3", "h1"), capture_output=True, text=True, timeout=TIMEOUT_S)
                expected = r"1000 messages and answers, \d+ us one way \(median\)\n"
                assert re.fullmatch(expected, done.stdout), done.stderr
                assert waits.wait(TIMEOUT_S) == 0
            finally:
                waits.kill()
                waits.wait()
    finally:
        children.run((*mrc, "down", name), check=True)
