"""What real NICs put on the wire, through loss, trims, marks and a port's flap, decodes without a complaint."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from scapy.contrib import roce
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from mrc_host.captures import scapy_layers as mrc
from mrc_host.verbs_types import QpAttributes, QpType
from tests.mrc_host.captures import make_golden as golden
from tests.mrc_host.captures import tshark
from tests.mrc_host.captures.canonical import codec_fields, scapy_fields, transport_of
from tests.mrc_host.captures.test_agreement import DERIVED, as_scapy_has_it
from tests.mrc_host.nic_world import MS, Faults, World, connect

CHUNK, COUNT = 20_001, 12  # five packets a message, the last one padded


def carried_frames(kind: QpType) -> list[bytes]:
    """Every frame on the wires while one NIC wrote to another; some marked, some trimmed, some lost afterwards."""
    world = World(faults=Faults(seed=11, loss=0.03))
    frames: list[bytes] = []
    chance = random.Random(11)

    def tap(_nic: int, _port: int, _to: int, frame: bytes, _now: int) -> bytes:
        if mrc.dscp(Ether(frame)[IPv6]) != golden.CONTROL:
            if chance.random() < 0.1:
                frame = frame[:15] + bytes([frame[15] | golden.CE << 4]) + frame[16:]
            if kind is QpType.MRC and len(frame) > 200 and chance.random() < 0.1:
                frame = golden.trim(frame, keep=chance.choice([108, 124]), dscp=golden.TRIMMED)
        frames.append(frame)
        return frame

    world.tap = tap
    a, b = connect(world, size=COUNT * CHUNK, kind=kind, attributes=QpAttributes(retry_count=255))
    for number in range(COUNT):
        a.write(b, CHUNK, offset=number * CHUNK, imm=number if number % 2 else None)
    world.run(2 * MS)
    world.set_port(0, 1, False)
    world.run(30 * MS)
    world.set_port(0, 1, True)
    world.run(200 * MS)
    assert a.buffer == b.buffer
    return frames


@pytest.fixture(scope="module")
def traffic() -> list[bytes]:
    return carried_frames(QpType.MRC)


def test_scapy_and_codec_agree_on_nic_traffic(traffic: list[bytes]) -> None:
    opcodes = set()
    for frame in traffic:
        packet = Ether(frame)
        opcodes.add(packet[mrc.MrcBTH].opcode)
        trimmed = mrc.is_trimmed(packet)
        assert mrc.icrc_is_right(packet) is not trimmed
        by_codec, by_scapy = codec_fields(transport_of(frame)[0], trimmed=trimmed), scapy_fields(frame)
        assert by_codec == {field: by_scapy[field] for field in by_codec}
    # messages of several packets only; probes are sent when the transport sees a reason
    assert opcodes >= set(mrc.OPCODES) - {mrc.WRITE_ONLY, mrc.WRITE_ONLY_IMM, mrc.PROBE}


@tshark.needs_tshark
def test_the_dissector_reports_no_problem_in_nic_traffic(traffic: list[bytes], tmp_path: Path) -> None:
    capture = tshark.write_capture(tmp_path / "run.pcap", traffic)
    shown = tshark.fields(capture, tshark.known_fields())
    for frame, packet in zip(traffic, shown, strict=True):
        mine = {name: as_scapy_has_it(name, values[0]) for name, values in packet.items() if name not in DERIVED}
        assert mine == scapy_fields(frame)
        assert packet.get("mrc.icrc.status") == (None if mrc.is_trimmed(Ether(frame)) else ["1"])
    assert tshark.run(capture, "-Y", "_ws.malformed && !mrc.trimmed || mrc.bad_length || mrc.bad_opcode") == ""
    assert tshark.run(capture, "-Y", "mrc.trimmed") != ""


@tshark.needs_tshark
def test_the_roce_baseline_decodes_as_roce(tmp_path: Path) -> None:
    frames = carried_frames(QpType.RC)
    assert {type(Ether(frame)[UDP].payload) for frame in frames} == {roce.BTH}
    assert all(mrc.icrc_is_right(Ether(frame)) for frame in frames)
    capture = tshark.write_capture(tmp_path / "run.pcap", frames)
    psns = [tshark.number(packet["infiniband.bth.psn"][0]) for packet in tshark.fields(capture, ["infiniband.bth.psn"])]
    assert psns == [Ether(frame)[roce.BTH].psn for frame in frames]
    assert tshark.run(capture, "-Y", "_ws.malformed || mrc") == ""
