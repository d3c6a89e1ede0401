"""Regions on heap, stack and mappings that begin, end, overlap and are forked in random order, under sanitizers.

A case is one run of the program of `tests/mrc_host/libibverbs/test_shared_pages.py`, which compares every byte.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from pathlib import Path

from tests.mrc_host.libibverbs.build_program import ALL_SANITIZERS, build_pages_program

STEPS = 500
TIMEOUT_S = 120.0


class Fuzzer:
    """Needs a C compiler and libibverbs-dev."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._program = build_pages_program(Path(self._folder.name), ALL_SANITIZERS)

    def case(self, chance: random.Random) -> None:
        environment = {**os.environ, "WITHOUT_QUERY": "1"} if chance.random() < 0.5 else dict(os.environ)
        words = [self._program, "anything", str(chance.getrandbits(32)), str(STEPS)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr

    def close(self) -> None:
        self._folder.cleanup()
