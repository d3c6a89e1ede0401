"""Captures into tshark with the Wireshark dissector: MRC and RoCE frames, changed, cut or short on the wire.

A case is one capture of many frames and ends with sound MRC packets: tshark must not crash, Lua must not complain, and
the sound packets must be recognised, whatever came before.
"""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path

from scapy.packet import Raw

from tests.mrc_host.captures import make_golden as golden
from tests.mrc_host.captures import tshark
from tests.mrc_host.captures.test_dissector import ROCE_OPCODES, mutated

FRAMES_PER_CASE = 1500
SOUND = 50


class Fuzzer:
    """Needs tshark."""

    def __init__(self) -> None:
        if tshark.TSHARK is None:
            raise SystemExit("tshark is not installed: apt-get install tshark")
        self._seeds = [step.frame for capture in golden.captures().values() for step in capture.steps()]
        roce = [golden.plain6(golden.rc(name, 7) / Raw(bytes(300)), 53) for name in ROCE_OPCODES]
        self._seeds += roce * (len(self._seeds) // len(roce))
        self._sound = bytes(golden.srv6(golden.write_only(1), 3))

    def case(self, chance: random.Random) -> None:
        frames, lengths = [], []
        for _ in range(FRAMES_PER_CASE):
            frame = chance.choice(self._seeds)
            if chance.random() < 0.7:
                frame = mutated(frame, chance)
            length = len(frame)
            if chance.random() < 0.4:
                frame = frame[: chance.randint(1, max(1, length))]
            frames.append(frame)
            lengths.append(length)
        frames += [self._sound] * SOUND
        lengths += [len(self._sound)] * SOUND
        with tempfile.TemporaryDirectory() as folder:
            capture = tshark.write_capture(Path(folder, "fuzz.pcap"), frames, wire_lengths=lengths)
            verbose = tshark.run(capture, "-V")
            assert len(re.findall(r"^Frame \d+:", verbose, re.MULTILINE)) == len(frames)
            assert not re.search(r"Lua Error|\[Dissector bug|_ws\.lua", verbose)
            packets = tshark.fields(capture, ["mrc.bth.opcode"])
            assert all("mrc.bth.opcode" in packet for packet in packets[-SOUND:]), "the dissector went blind"

    def close(self) -> None:
        pass
