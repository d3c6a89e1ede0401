"""The switch's engine under the address and undefined behaviour sanitizers, in a process of its own (engine_child.py).

The packet pool is poisoned between and behind packets there, so a byte too far is a report. A report, any other end of
that process, and a call that does not return are crashes.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
HANGS_AFTER = 300.0  # seconds for one case, or for the engine to be compiled: both are long for a busy machine


def runtime(name: str) -> str | None:
    """A library of the sanitizers, or None when the compiler has none."""
    found = subprocess.run(
        ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return found if os.path.isabs(found) and os.path.exists(found) else None


class Fuzzer:
    """A process that runs cases; started again after each crash."""

    def __init__(self) -> None:
        asan = runtime("libasan.so")
        if asan is None or runtime("libubsan.so") is None:
            raise RuntimeError("the compiler has no address or undefined behaviour sanitizer; try: apt install gcc")
        self.calls, self.longest_call_ms = 0, 0.0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - until close()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.engine_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=os.environ | {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0"},
        )
        self._answer()

    def case(self, chance: random.Random) -> None:
        """One switch, some hundred calls."""
        assert self._child.stdin
        try:
            print(chance.getrandbits(64), file=self._child.stdin, flush=True)
        except BrokenPipeError:
            raise AssertionError(f"the process has ended: {self._report()}") from None
        answer = json.loads(self._answer())
        self.calls += answer["calls"]
        self.longest_call_ms = max(self.longest_call_ms, answer["longest_call_ms"])

    def _answer(self) -> str:
        assert self._child.stdout
        if not select.select([self._child.stdout], [], [], HANGS_AFTER)[0]:
            raise AssertionError(f"no answer within {HANGS_AFTER:g} s: {self._report()}")
        line = self._child.stdout.readline()
        if not line:
            raise AssertionError(f"the process ended with status {self._child.wait()}: {self._report()}")
        return line

    def _report(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[:8000]

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.communicate()
        self._errors.close()
        print(f"engine: {self.calls} calls, the longest {self.longest_call_ms} ms", flush=True)
