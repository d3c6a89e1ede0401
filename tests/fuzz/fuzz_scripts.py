"""Scripts of the conformance kit with numbers at the edges of every range, played to a NIC in memory.

Each is refused with the line, or played to a verdict, soon and in little memory.
"""

from __future__ import annotations

import random
import re
import resource
import time

from mrc_lab.conformance.collection import FOLDER
from mrc_lab.conformance.examine import in_memory
from mrc_lab.conformance.player import play
from mrc_lab.conformance.script import parse_script
from mrc_lab.errors import ExperimentError

MAX_SECONDS = 20.0  # of processor time, for one script
MAX_GROWTH = 256 << 10  # KiB of memory
EDGES = (
    "-1", "0", "1", "-0", "127", "255", "256", "65535", "65536", "0xffffff", "0x1000000", str(2**31 - 1), str(2**31),
    str(2**32 - 1), str(2**32), str(2**63), str(2**64 - 1), str(2**64), "-2147483649", "1e999", "NaN", "1" * 5000,
    "0..4294967296", "5..1", "x.psn", "first.ev-99999999999", "",
)  # fmt: skip
EVERY = """\
rule R2.8
title every field
< data psn=0 segment=5 length=8 size=8 offset=0 imm=1 msn=1 rqmsn=1 a=1 rtx=0 timestamped=1 stamp=1 pkey=65535 fill=1
< data psn=1 plane=0 path=0 dscp=8 ecn=2 outer_ecn=2 trimmed=0 icrc=1 opcode=0xc6 qpn=5 rkey=5 ev=5 as d
< sack cack=0 bitmap=0 base=1 id=0 mark=0 probe=0 units=1 penalty=0 restore=0 mpr=1 echo=1 stamp=1
< ack psn=0 messages=1 syndrome=31
< probe id=1 stamp=1
< request id=1 operation=1 mask=3 stamp=1
< response id=1 operation=1 stamp=1
memory offset=0 size=8 fill=0
post write wr=1 size=8 imm=1
spread data count=1 planes=1 evs=1 within 1ms
taken of=d count=1 within 1ms
skipped of=d count=1 within 1ms
qp path_mtu=1024 mpr=1 timeout=1 retry_count=1 send_psn=1
complete wr=1 imm=1 received=0 within 1ms
wait 1ms
"""
_NUMBER = re.compile(r"(?<==)\S+")
_TIME = re.compile(r"(?<=wait )\S+|(?<=within )\S+|(?<=for )\S+")


def changed(text: str, place: int, edge: str) -> str:
    """A script with one of its numbers replaced."""
    found = list(_NUMBER.finditer(text))[place]
    return f"{text[: found.start()]}{edge}{text[found.end() :]}"


def places(text: str) -> int:
    """How many numbers a script has."""
    return len(_NUMBER.findall(text))


def attack(text: str) -> str:
    """Read and play a script; what became of it. AssertionError where it takes too long, or too much."""
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        script = parse_script(text, "fuzz")
    except ExperimentError as error:
        result = str(error)
    else:
        with in_memory() as setting:
            verdict = play(script, setting.wire, setting.nic, setting.peer, setting.address, 1)
        result = verdict.reason or "kept"
    took = time.process_time() - begin
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert took < MAX_SECONDS, f"{took:.1f} s for:\n{text}"
    assert grown < MAX_GROWTH, f"{grown >> 10} MiB for:\n{text}"
    assert result.strip()
    assert len(result) < 2000
    return result


class Fuzzer:
    """Begins from the kit's scripts, and from one that uses every field."""

    def __init__(self) -> None:
        self._seeds = [EVERY, *(path.read_text("utf-8") for path in sorted(FOLDER.glob("*.script")))]

    def case(self, chance: random.Random) -> None:
        """One script with some numbers replaced."""
        text = EVERY if chance.random() < 0.4 else chance.choice(self._seeds)
        for _ in range(chance.randint(1, 3)):
            if places(text):
                text = changed(text, chance.randrange(places(text)), chance.choice(EDGES))
        if chance.random() < 0.1:
            text = _TIME.sub(chance.choice(("-1s", "1e999s", "99999999999h", "0s", "NaN")), text, count=1)
        attack(text)

    def close(self) -> None:
        """Nothing is left."""
