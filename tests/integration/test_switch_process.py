"""The switch process on real interfaces: packets through a compiled program, with P4Runtime clients at work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import finsy
import grpc.aio
import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from mrc_common.privileges import Capability, current
from p4runtime_shim.proto import switch_v1_pb2, switch_v1_pb2_grpc
from tests.integration.veth_switch import Process, Wire, running, wires
from tests.p4runtime_shim.server.world import Client, insert, modify
from tests.waiting import TIMEOUT_S, until, until_async

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
PATCH = PROGRAMS / "patch.json"
FABRIC = ROOT / "p4src" / "build" / "fabric.json"
CPU_PORT = 510
T = finsy.P4TableEntry


def frame(length: int = 100, mark: int = 0) -> bytes:
    """A frame of an experimental type with a number in it."""
    return bytes.fromhex("020000000001 020000000002 88b5") + struct.pack("!I", mark) + bytes(length - 18)


def options(program: Path = PATCH, device_id: int = 1) -> finsy.SwitchOptions:
    p4info = program.with_suffix(".p4info.txtpb")
    return finsy.SwitchOptions(p4info=p4info, p4blob=program, device_id=device_id)


def control(address: str, work: Callable[[finsy.Switch], Awaitable[None]], **which: object) -> None:
    """Connect with finsy, set the pipeline if need be, do the work."""

    async def run() -> None:
        async with finsy.Switch("sw", address, options(**which)) as switch:  # type: ignore[arg-type]
            await work(switch)

    asyncio.run(run())


def patch(port: int, to: int) -> finsy.P4TableEntry:
    return T("patch", match=finsy.Match(port=port), action=finsy.Action("to_port", port=to))


def patch_all(address: str, *pairs: tuple[int, int]) -> None:
    async def work(switch: finsy.Switch) -> None:
        await switch.write([+patch(port, to) for port, to in pairs])

    control(address, work)


def arguments(cables: list[Wire], *more: str) -> list[str]:
    given = [word for number, wire in enumerate(cables, 1) for word in ("-i", f"{number}@{wire.inside}")]
    return [*given, "--device-id", "1", "--grpc-server-addr", "127.0.0.1:0", *more]


@pytest.fixture
def cables() -> Iterator[list[Wire]]:
    with wires(4) as made:
        yield made


@pytest.fixture
def switch(cables: list[Wire]) -> Iterator[Process]:
    with running(*arguments(cables, "--no-p4", "--cpu-port", str(CPU_PORT))) as process:
        yield process


def test_frames_of_every_size_follow_the_table(switch: Process, cables: list[Wire]) -> None:
    patch_all(switch.address, (1, 2), (2, 1))
    for length in (18, 60, 1514, 4514):
        sent = frame(length, length)
        cables[0].send(sent)
        assert cables[1].receive() == sent
        cables[1].send(sent)
        assert cables[0].receive() == sent
    cables[2].send(frame())  # no entry: dropped
    assert cables[3].receive(0.1) is None


def test_vlan_tags_survive(switch: Process, cables: list[Wire]) -> None:
    patch_all(switch.address, (1, 2))
    plain = frame()
    tagged = plain[:12] + bytes.fromhex("8100 6064") + plain[12:]
    cables[0].send(tagged)
    # Receiving moves the tag of the test's own end to metadata, which MSG_PEEK-less recv() does not show: ask for it.
    cables[1].socket.setsockopt(263, 8, 1)  # PACKET_AUXDATA
    cables[1].socket.settimeout(2)
    data, control_data, _, _ = cables[1].socket.recvmsg(65536, 64)
    status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", control_data[0][2][:20])
    assert data == plain
    assert status & 0x10  # TP_STATUS_VLAN_VALID
    assert (tci, tpid) == (0x6064, 0x8100)


def test_the_fabric_program_shifts_the_usid_list(cables: list[Wire]) -> None:
    block = 0xFC00_0000
    own, following = 0x2001, 0x4001

    async def work(switch: finsy.Switch) -> None:
        await switch.write(
            [
                +T("usid_local", match=finsy.Match(locator=block << 16 | own), action=finsy.Action("usid_shift")),
                +T(
                    "usid_next",
                    match=finsy.Match(locator=block << 16 | following),
                    action=finsy.Action("usid_endpoint.set_egress", port=2, dmac=0x02AA00000001, smac=0x02BB00000001),
                ),
            ]
        )

    destination = struct.pack("!IHHHHHH", block, own, following, 0x2002, 0x6001, 0, 0)
    shifted = struct.pack("!IHHHHHH", block, following, 0x2002, 0x6001, 0, 0, 0)
    source = bytes.fromhex("fd006d72630000000000000000000001")
    ethernet = bytes.fromhex("020000000010 020000000011 86dd")
    inner = bytes(range(64))
    packet = ethernet + struct.pack("!IHBB", 6 << 28, len(inner), 59, 64) + source + destination + inner
    with running(*arguments(cables, str(FABRIC))) as process:
        control(process.address, work, program=FABRIC)
        cables[0].send(packet)
        got = cables[1].receive()
    assert got is not None
    assert got[:14] == bytes.fromhex("02aa00000001 02bb00000001 86dd")
    assert got[38:54] == shifted
    assert got[21] == 63
    assert got[54:] == inner


def test_a_port_without_carrier_drops_frames_until_it_returns(switch: Process, cables: list[Wire]) -> None:
    patch_all(switch.address, (1, 2))
    for _ in range(3):
        cables[1].far_end("down")
        for number in range(20):
            cables[0].send(frame(mark=number))
        cables[1].far_end("up")
        cables[1].open()
        until(lambda: _passes(cables[0], cables[1]), "the port to forward again")


def _passes(source: Wire, sink: Wire) -> bool:
    sink.drain()
    source.send(frame(mark=7))
    return sink.receive(0.2) == frame(mark=7)


def test_a_removed_interface_is_reopened_by_name(switch: Process, cables: list[Wire]) -> None:
    patch_all(switch.address, (1, 2), (3, 4))
    cables[1].delete()
    for number in range(50):
        cables[0].send(frame(mark=number))  # to a port that is not there
    cables[2].send(frame(mark=9))
    assert cables[3].receive() == frame(mark=9)
    cables[1].create()
    until(lambda: _passes(cables[0], cables[1]), "the new interface to be used")
    assert switch.process.poll() is None


def test_a_flood_on_one_port_does_not_affect_others(switch: Process, cables: list[Wire]) -> None:
    patch_all(switch.address, (1, 2), (3, 4))
    flood = subprocess.Popen([sys.executable, "-c", FLOOD, cables[0].outside])
    try:
        until(lambda: _sent(cables[0]) > 10_000, "the flood to begin")
        before, number, until_s = _sent(cables[0]), 0, time.monotonic() + TIMEOUT_S
        while number < 300 or _sent(cables[0]) <= before + 300:  # a busy machine may keep the flood from running, too
            cables[2].send(frame(mark=number))
            assert cables[3].receive() == frame(mark=number), "a starved port waits for the end of the flood"
            assert time.monotonic() < until_s, "the flood stopped"
            number += 1
        assert flood.poll() is None
    finally:
        flood.kill()
        flood.wait()


FLOOD = """
import socket, sys
flood = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
flood.bind((sys.argv[1], 0))
send, burst = flood.send, bytes.fromhex("020000000001 020000000002 88b5") + bytes(50)
while True:
    send(burst)
