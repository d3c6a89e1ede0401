"""What the Wireshark dissector says beyond the fields: expert infos, preferences, and that nothing makes it fail."""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from mrc_host.captures import DISSECTOR
from mrc_host.captures import scapy_layers as mrc
from tests.mrc_host.captures import make_golden as golden
from tests.mrc_host.captures import tshark
from tests.mrc_host.captures.make_golden import GOLDEN, captures
from tests.mrc_host.captures.tshark import write_capture
from tests.seeds import SEED

pytestmark = tshark.needs_tshark

EXPERTS = (
    "mrc.bad_length", "mrc.bad_opcode", "mrc.bad_icrc", "mrc.bad_roce",
    "mrc.was_trimmed", "mrc.cut", "mrc.retransmission", "mrc.nacked",
)  # fmt: skip
SOUND = sorted(set(captures()) - {"damaged"})


def experts(capture: Path, *arguments: str) -> list[set[str]]:
    return [set(packet) for packet in tshark.fields(capture, EXPERTS, *arguments)]


def test_valid_captures_have_no_expert_infos() -> None:
    notes = {"mrc.was_trimmed", "mrc.retransmission", "mrc.nacked"}
    for name in SOUND:
        for packet in tshark.fields(GOLDEN / f"{name}.pcapng", (*EXPERTS, "_ws.malformed", "mrc.trimmed")):
            found = set(packet) - {"mrc.trimmed"}
            # of trimmed packets Wireshark's UDP says, before the dissector is asked, that their length is bad
            assert found <= (notes | {"_ws.malformed"} if "mrc.trimmed" in packet else notes), name


def test_each_damaged_packet_has_its_expert_info() -> None:
    found = experts(GOLDEN / "damaged.pcapng")
    length = {"mrc.bad_length"}
    assert found == [
        {"mrc.bad_icrc"}, length, length | {"mrc.nacked"}, {"mrc.bad_opcode"}, length, length, length, length,
    ]  # fmt: skip


def test_a_wrong_icrc_is_shown_with_the_expected_one() -> None:
    frame = bytearray(bytes(golden.srv6(golden.write_only(1), 3)))
    right = int.from_bytes(frame[-4:], "little")
    frame[-1] ^= 0x80
    (packet,) = _dissect([bytes(frame)], "mrc.icrc", "mrc.icrc.status", "mrc.icrc.expected")
    assert packet["mrc.icrc.status"] == ["0"]
    assert tshark.number(packet["mrc.icrc"][0]) == right ^ 0x80000000
    assert tshark.number(packet["mrc.icrc.expected"][0]) == right


def test_icrc_verification_can_be_disabled() -> None:
    capture = GOLDEN / "damaged.pcapng"
    packets = tshark.fields(capture, ["mrc.icrc.status"], "-o", "mrc.verify_icrc:FALSE")
    assert {status for packet in packets for status in packet.get("mrc.icrc.status", ())} == {"2"}


def test_trimmed_packets_are_recognised_by_dscp() -> None:
    capture = GOLDEN / "trimmed.pcapng"
    marked = ["mrc.was_trimmed" in found for found in experts(capture)]
    assert marked == [False, True, False, True, False, True, False, False]
    roles = [packet["mrc.role"][0] for packet in tshark.fields(capture, ["mrc.role"])]
    assert roles == [
        "trimmable", "trimmed", "control", "trimmed", "control", "trimmed at the last hop", "control", "retransmitted",
    ]  # fmt: skip
    assert experts(capture, "-o", "mrc.dscp_trimmed:13")[1] == {"mrc.bad_length", "mrc.bad_icrc"}


def test_a_trimmed_probe_is_not_malformed() -> None:
    probe = golden.trim(bytes(golden.srv6(golden.probe(7, time=1), 3)), keep=108, dscp=golden.TRIMMED)
    with tempfile.TemporaryDirectory() as directory:
        capture = write_capture(Path(directory, "t.pcap"), [probe])
        assert experts(capture) == [{"mrc.was_trimmed"}]


