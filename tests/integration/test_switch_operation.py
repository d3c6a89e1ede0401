"""The switch process in operation: captures, traces, its own service beside P4Runtime, a flood for the controller."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import finsy
import grpc
import pytest
from scapy.utils import PcapReader

from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from tests.integration.test_switch_process import CPU_PORT, T, arguments, control, frame, options, patch_all
from tests.integration.veth_switch import Process, Wire, running, wires
from tests.p4runtime_shim.programs import FOLDER as PROGRAMS
from tests.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
def cables() -> Iterator[list[Wire]]:
    with wires(2) as made:
        yield made


@contextlib.contextmanager
def management(process: Process) -> Iterator[pb_grpc.SwitchManagementStub]:
    with grpc.insecure_channel(process.address) as channel:
        yield pb_grpc.SwitchManagementStub(channel)  # type: ignore[no-untyped-call]


def captured(path: Path) -> list[bytes]:
    with PcapReader(str(path)) as reader:
        return [bytes(packet) for packet in reader]


def test_captures_contain_every_frame_and_survive_interface_removal(cables: list[Wire], tmp_path: Path) -> None:
    """At a rate that a test can send, with an interface that vanishes and returns in the middle."""
    sent = []
    with running(*arguments(cables, "--no-p4", "--pcap", str(tmp_path / "pcap"))) as process:
        patch_all(process.address, (1, 2))
        for turn in range(2):
            for number in range(turn * 500, turn * 500 + 500):
                sent.append(frame(60 + number, number))
                cables[0].send(sent[-1])
            for data in sent[-500:]:
                assert cables[1].receive() == data
            if turn == 0:
                cables[1].delete()
                cables[1].create()
                with management(process) as stub:
                    until(lambda stub=stub: _is_back(_port(stub, 2)), "port 2 to be back")  # type: ignore[misc]
        status, _, errors = process.stop()
    assert (status, errors) == (0, "")
    into, out = (tmp_path / "pcap" / f"{cables[n].inside}_{way}.pcap" for n, way in ((0, "in"), (1, "out")))
    assert captured(into) == sent
    assert captured(out) == sent
    done = subprocess.run(["tshark", "-r", str(out), "-T", "fields", "-e", "frame.len"], capture_output=True, text=True)
    if done.returncode == 0:
        assert [int(line) for line in done.stdout.split()] == [len(data) for data in sent]


def _is_back(port: pb.Port) -> bool:
    return port.up and port.driver["reopens"] == 1


def _port(stub: pb_grpc.SwitchManagementStub, number: int) -> pb.Port:
    (switch,) = stub.GetSwitches(pb.GetSwitchesRequest()).switches
    return next(port for port in switch.ports if port.port == number)


def test_a_full_disk_is_reported_and_frames_still_pass(cables: list[Wire], tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], check=False)
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        with running(*arguments(cables, "--no-p4", "--pcap", str(tmp_path))) as process:
            patch_all(process.address, (1, 2))
            with management(process) as stub:
                for number in range(100):
                    cables[0].send(frame(1500, number))
                    assert cables[1].receive() == frame(1500, number)
                until(lambda: _capture(stub).lost > 0, "frames to be lost to the disk")
                assert _capture(stub).problem == "No space left on device"
            status, _, errors = process.stop()
        assert status == 0
        assert "No space left on device; forwarding is not affected" in errors
        frames = captured(tmp_path / f"{cables[0].inside}_in.pcap")
        assert frames == [frame(1500, number) for number in range(len(frames))]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def _capture(stub: pb_grpc.SwitchManagementStub) -> pb.Capture:
    (switch,) = stub.GetSwitches(pb.GetSwitchesRequest()).switches
    return switch.capture


def test_group_members_follow_port_carrier() -> None:
    """Written by finsy, which spells ports its own way; seen in packets once the switch has reported the carrier."""
    program = PROGRAMS / "balance.json"
    udp = bytes.fromhex("020000000001 020000000002 0800 4500002400000000401100000a0000010a000002")
    frames = [udp + bytes([4, number, 0, 80, 0, 16, 0, 0]) + bytes(8) for number in range(40)]

    async def work(switch: finsy.Switch) -> None:
        sending = {n: finsy.Action("send", port=n) for n in (2, 3)}
        members = [finsy.P4ActionProfileMember("spread", member_id=n, action=sending[n]) for n in (2, 3)]
        watching = [finsy.P4Member(n, weight=(1, n)) for n in (2, 3)]
        group = finsy.P4ActionProfileGroup("spread", group_id=1, max_size=4, members=watching)
        await switch.write([+member for member in members])
        await switch.write([+group])
        match = finsy.Match(dst="10.0.0.0/8")
        await switch.write([+T("members", match=match, action=finsy.IndirectAction(group_id=1))])
        assert [found async for found in switch.read([finsy.P4ActionProfileGroup("spread")])] == [group]

    with wires(3) as cables, running(*arguments(cables, "--no-p4")) as process, management(process) as stub:
        control(process.address, work, program=program)
        counts = []
        for state in ("up", "down", "up"):
            cables[2].far_end(state)
            until(lambda state=state: _port(stub, 3).up == (state == "up"), "the carrier")  # type: ignore[misc]
            before = _sent(stub)
            for data in frames:
                cables[0].send(data)
            due = sum(before) + len(frames)
            until(lambda due=due: sum(_sent(stub)) == due, "all frames to pass")  # type: ignore[misc]
            counts.append(tuple(now - then for now, then in zip(_sent(stub), before, strict=True)))
    (left, right), down, again = counts
    assert left > 0 < right
    assert down == (len(frames), 0)
    assert again == (left, right)


def _sent(stub: pb_grpc.SwitchManagementStub) -> tuple[int, int]:
    """Frames that ports 2 and 3 have sent."""
    return _port(stub, 2).tx_packets, _port(stub, 3).tx_packets


def test_traces_go_to_a_file_and_a_stream(cables: list[Wire], tmp_path: Path) -> None:
    file = tmp_path / "trace.txt"
    with running(*arguments(cables, "--no-p4", f"--trace={file}")) as process:
        patch_all(process.address, (1, 2))
        with management(process) as stub, ThreadPoolExecutor(1) as waiting:
            lines = stub.Trace(pb.TraceRequest(device_id=1))
            first = waiting.submit(next, lines)

            def streaming() -> bool:
                cables[0].send(frame())
                assert cables[1].receive() == frame()
                return first.done()

            until(streaming, "the stream to begin: the switch traces into its file anyway")
            seen = [first.result().text]
            while "leaves" not in seen[-1] or "arrived" not in seen[0]:
                seen.append(next(lines).text)
                if "arrived on port 1" in seen[-1]:
                    seen = seen[-1:]
            lines.cancel()
        status, _, errors = process.stop()
    assert (status, errors) == (0, "")
    assert seen[0].endswith("arrived on port 1, 100 bytes")
    assert any("table PatchIngress.patch: hit" in text for text in seen)
    written = file.read_text()
    for text in seen:
        assert f" device 1: {text}\n" in written


def test_settings_are_changed_over_the_p4runtime_address(cables: list[Wire]) -> None:
    with running(
        *arguments(cables, "--no-p4", "--rate", "2=5M", "--ports-down", "1", "--priority-queues", "3")
    ) as process:
        patch_all(process.address, (1, 2))
        with management(process) as stub:
            until(lambda: _port(stub, 2).up, "port 2 to be up")
            first, second = _port(stub, 1), _port(stub, 2)
            assert (first.up, first.held_down, first.interface) == (False, True, cables[0].inside)
            assert (second.rate_bps, len(second.queues)) == (5_000_000, 3)
            stub.SetPort(pb.SetPortRequest(device_id=1, port=1, held_down=False))
            until(lambda: _port(stub, 1).up, "port 1 to be up")
            cables[0].send(frame())
            assert cables[1].receive() == frame()
            until(lambda: _port(stub, 2).driver["tx_packets"] == 1, "the frame to be noted as sent")
            assert _port(stub, 1).driver["rx_packets"] == 1
            stub.SetQueue(pb.SetQueueRequest(device_id=1, port=2, priority=0, max_packets=1))
            stub.SetPort(pb.SetPortRequest(device_id=1, port=2, rate_bps=8000))  # a frame of 1000 bytes: a second
            for number in range(5):
                cables[0].send(frame(1000, number))
            until(lambda: _port(stub, 2).drops["queue_full"] >= 3, "the queue to be full")
            assert _port(stub, 2).queues[0].peak_packets == 1


def test_a_packet_in_flood_does_not_block_requests(cables: list[Wire]) -> None:
    rate = 200

    async def work(client: finsy.Switch) -> None:
        await client.write([+T("patch", match=finsy.Match(port=1), action=finsy.Action("to_controller"))])

    with running(*arguments(cables, "--no-p4", "--cpu-port", str(CPU_PORT), "--packet-in-rate", str(rate))) as process:
        control(process.address, work)
        with management(process) as stub:

            async def flooded() -> None:
                async with finsy.Switch("sw", process.address, options()) as client:
                    packets = client.read_packets()
                    while not _port(stub, CPU_PORT).drops["queue_full"]:
                        for number in range(300):
                            cables[0].send(frame(mark=number))
                        assert [entry async for entry in client.read(T("patch"))]
                    assert (await asyncio.wait_for(anext(packets), 5)).payload[:14] == frame()[:14]

            asyncio.run(flooded())
            cpu = _port(stub, CPU_PORT)
            (switch,) = stub.GetSwitches(pb.GetSwitchesRequest()).switches
            assert switch.packet_in.packets_per_second == rate
            assert sum(queue.peak_packets for queue in cpu.queues) <= 256  # no more ever waits
            assert cpu.drops["queue_full"] > 0