"""


def _sent(wire: Wire) -> int:
    return int(Path(f"/sys/class/net/{wire.outside}/statistics/tx_packets").read_text())


def test_table_writes_during_traffic_lose_no_frame(switch: Process, cables: list[Wire]) -> None:
    """A steady stream below capacity, with a thousand writes and reads beside it."""
    patch_all(switch.address, (1, 2))
    stop = threading.Event()
    sent = 0

    def stream() -> None:
        nonlocal sent
        while not stop.is_set():
            cables[0].send(frame(mark=sent))
            sent += 1
            time.sleep(0.0005)  # below what the switch carries

    async def work(client: finsy.Switch) -> None:
        for _ in range(5):
            await client.write([+patch(port, 3) for port in range(10, 210)])
            assert len([entry async for entry in client.read(T("patch"))]) == 201
            await client.write([-patch(port, 3) for port in range(10, 210)])

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        control(switch.address, work)
    finally:
        stop.set()
        thread.join()
    got = [struct.unpack_from("!I", data, 14)[0] for data in iter(lambda: cables[1].receive(0.3), None)]
    assert sent > 20
    assert got == list(range(sent))


def test_packet_io_digests_counters_and_multicast_work(switch: Process, cables: list[Wire]) -> None:
    async def work(client: finsy.Switch) -> None:
        packets = client.read_packets()
        await client.write(
            [
                +T("patch", match=finsy.Match(port=1), action=finsy.Action("to_controller")),
                +T("patch", match=finsy.Match(port=2), action=finsy.Action("to_group", group=7)),
                +T("patch", match=finsy.Match(port=3), action=finsy.Action("learn")),
                +finsy.P4MulticastGroupEntry(7, replicas=[3, 4]),
                +finsy.P4DigestEntry("learn_t", max_list_size=1, max_timeout_ns=0, ack_timeout_ns=int(1e9)),
            ]
        )
        cables[0].send(frame(mark=5))
        packet = await asyncio.wait_for(anext(packets), 2)
        assert packet.payload == frame(mark=5)
        assert packet["ingress_port"] == 1

        await client.write([finsy.P4PacketOut(frame(mark=6), egress_port=4, pad=0)])
        assert await asyncio.to_thread(cables[3].receive) == frame(mark=6)

        cables[1].send(frame(mark=7))
        assert await asyncio.to_thread(cables[2].receive) == frame(mark=7)
        assert await asyncio.to_thread(cables[3].receive) == frame(mark=7)

        digests = client.read_digests("learn_t")
        waiting = asyncio.ensure_future(anext(digests))
        await asyncio.sleep(0)
        cables[2].send(frame())
        cables[2].send(frame())
        digest = await asyncio.wait_for(waiting, 2)
        assert [dict(item) for item in digest.data] == [{"src": 0x020000000002, "port": 3}]
        await client.write([digest.ack()])

        async def count(port: int) -> int:
            async for entry in client.read(finsy.P4CounterEntry("received", index=port)):
                return entry.data.packet_count
            raise AssertionError("no counter")

        assert await count(1) == 1

        async def both_counted() -> bool:
            return await count(3) == 2

        await until_async(both_counted, "both frames to be counted")
        registers = [entry async for entry in client.read(finsy.P4RegisterEntry("frames", index=3))]
        assert registers[0].data == 2
        (entry,) = [
            entry
            async for entry in client.read(T("patch", match=finsy.Match(port=1), counter_data=finsy.P4CounterData()))
        ]
        assert entry.counter_data is not None
        assert (entry.counter_data.packet_count, entry.counter_data.byte_count) == (1, 100)

    control(switch.address, work)


def test_a_port_rate_is_enforced(cables: list[Wire]) -> None:
    rate, size, count = 20_000_000, 1000, 200  # fewer than the queue holds
    with running(*arguments(cables, "--no-p4", "--rate", "2=20M")) as process:
        patch_all(process.address, (1, 2))
        start = time.monotonic()
        for number in range(count):
            cables[0].send(frame(size, number))
        got = 0
        while got < count and cables[1].receive() is not None:
            got += 1
        took = time.monotonic() - start
    assert got == count
    expected = (
        (count - 1) * size * 8 / rate
    )  # how much longer it took is the machine's; exact in test_traffic_manager.py
    assert took > 0.95 * expected, f"{count} frames took {took} s instead of {expected}"


def test_many_switches_run_in_one_process(cables: list[Wire], tmp_path: Path) -> None:
    config = tmp_path / "switches.yaml"
    document = {
        "grpc": f"unix:{tmp_path}/p4rt.sock",
        "switches": [
            {"name": "left", "device_id": 11, "ports": {1: cables[0].inside, 2: cables[1].inside}},
            {"name": "right", "device_id": 12, "ports": {1: cables[2].inside, 2: cables[3].inside}, "rate": "1G"},
        ],
    }
    config.write_text(json.dumps(document))
    with running("--config", str(config)) as process:
        assert "devices=11,12 " in process.line

        async def work() -> None:
            async with contextlib.AsyncExitStack() as stack:
                for device_id in (11, 12):
                    switch = finsy.Switch(f"sw{device_id}", process.address, options(device_id=device_id))
                    await stack.enter_async_context(switch)
                    await switch.write([+patch(1, 2)])
            with pytest.raises(finsy.P4ClientError) as caught:
                async with finsy.Switch("sw9", process.address, options(device_id=9)):
                    pass
            assert caught.value.code == finsy.GRPCStatusCode.NOT_FOUND

        asyncio.run(work())
        for source, sink in ((cables[0], cables[1]), (cables[2], cables[3])):
            source.send(frame(mark=1))
            assert sink.receive() == frame(mark=1)
        status, _, errors = process.stop(signal.SIGINT)
    assert (status, errors) == (0, "")
    assert not (tmp_path / "p4rt.sock").exists()


def test_the_process_stops_with_clients_connected_and_traffic_flowing(switch: Process, cables: list[Wire]) -> None:
    async def work() -> None:
        async with finsy.Switch("sw", switch.address, options()) as client:
            await client.write([+patch(1, 2)])
            for _ in range(100):
                cables[0].send(frame())
            status, _, errors = await asyncio.to_thread(switch.stop)  # fails if the process has to be killed
            assert (status, errors) == (0, "")

    with contextlib.suppress(finsy.P4ClientError, grpc.aio.AioRpcError):
        asyncio.run(work())
    assert switch.process.returncode == 0


# --- what a person gets wrong


def _fails(*words: str, user: bool = False) -> tuple[int, str]:
    command = [sys.executable, "-m", "p4runtime_shim", *words]
    if user:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


def test_a_missing_interface_is_reported() -> None:
    status, output = _fails("-i", "1@nosuchif0", "--no-p4", "--grpc-server-addr", "127.0.0.1:0")
    assert status == 1
    assert "no interface nosuchif0" in output


def test_missing_root_is_reported(cables: list[Wire]) -> None:
    status, output = _fails(*arguments(cables, "--no-p4"), user=True)
    assert status == 1
    assert "needs root" in output


def test_an_invalid_program_is_reported(tmp_path: Path) -> None:
    for content, word in (("{", "not BMv2 JSON"), ("[]", "not BMv2 JSON"), ("{}", "json")):
        bad = tmp_path / "bad.json"
        bad.write_text(content)
        status, output = _fails(str(bad), "--grpc-server-addr", "127.0.0.1:0")
        assert status == 1
        assert word in output
    status, output = _fails(str(tmp_path / "none.json"))
    assert status == 1
    assert "cannot read" in output


def test_an_address_in_use_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, output = _fails("--no-p4", "--grpc-server-addr", f"127.0.0.1:{taken.getsockname()[1]}")
        assert status == 1
        assert "in use" in output
    path = tmp_path / "sock"
    with running("--no-p4", "--grpc-server-addr", f"unix:{path}") as process:
        status, output = _fails("--no-p4", "--grpc-server-addr", f"unix:{path}")
        assert status == 1
        assert f"Another process listens at {path}" in output
        process.process.kill()
        process.process.wait()
    assert path.exists()  # a stale socket is no obstacle
    with running("--no-p4", "--grpc-server-addr", f"unix:{path}"):
        pass


def test_a_new_program_keeps_the_entries_on_request(switch: Process, cables: list[Wire]) -> None:
    """RECONCILE_AND_COMMIT, and a batch that rolls back, on the engine, over a bare channel."""
    p4info = text_format.Parse(PATCH.with_suffix(".p4info.txtpb").read_text(), p4i.P4Info())
    (table,), (action, *_) = p4info.tables, p4info.actions

    def entry(port: int, to: int) -> p4r.TableEntry:
        return p4r.TableEntry(
            table_id=table.preamble.id,
            match=[{"field_id": 1, "exact": {"value": bytes([port])}}],
            action={"action": {"action_id": action.preamble.id, "params": [{"param_id": 1, "value": bytes([to])}]}},
        )

    async def work() -> None:
        async with grpc.aio.insecure_channel(switch.address) as channel:
            client = Client(channel)
            await client.arbitrate()
            await client.set_config(p4info, PATCH.read_bytes())
            await client.write(insert(table_entry=entry(1, 2)))
            with pytest.raises(grpc.aio.AioRpcError):
                await client.write(
                    modify(table_entry=entry(1, 3)),
                    insert(table_entry=entry(2, 1)),
                    insert(table_entry=entry(1, 4)),
                    atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR,
                )
            cables[0].send(frame(mark=1))
            assert await asyncio.to_thread(cables[1].receive) == frame(mark=1)
            wanted = p4r.Entity(table_entry={"table_id": table.preamble.id, "counter_data": {}})
            before = await client.read(wanted)
            assert [item.table_entry.counter_data.packet_count for item in before] == [1]
            changed = PATCH.read_bytes() + b"\n"  # another file, the same program
            await client.set_config(
                p4info, changed, p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT, cookie=9
            )
            assert await client.read(wanted) == before
            cables[0].send(frame(mark=2))
            assert await asyncio.to_thread(cables[1].receive) == frame(mark=2)
            await client.set_config(p4info, changed, p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_SAVE)
            await client.write(insert(table_entry=entry(1, 3)))
            await client.set_config(action=p4r.SetForwardingPipelineConfigRequest.COMMIT)
            cables[0].send(frame(mark=3))
            assert await asyncio.to_thread(cables[2].receive) == frame(mark=3)

    asyncio.run(work())


# --- privileges and tc


def test_the_process_keeps_only_the_privileges_its_ports_need(cables: list[Wire]) -> None:
    """A port whose interface is removed and made again comes back all the same, and programs are compiled."""
    with running(*arguments(cables, "--no-p4")) as process:
        left = current(process.process.pid)
        wanted = {Capability.NET_RAW, Capability.NET_ADMIN, Capability.DAC_READ_SEARCH}
        assert left.permitted == left.bounding == sum(1 << capability for capability in wanted)
        assert left.effective == left.permitted
        assert (left.inheritable, left.ambient, left.no_new_privs) == (0, 0, True)
        for thread in Path(f"/proc/{process.process.pid}/task").iterdir():
            assert f"CapPrm:\t{left.permitted:016x}" in (thread / "status").read_text()
        patch_all(process.address, (1, 2))
        cables[0].delete()
        cables[0].create()

        def passes() -> bool:
            cables[0].send(frame(mark=7))
            return cables[1].receive(0.2) == frame(mark=7)

        until(passes, "the port to come back")
        status, _, errors = process.stop()
        assert (status, errors) == (0, "")
    with running(*arguments(cables, "--no-p4", "--keep-privileges")) as process:
        assert current(process.process.pid).permitted == current().permitted


@pytest.mark.parametrize("as_bmv2", [True, False], ids=["bmv2", "own-name"])
def test_as_simple_switch_grpc_a_tc_rate_limit_applies(as_bmv2: bool, cables: list[Wire], tmp_path: Path) -> None:
    """Mininet's `bw` is a token bucket on the switch's interface; the switch by its own name goes past it."""
    limit = f"qdisc add dev {cables[1].inside} root tbf rate 1mbit burst 5kb limit 5kb"
    subprocess.run(["tc", *limit.split()], check=True)
    with named("simple_switch_grpc" if as_bmv2 else "p4runtime_shim", cables, tmp_path) as address:
        patch_all(address, (1, 2))
        if as_bmv2:
            until(lambda: _is_limited(cables), "a round that the token bucket cuts short")
        else:
            assert _round(cables) == 100


def _round(cables: list[Wire]) -> int:
    """How many of 100 frames arrive that are sent faster than a token bucket of 1 Mb/s lets them through."""
    for number in range(100):
        cables[0].send(frame(1400, number))
        time.sleep(0.001)  # below what the switch carries, and ten times what the token bucket lets through
    return cables[1].drain()


def _is_limited(cables: list[Wire]) -> bool:
    """Whether that is seen; on a busy machine a round may last so long that the bucket lets all of it through."""
    began = time.monotonic()
    arrived = _round(cables)
    allowed = (2 * 5_000 + (time.monotonic() - began) * 125_000) / 1400 + 1  # burst, limit, and 1 Mb/s meanwhile
    assert arrived <= allowed
    return allowed < 80


def test_as_simple_switch_grpc_frames_held_by_tc_wait_in_the_switch(cables: list[Wire], tmp_path: Path) -> None:
    """So that a program sees queues grow, as the tutorials' ECN and MRI do; tc itself has room for all of it here."""
    limit = f"qdisc add dev {cables[1].inside} root tbf rate 100kbit burst 5kb limit 10mb"
    subprocess.run(["tc", *limit.split()], check=True)
    sent, kernels = 400, int(Path("/proc/sys/net/core/wmem_default").read_text()) // 1400
    assert kernels < 200
    with named("simple_switch_grpc", cables, tmp_path) as address:
        patch_all(address, (1, 2))
        with grpc.insecure_channel(address) as channel:
            switch = switch_v1_pb2_grpc.SwitchManagementStub(channel)  # type: ignore[no-untyped-call]
            switch.SetQueue(switch_v1_pb2.SetQueueRequest(device_id=1, port=2, priority=0, max_packets=sent))
            for number in range(sent):
                cables[0].send(frame(1400, number))
                time.sleep(0.0005)  # below what the switch carries
            (state,) = switch.GetSwitches(switch_v1_pb2.GetSwitchesRequest()).switches
    queues = next(port.queues for port in state.ports if port.port == 2)
    assert queues[0].peak_packets > sent - kernels - 100  # 100 kb/s carries 9 a second


@contextlib.contextmanager
def named(name: str, cables: list[Wire], directory: Path) -> Iterator[str]:
    """The address of a switch without a program whose console script has that name."""
    script = directory / name
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom p4runtime_shim.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    process = subprocess.Popen(
        [script, *arguments(cables, "--no-p4")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1].removeprefix("grpc=")
    finally:
        process.terminate()
        process.wait(10)
