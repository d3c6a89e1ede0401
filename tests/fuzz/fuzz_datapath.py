"""The NIC's datapath in C under the address and undefined behaviour sanitizers, in a process of its own.

Frames as in ``fuzz_nic`` go to NICs that have it, among them forged packets of messages that are under way, so that
they reach the placement: whole, in pieces, in place, and through a shared-memory ring whose other end writes nonsense.
Frames of all formats, changed anywhere before their payload, are taken or dropped as by the model. And its functions
get arguments that no caller of ours passes. A report of the sanitizers, any other end of that process, an escaped
exception and a write beside a region are crashes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from mrc_common.c_build.extension import BuildOptions
from mrc_host import c_modules
from tests.fuzz.fuzz_engine import runtime

ROOT = Path(__file__).parents[2]
FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


class Fuzzer:
    """A process that runs cases; started again after each crash."""

    def __init__(self) -> None:
        asan = runtime("libasan.so")
        if asan is None or runtime("libubsan.so") is None:
            raise RuntimeError("the compiler has no address or undefined behaviour sanitizer; try: apt install gcc")
        for module in (c_modules.DATAPATH, c_modules.FRAME_RING):  # here, without the sanitizers' burden
            module.path(BuildOptions(flags=FLAGS))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - until close()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.fuzz_datapath"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=os.environ | {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"},
        )

    def case(self, chance: random.Random) -> None:
        """One pair of NICs, some dozens of frames."""
        assert self._child.stdin
        assert self._child.stdout
        try:
            print(chance.getrandbits(64), file=self._child.stdin, flush=True)
            answer = self._child.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if answer != "done\n":
            self._errors.seek(0)
            raise AssertionError(f"the process ended: {self._errors.read().decode(errors='replace')[:8000]}")

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.communicate()
        self._errors.close()


def _cases() -> None:
    """The process: a line with a number in, a case, a line out."""
    from mrc_host.nic import Nic
    from tests.fuzz.fuzz_nic import Fuzzer as FrameFuzzer
    from tests.mrc_host.datapath import hostile
    from tests.mrc_host.datapath.module import native, used
    from tests.mrc_host.driver.hostile_ring import HostileRing
    from tests.mrc_host.driver.rings import compiled_extension

    module = native(FLAGS)
    ring_class = compiled_extension("frame_ring", FLAGS).FrameRing
    for line in sys.stdin:
        chance = random.Random(int(line))
        with used(module):
            FrameFuzzer().case(chance)
            ring = HostileRing(ring_class, chance)
            for receive in (Nic.receive, hostile.in_pieces(chance), ring.give):
                for attack in (hostile.frames_of_messages_under_way, hostile.rc_packets_of_a_message_under_way):
                    attack(chance, chance.choice([None, 0, 0xFFFFFF, 0xFFFFF8]), receive)
            ring.close()
            hostile.packets_in_place(chance)
            hostile.prefixes_of_all_formats(chance)
        hostile.wrong_arguments(module, chance)
        print("done", flush=True)


if __name__ == "__main__":
    _cases()