def test_a_short_snapshot_length_is_not_a_bad_length(tmp_path: Path) -> None:
    frame = bytes(golden.srv6(golden.write_only(1), 3))
    frames = [frame[:size] for size in range(103, len(frame))]
    capture = write_capture(tmp_path / "cut.pcap", frames, wire_lengths=[len(frame)] * len(frames))
    assert experts(capture) == [{"mrc.cut"}] * len(frames)
    assert tshark.run(capture, "-Y", "_ws.malformed") == ""


def test_truncated_roce_packets_do_not_disable_the_dissector(tmp_path: Path) -> None:
    roce = golden.plain6(golden.rc("RDMA_WRITE_FIRST", 7) / Raw(bytes(64)), 53)
    mrc_frame = bytes(golden.srv6(golden.write_only(1), 3))
    # at 62 bytes the BTH begins; Lua's stack held some 100 exceptions
    frames = [roce[: 63 + number % (len(roce) - 63)] for number in range(500)] + [mrc_frame] * 50
    lengths = [len(roce)] * 500 + [len(mrc_frame)] * 50
    capture = write_capture(tmp_path / "cut.pcap", frames, wire_lengths=lengths)
    packets = tshark.fields(capture, ["mrc.bth.opcode", "mrc.cut", "infiniband.bth.psn"])
    assert opcodes(packets[500:]) == [[0xCA]] * 50
    assert all("mrc.cut" in packet and "mrc.bth.opcode" not in packet for packet in packets[:500])
    whole_bth = [packet for packet, frame in zip(packets[:500], frames, strict=False) if len(frame) >= 62 + 12]
    assert all(packet["infiniband.bth.psn"] == ["7"] for packet in whole_bth)


def _dissect(frames: list[bytes], *names: str, options: tuple[str, ...] = ()) -> list[dict[str, list[str]]]:
    with tempfile.TemporaryDirectory() as directory:
        return tshark.fields(write_capture(Path(directory, "t.pcap"), frames), names, *options)


# ---- where packets are recognised ------------------------------------------------------------------------------------


def test_any_udp_source_port_is_accepted() -> None:
    sports = (0, 53, 2049, 4791, 4971, 0xFFFF)
    writes = [bytes(golden.srv6(golden.write_only(1), sport)) for sport in sports]
    packets = _dissect(writes + [control_frame(sport) for sport in sports], "udp.srcport", "mrc.bth.opcode")
    assert opcodes(packets) == [[0xCA]] * len(sports) + [[0xDC]] * len(sports)
    assert {int(packet["udp.srcport"][-1]) for packet in packets} == set(sports)


def opcodes(packets: list[dict[str, list[str]]]) -> list[list[int]]:
    """As numbers: versions of tshark print leading zeros or do not."""
    return [[tshark.number(text) for text in packet.get("mrc.bth.opcode", [])] for packet in packets]


def control_frame(ev: int) -> bytes:
    return golden.control(golden.sack(1, 1, ev), ev)


def test_roce_with_any_source_port_is_left_to_wireshark() -> None:
    frame = golden.plain6(golden.rc("RDMA_WRITE_MIDDLE", 7) / Raw(b"abcd"), 53)
    (packet,) = _dissect([frame], "infiniband.bth.psn", "mrc.bth.opcode")
    assert packet == {"infiniband.bth.psn": ["7"]}


def other_port(frame: bytes, port: int) -> bytes:
    packet = Ether(frame)
    packet[UDP].dport = port
    packet[mrc.MrcBTH].icrc = None
    return bytes(packet)


def test_packets_on_other_ports_need_a_valid_icrc() -> None:
    right = other_port(bytes(golden.srv6(golden.write_only(1), 3)), 7000)
    wrong = right[:-1] + bytes([right[-1] ^ 1])
    packets = _dissect([right, wrong], "mrc.bth.opcode")
    assert opcodes(packets) == [[0xCA], []]
    options = ("-o", "mrc.ports:4791,7000-7001")
    packets = _dissect([right, wrong], "mrc.icrc.status", options=options)
    assert [packet.get("mrc.icrc.status") for packet in packets] == [["1"], ["0"]]


# ---- disputed positions ----------------------------------------------------------------------------------------------


