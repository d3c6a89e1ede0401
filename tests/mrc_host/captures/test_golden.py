"""The committed captures are what the generator makes, and scapy reads and rebuilds each packet byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from mrc_host.captures import scapy_layers as mrc
from tests.mrc_host.captures.make_golden import GOLDEN, captures, readme

NAMES = list(captures())


def committed(name: str) -> list[tuple[bytes, bytes, int]]:
    """Frame, comment and time in microseconds of each packet of a committed file."""
    packets = rdpcap(str(GOLDEN / f"{name}.pcapng"))
    return [(bytes(packet), bytes(packet.comment), round(float(packet.time) * 1e6)) for packet in packets]


@pytest.mark.parametrize("name", NAMES)
def test_committed_captures_match_the_generator(name: str) -> None:
    made = [
        (step.frame, step.comment.encode(), 10**12 + 10 * number)
        for number, step in enumerate(captures()[name].steps())
    ]
    assert made == committed(name), "run: python -m tests.mrc_host.captures.make_golden"


def test_the_readme_lists_all_files() -> None:
    assert (GOLDEN / "README.md").read_text() == readme(), "run: python -m tests.mrc_host.captures.make_golden"
    assert {path.stem for path in GOLDEN.glob("*.pcapng")} == set(NAMES)


def test_every_opcode_occurs_in_the_captures() -> None:
    seen = {Ether(step.frame)[mrc.MrcBTH].opcode for step in captures()["opcodes"].steps()}
    assert seen == set(mrc.OPCODES)
    assert len(seen) == 12


def all_steps() -> Iterator[object]:
    for name, capture in captures().items():
        for number, step in enumerate(capture.steps()):
            yield pytest.param(step.frame, id=f"{name}-{number}")


@pytest.mark.parametrize("frame", list(all_steps()))
def test_scapy_rebuilds_each_packet_byte_for_byte(frame: bytes) -> None:
    packet = Ether(frame)
    layer = packet
    while layer:
        layer.raw_packet_cache = None
        layer = layer.payload
    assert bytes(packet) == frame


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"damaged"}))
def test_untrimmed_packets_have_a_valid_icrc(name: str) -> None:
    for step in captures()[name].steps():
        packet = Ether(step.frame)
        assert mrc.icrc_is_right(packet) is not mrc.is_trimmed(packet), step.comment
