"""Programs for RDMA between hosts of a fabric: all over MRC, through faults, and nothing left behind.

Debian's perftest, unmodified, and a C program of our own for what perftest does not touch.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("mininet")

from mrc_host import verbs
from mrc_host.verbs_types import QpType
from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration import perftest
from tests.integration.names import own
from tests.integration.nic_traffic import MTU, WRITE, Reading, Traffic
from tests.integration.perftest import cut, needs_perftest, pair, start, table_of
from tests.mrc_host.libibverbs import rdma_core_tests
from tests.mrc_host.libibverbs.build_program import build_program
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import management

pytestmark = perftest.MARKS

NAME = own("verbs")
MRC = Path(sys.executable).with_name("mrc")
CASES = (
    "gather", "inline", "empty", "receives", "bad", "full", "refused", "channel", "errors", "extended", "memory",
    "in_flight", "threads", "access_flags",
)  # fmt: skip
LARGE = 1 << 20  # bytes: perftest prints messages in millions a second, with six digits


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    with running(multi_plane_clos(NAME, planes=2, t0=2, t1=2, hosts=4, rate_bps=100_000_000)) as world:
        yield world


@contextmanager
def ends(world: EmulatedWorld) -> Iterator[tuple[verbs.Context, verbs.Context]]:
    """The NICs of h1 and h3, to read."""
    with verbs.open(world.emulation.socket("h1")) as one, verbs.open(world.emulation.socket("h3")) as other:
        yield one, other


def counters(world: EmulatedWorld, host: str) -> tuple[Mapping[str, int], tuple[Mapping[str, int], ...]]:
    """Of a NIC and of its ports."""
    with verbs.open(world.emulation.socket(host)) as context:
        return context.hw_counters(), context.port_counters()


@needs_perftest
def test_tools_of_ibverbs_find_the_nic_inside_hosts(world: EmulatedWorld) -> None:
    done = subprocess.run(
        [MRC, "exec", NAME, "h2", "--", "sh", "-c", "ibv_devices && ibv_devinfo -v"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mrc0" in done.stdout
    assert "PORT_ACTIVE" in done.stdout
    with verbs.open(world.emulation.socket("h2")) as context:
        address = ":".join(f"{part:x}" for part in memoryview(context.address).cast("H"))
    assert address.count(":") == 7
    assert "RoCE v2" in done.stdout
    assert "mrc0" in world.emulation.host("h4").cmd("ibv_devices")  # as `h4 ibv_devices` at the prompt


@needs_perftest
def test_devinfo_shows_the_port_of_each_plane_if_asked_for(world: EmulatedWorld) -> None:
    def states(**environment: str) -> list[tuple[str, str]]:
        with start(world, "h2", "ibv_devinfo", **environment) as process:
            printed, _ = process.communicate()
        assert process.returncode == 0, printed
        return re.findall(r"port:\s+(\d+)\n\s+state:\s+PORT_(\w+)", printed)

    assert states() == states(MRC_PLANE_PORTS="0") == [("1", "ACTIVE")]
    world.link_down("h2@p1")
    try:
        until(lambda: states(MRC_PLANE_PORTS="1")[2:] == [("3", "DOWN")], "the NIC to see its link down")
        assert states(MRC_PLANE_PORTS="1")[:2] == [("1", "ACTIVE"), ("2", "ACTIVE")]
    finally:
        world.link_up("h2@p1")
    until(lambda: states(MRC_PLANE_PORTS="1")[2:] == [("3", "ACTIVE")], "the NIC to see its link up")


@needs_perftest
@pytest.mark.parametrize(
    ("flags", "sizes"),
    [
        ("-s 65536 -n 100", [65536]),
        pytest.param("-q 4 -b -n 20 -m 1024 -x 3 -c RC", [65536], marks=pytest.mark.second_ring),
        pytest.param("-D 1 -s 4096 -q 2", [4096], marks=pytest.mark.second_ring),
        pytest.param("-a -n 5", [2**i for i in range(1, 24)], marks=pytest.mark.second_ring),
        pytest.param("-s 64 -I 64 -n 200 -Q 10 -t 64", [64], marks=pytest.mark.second_ring),
        pytest.param("-s 4097 -n 50 -b -l 5", [4097], marks=pytest.mark.second_ring),
    ],
)
def test_bandwidth_is_measured_with_perftests_flags(world: EmulatedWorld, flags: str, sizes: list[int]) -> None:
    with pair(world, f"ib_write_bw {flags}") as (client, server):
        rows = table_of(client, server)
    assert [int(row[0]) for row in rows] == sizes
    # The rate of bytes of small messages rounds to nothing, and so does that of large messages, in millions a second.
    assert all(float(row[4] if int(row[0]) < LARGE else row[3]) > 0 for row in rows)
    limit = 2 * 100e6 / 8 / 2**20 * (2 if "-b" in flags else 1)  # MiB/s that the planes carry
    for size, iterations, _, average in ([float(field) for field in row[:4]] for row in rows):
        if size * iterations > 8 << 20:  # links begin with a burst
            assert average < 1.05 * limit


@pytest.mark.second_ring
@needs_perftest
@pytest.mark.parametrize(("flags", "size"), [("-s 8 -n 50", 8), ("-s 65536 -n 10 -x 1", 65536), ("-D 1 -s 2", 2)])
def test_latency_is_measured_with_perftests_flags(world: EmulatedWorld, flags: str, size: int) -> None:
    for attempt in range(3):
        with pair(world, f"ib_write_lat {flags}") as (client, server):
            texts = client.communicate()[0], server.communicate()[0]
            # Ends that run for a time stop by their own clocks and then destroy their queue pairs without a word: the
            # last write may find that of the other end gone (write_lat.c has no handshake after the loop).
            if attempt < 2 and flags.startswith("-D") and any("Failed status" in text for text in texts):
                continue
            (row,) = table_of(client, server, texts)
            break
    assert int(row[0]) == size
    assert float(row[2]) > 0


@needs_perftest
@pytest.mark.parametrize("kind", ["rc", "rc_sr", "rc_ar"])
def test_roce_is_measured_on_request(world: EmulatedWorld, kind: str) -> None:
    before = counters(world, "h3")[1]
    with pair(world, "ib_write_bw -s 65536 -n 20", MRC_QP_TYPE=kind) as (client, server):
        assert table_of(client, server)
    used = [
        new["rx_bytes"] - old["rx_bytes"] > 65536 for new, old in zip(counters(world, "h3")[1], before, strict=True)
    ]
    assert sorted(used) == [False, True]


@needs_perftest
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ("ib_read_bw", "MRC has no RDMA READ, only RDMA WRITE, with and without immediate data: refused."),
        ("ib_send_bw", "MRC has no SEND, only"),
        ("ib_atomic_bw", "MRC has no atomic fetch and add, only"),
        ("ib_write_bw -c UC", "MRC has no unreliable connected (UC) queue pairs, only reliable connected ones (RC)"),
    ],
)
def test_perftest_modes_without_mrc_support_are_refused_with_the_reason(
    world: EmulatedWorld, flags: str, reason: str
) -> None:
    if shutil.which(flags.split()[0]) is None:
        pytest.skip(f"no {flags.split()[0]} here")
    with pair(world, f"{flags} -n 5") as (client, server):
        printed = client.communicate()[0]
        server.kill()
    assert client.returncode not in (0, -signal.SIGKILL)
    assert printed.count(f"libibverbs (MRC): {reason}") == 1, printed


@needs_perftest
@pytest.mark.skipif(Path("/dev/infiniband/rdma_cm").exists(), reason="the kernel has rdma_cm")
def test_rdma_cm_is_refused(world: EmulatedWorld) -> None:
    for command in ("ib_write_bw -R", "rping -s -v"):
        if shutil.which(command.split()[0]) is None:
            continue
        with start(world, "h3", *command.split()) as program:
            printed = program.communicate()[0]
        assert program.returncode != 0
        assert re.search(r"rdma_create_event_channel failed|failed to create RDMA CM event channel", printed)


@contextmanager
def without_tcp(world: EmulatedWorld, host: str) -> Iterator[None]:
    """The management network is down at `host`."""
    interface = world.emulation.host(host)
    interface.cmd("ip", "link", "set", management.INTERFACE, "down")
    try:
        yield
    finally:
        interface.cmd("ip", "link", "set", management.INTERFACE, "up")


def assert_all_bytes_are_counted(sender: Traffic, receiver: Traffic, messages: int, size: int) -> None:
    """The NICs' counters have the messages' bytes, once in memory, and in frames that have room for nothing else."""
    packets = messages * size // MTU
    assert (receiver["rx_data_packets"], receiver["rx_write_requests"]) == (packets, messages)
    assert (sender["tx_data_packets"], sender["bytes_completed"]) == (packets, messages * size)
    sender.assert_sent(packets * (MTU + WRITE))
    sent, received = sender.by_plane("tx_bytes"), receiver.by_plane("rx_bytes")
    assert packets * (MTU + WRITE) <= sum(received) <= sum(sent)
    assert all(into <= out for out, into in zip(sent, received, strict=True)), "in its own plane"
    receiver.assert_sent(0)


@needs_perftest
def test_with_tcp_blocked_and_a_link_cut_all_bytes_go_over_the_planes(world: EmulatedWorld) -> None:
    messages, size = 200, 65536
    with ends(world) as (sender, receiver):
        before = Reading.take(sender), Reading.take(receiver)

        def arrived() -> int:
            return Traffic(before[1], Reading.take(receiver))["rx_data_packets"]

        with pair(world, f"ib_write_bw -s {size} -n {messages} -q 1") as (client, server):
            until(lambda: arrived() > 0, "the first bytes to arrive: the rendezvous is over")
            server.send_signal(signal.SIGSTOP)  # nobody needs it for writes, and a client that is done waits for it
            with without_tcp(world, "h3"), cut(world, "t0-0:t1-1@p1"):
                until(lambda: arrived() == messages * size // MTU, "all bytes to arrive with TCP blocked")
            server.send_signal(signal.SIGCONT)
            assert table_of(client, server)
        one, other = Traffic(before[0], Reading.take(sender)), Traffic(before[1], Reading.take(receiver))
        assert_all_bytes_are_counted(one, other, messages, size)
        assert all(share > 0.2 * messages * size for share in other.by_plane("rx_bytes")), "both planes carried it"


@pytest.mark.second_ring
@needs_perftest
def test_a_plane_whose_link_is_cut_counts_nothing_while_the_other_takes_the_rest(world: EmulatedWorld) -> None:
    messages, size = 800, 65536
    packets = messages * size // MTU
    with ends(world) as (sender, receiver):
        before = Reading.take(sender), Reading.take(receiver)
        with pair(world, f"ib_write_bw -s {size} -n {messages} -q 1") as (client, server):
            until(lambda: Reading.take(receiver).nic["rx_data_packets"] > before[1].nic["rx_data_packets"], "bytes")
            client.send_signal(signal.SIGSTOP)  # so that the rest is written when the cut is known; no timing decides
            with cut(world, "h1@p1"):  # while the NIC sends what was posted
                with without_tcp(world, "h1"):
                    until(lambda: not Reading.take(sender).ports[1]["link_up"], "the NIC to see it")
                    until(lambda: not sender.hw_counters()["inflight_bytes"], "what was posted to be acknowledged")
                    since = Reading.take(sender), Reading.take(receiver)
                    client.send_signal(signal.SIGCONT)
                    until(
                        lambda: Traffic(since[1], Reading.take(receiver))["rx_data_packets"] > packets // 4,
                        "a quarter to arrive over the other plane",
                    )
                until(  # at the end the two programs exchange a word over TCP
                    lambda: Traffic(before[1], Reading.take(receiver))["rx_data_packets"] == packets,
                    "all bytes to arrive over the other plane",
                )
                until(lambda: not sender.hw_counters()["inflight_bytes"], "all to be acknowledged")
                now = Reading.take(sender), Reading.take(receiver)
                with_link_cut = [Traffic(*one) for one in zip(since, now, strict=True)]
            assert table_of(client, server)
        whole = Traffic(before[0], Reading.take(sender)), Traffic(before[1], Reading.take(receiver))
        assert_all_bytes_are_counted(*whole, messages, size)
        rest = with_link_cut[1]["rx_data_packets"]
        assert rest > packets // 2, "perftest posts at most 128 messages ahead"
        for traffic, name in zip(with_link_cut, ("tx_bytes", "rx_bytes"), strict=True):
            assert traffic.by_plane(name)[0] >= rest * (MTU + WRITE)
            assert traffic.by_plane(name)[1] == 0
        before = Reading.take(sender), Reading.take(receiver)
        with pair(world, f"ib_write_bw -s {size} -n 200 -q 1") as (client, server):
            assert table_of(client, server)
        again = Traffic(before[0], Reading.take(sender))
        assert min(again.by_plane("tx_bytes")) > 0.2 * 200 * size, "the plane is in use again"


@needs_perftest
@pytest.mark.parametrize("end", ["client", "server"])
def test_a_killed_program_leaves_nothing_in_its_agent(world: EmulatedWorld, end: str) -> None:
    def held(host: str) -> int:
        return counters(world, host)[0]["queue_pairs"]

    with pair(world, "ib_write_bw -D 30 -q 8 -s 65536", port=18520) as (client, server):
        until(lambda: held("h1") == held("h3") == 8, "the queue pairs of both ends")
        victim, host = (client, "h1") if end == "client" else (server, "h3")
        victim.kill()
        until(lambda: held(host) == 0, "the agent to release everything")
    until(lambda: held("h1") == held("h3") == 0, "both agents to release everything")


@pytest.mark.second_ring
@needs_perftest
def test_two_programs_run_at_once_on_a_host(world: EmulatedWorld) -> None:
    with (
        pair(world, "ib_write_bw -D 2 -s 65536", port=18521) as one,
        pair(world, "ib_write_lat -n 100 -s 64", source="h2", port=18522) as two,
    ):
        assert table_of(*two)
        assert table_of(*one)


@pytest.mark.skipif(rdma_core_tests.missing() is not None, reason=rdma_core_tests.missing() or "")
def test_pyverbs_writes_between_hosts(world: EmulatedWorld, tmp_path: Path) -> None:
    source = rdma_core_tests.checkout()
    assert source is not None
    case = "test_qpex.QpExTestCase.test_qp_ex_rc_rdma_write"
    names = [case, f"{case}_imm", f"{case}_zero_length"]
    before = counters(world, "h3")[0]["rx_write_requests"]
    sockets = (Path(world.emulation.socket("h1")), Path(world.emulation.socket("h3")))
    outcomes = list(rdma_core_tests.run_between(source, tmp_path, sockets, names))
    assert [(one.test, one.outcome) for one in outcomes] == [(name, "passed") for name in names]
    assert counters(world, "h3")[0]["rx_write_requests"] > before
    assert counters(world, "h1")[0]["queue_pairs"] == counters(world, "h3")[0]["queue_pairs"] == 0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory)


def expect_success(world: EmulatedWorld, program: Path, case: str, transport: str = "mrc") -> None:
    words = [program, case, world.emulation.socket("h2"), world.emulation.socket("h4")]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "MRC_QP_TYPE": transport}
    )
    assert done.returncode == 0, done.stderr
    assert counters(world, "h2")[0]["queue_pairs"] == counters(world, "h4")[0]["queue_pairs"] == 0


@pytest.mark.parametrize("case", CASES)
def test_verbs_behave_as_programs_in_c_expect(world: EmulatedWorld, program: Path, case: str) -> None:
    expect_success(world, program, case)


@pytest.mark.parametrize("kind", [kind.value for kind in QpType])
def test_queue_pairs_take_writes_only_with_the_access_flag(world: EmulatedWorld, program: Path, kind: str) -> None:
    expect_success(world, program, "access_flags", kind)


def test_an_unknown_type_of_queue_pair_is_refused(world: EmulatedWorld, program: Path) -> None:
    words = [program, CASES[0], world.emulation.socket("h2"), world.emulation.socket("h4")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "MRC_QP_TYPE": "roce"})
    assert done.returncode != 0
    known = " or ".join(", ".join(kind.value for kind in QpType).rsplit(", ", 1))
    assert f"MRC_QP_TYPE is 'roce': set it to {known}, or leave it out." in done.stderr


def test_a_program_that_forks_keeps_its_memory_and_its_child_opens_a_device(
    world: EmulatedWorld, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # AddressSanitizer does not take its allocator's locks before a fork; one that a thread held stays held.
    expect_success(world, build_program(tmp_path_factory, sanitizers="undefined"), "fork")