def test_disputed_field_positions_are_preferences() -> None:
    write = bytes(golden.srv6(golden.write_only(1, se=1), 0x00070401))
    response = golden.control(golden.response(1, 1), 3)
    (packet,) = _dissect([write], "mrc.bth.se", "mrc.bth.m", "mrc.ev")
    assert packet == {"mrc.bth.se": ["1"], "mrc.bth.m": ["0"], "mrc.ev": ["0x00070401"]}
    (packet,) = _dissect([write], "mrc.bth.se", "mrc.bth.m", options=("-o", "mrc.se_first:TRUE"))
    assert packet == {"mrc.bth.se": ["0"], "mrc.bth.m": ["1"]}
    (packet,) = _dissect([write], "mrc.ev", options=("-o", "mrc.ev_order:the high half"))
    assert packet == {"mrc.ev": ["0x04010007"]}
    shifted = Ether(response)
    shifted[mrc.EETH].operation, shifted[mrc.EETH].reserved = 0, 1
    shifted[mrc.MrcBTH].icrc = None
    frames = [response, bytes(shifted)]
    by_default = _dissect(frames, "mrc.eeth.operation")
    assert [packet["mrc.eeth.operation"] for packet in by_default] == [["1"], ["0"]]
    moved = _dissect(frames, "mrc.eeth.operation", options=("-o", "mrc.eeth_shift:bits 5:4"))
    assert [packet["mrc.eeth.operation"] for packet in moved] == [["0"], ["1"]]


# ---- fuzzing ---------------------------------------------------------------------------------------------------------


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """A frame with a few bytes changed after the addresses, cut short, made longer, or all of its transport random."""
    data = bytearray(frame)
    kind = chance.randrange(4)
    if kind == 0:
        for _ in range(chance.randint(1, 8)):
            data[chance.randrange(12, len(data))] = chance.randrange(256)
    elif kind == 1:
        del data[chance.randrange(14, len(data)) :]
    elif kind == 2:
        data += chance.randbytes(chance.randint(1, 64))
    else:
        opcode = chance.choice([*mrc.OPCODES, 0xC0 | chance.randrange(32)])
        return with_transport(frame, bytes([opcode]) + chance.randbytes(chance.randint(0, 120)))
    return bytes(data)


ROCE_OPCODES = (
    "RDMA_WRITE_FIRST",
    "RDMA_WRITE_ONLY_WITH_IMMEDIATE",
    "SEND_ONLY",
    "RDMA_READ_RESPONSE_ONLY",
    "ACKNOWLEDGE",
)


def with_transport(frame: bytes, transport: bytes) -> bytes:
    """The frame with other bytes after UDP, and lengths in IP and UDP that fit."""
    packet = Ether(frame)
    udp = packet[UDP]
    for ip in mrc.ip_layers(packet):
        if isinstance(ip, IPv6):
            ip.plen = None
        else:
            ip.len = ip.chksum = None
    udp.len = None
    udp.remove_payload()
    return bytes(packet / Raw(transport))


@pytest.mark.parametrize("wire_length", ["as captured", "longer"])
def test_random_packets_never_make_the_dissector_fail(tmp_path: Path, wire_length: str) -> None:
    seed = SEED
    print(f"seed {seed}")
    chance = random.Random(seed)
    seeds = [step.frame for name in captures() for step in captures()[name].steps()]
    seeds += [golden.plain6(golden.rc(name, 7) / Raw(bytes(300)), 53) for name in ROCE_OPCODES] * 10
    frames = [mutated(chance.choice(seeds), chance) for _ in range(1500)]
    lengths = None if wire_length == "as captured" else [len(frame) + chance.randint(0, 300) for frame in frames]
    capture = write_capture(tmp_path / "fuzz.pcap", frames, wire_lengths=lengths)
    verbose = tshark.run(capture, "-V")
    assert len(re.findall(r"^Frame \d+:", verbose, re.MULTILINE)) == len(frames)
    assert verbose.count("Multipath Reliable Connection") > len(frames) // 3, "few packets reached the dissector"
    assert not re.search(r"Lua Error|\[Dissector bug|_ws\.lua", verbose), f"seed {seed}"


@pytest.mark.parametrize("times", [1, 2])
def test_the_dissector_loads_without_output(times: int) -> None:
    script = ("-X", f"lua_script:{DISSECTOR}")
    _, errors = tshark.start(*script * times, "-r", str(GOLDEN / "nacks.pcapng"))
    assert [line for line in errors.splitlines() if "could be dangerous" not in line] == []
