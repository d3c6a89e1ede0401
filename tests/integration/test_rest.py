"""A process is idle when all its threads sleep."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.integration.rest import wait_until_at_rest

# Works in another thread than the first for each line of input, and says so.
WORKER = """
import os, queue, sys, threading
lines, done = queue.Queue(), 0
def work():
    while True:
        lines.get()
        sum(range(2_000_000))
        os.write(1, b"done\\n")
threading.Thread(target=work, daemon=True).start()
for line in sys.stdin:
    lines.put(line)
"""


def test_work_passed_between_threads_is_awaited() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        out = process.stdout.fileno()
        for number in range(10):
            process.stdin.write(b"work\n")
            process.stdin.flush()
            if number:  # the first shows that it runs
                wait_until_at_rest(process.pid)
                os.set_blocking(out, False)
            assert os.read(out, 100) == b"done\n"
        process.stdin.close()


def test_a_busy_process_is_not_idle() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            with pytest.raises(AssertionError, match="did not become idle"):
                wait_until_at_rest(process.pid, timeout=0.5)
        finally:
            process.kill()


def test_an_exited_process_is_reported() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""  # until it has ended
        with pytest.raises(ProcessLookupError, match="has ended"):
            wait_until_at_rest(process.pid)
