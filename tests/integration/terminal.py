"""A program on a terminal of its own, as a person has it: keys go in, and what is on the screen is waited for."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType

from tests.waiting import TIMEOUT_S

CTRL_C, CTRL_D, TAB = "\x03", "\x04", "\t"


class Terminal:
    """``mrc`` with `arguments` on a pseudo terminal; a context manager that ends it."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        program = "from mrc_lab.cli import main; main()"
        command = ["setsid", "--ctty", sys.executable, "-c", program, *arguments]
        environment = {**os.environ, "TERM": "dumb", "INPUTRC": "/dev/null", **(environment or {})}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self._seen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(TIMEOUT_S)
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def until(self, text: str) -> str:
        """Wait for `text`; returns what was printed before it since the last call."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self._seen:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {text!r} in {self._seen!r}"
            try:
                self._seen += os.read(self._master, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"ended without {text!r}: {self._seen!r}") from None
        before, _, self._seen = self._seen.partition(text)
        return before

    def seen(self) -> str:
        """What has been printed by now and was not waited for."""
        while select.select([self._master], [], [], 0)[0]:
            self._seen += os.read(self._master, 4096).decode(errors="replace")
        return self._seen

    def run(self, line: str, prompt: str = "mrc> ") -> str:
        """Enter a line and return what is printed until the next prompt."""
        self.type(f"{line}\n")
        self.until("\n")  # the echo
        return self.until(prompt)

    def ended(self, words: Sequence[str] = ()) -> int:
        """Wait for the end; returns the exit status, after having seen `words` on the way."""
        for word in words:
            self.until(word)
        deadline = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            ready, _, _ = select.select([self._master], [], [], 0.1)
            if ready:
                with contextlib.suppress(OSError):
                    os.read(self._master, 4096)
        return self.process.wait(1)
