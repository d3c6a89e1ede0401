"""Output of several processes, printed line by line behind the name of each, and which of them have ended.

A process has ended when it has itself, even if a process that it has left behind keeps its output open.
"""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Callable

_LONGEST_LINE = 1 << 16


class Output:
    """What one process prints, line by line; `name` is what the lines are marked with."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], write: Callable[[str], object]) -> None:
        assert process.stdout is not None
        self.name, self.process = name, process
        self.descriptor = process.stdout.fileno()
        os.set_blocking(self.descriptor, False)
        self._write = write
        self._line = b""

    def read(self) -> bool:
        """Pass on what is there; False when there is nothing, now or any more."""
        try:
            data = os.read(self.descriptor, _LONGEST_LINE)
        except BlockingIOError:
            return False
        *lines, self._line = (self._line + data).split(b"\n")
        if (not data and self._line) or len(self._line) >= _LONGEST_LINE:
            lines.append(self._line)
            self._line = b""
        for line in lines:
            self._write(f"[{self.name}] {line.decode(errors='replace')}\n")
        return bool(data)

    def read_rest(self) -> None:
        """Pass on what the process has left behind."""
        while self.read():
            pass
        if self._line:
            self._write(f"[{self.name}] {self._line.decode(errors='replace')}\n")


class Outputs:
    """Outputs of the processes that are followed; lines go to `write`. A context, which closes what it has opened."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self.write = write
        self.running = 0
        self.silent = True  # none has printed anything, nor ended
        self._selector = selectors.DefaultSelector()
        self._exits: set[int] = set()  # descriptors that say that a process has ended

    def follow(self, name: str, process: subprocess.Popen[bytes]) -> Output:
        """Print what `process`, whose output is a pipe, says from now on."""
        output = Output(name, process, self.write)
        exited = os.pidfd_open(process.pid)
        self._exits.add(exited)
        self._selector.register(exited, selectors.EVENT_READ, output)
        self._selector.register(output.descriptor, selectors.EVENT_READ, output)
        self.running += 1
        return output

    def wait(self, timeout_s: float | None = None) -> list[Output]:
        """Wait until a process prints or ends, and print; those that have ended, each once."""
        ready = self._selector.select(timeout_s)
        self.silent = self.silent and not ready
        ended = []
        for key, _ in ready:
            output: Output = key.data
            if key.fd not in self._exits:
                if not output.read():
                    self._selector.unregister(key.fd)
                continue
            self._selector.unregister(key.fd)
            self._exits.remove(key.fd)
            os.close(key.fd)
            self.running -= 1
            output.read_rest()
            ended.append(output)
        return ended

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *_: object) -> None:
        for exited in self._exits:
            os.close(exited)
        self._selector.close()
