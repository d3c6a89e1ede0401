"""The shell that Mininet keeps for a node, made safe against its end.

Mininet types a node's commands into one shell and waits for a mark that the shell prints when it is done. A shell that
has ended (``h1 exit``, ``h1 kill -9 $$``, or the fabric was taken down) never prints it, and Mininet waits for ever.
Here the end of the shell is watched as its output is, by a pidfd. Whoever waits then gets :class:`ShellEndedError`,
and the next command starts a new shell, in the namespaces of the first, which are kept open for that.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from mininet.node import Node

from topologies.emulation.errors import EmulationError
from topologies.emulation.processes import pdeathsig

_NAMESPACES = {"net": "net", "mnt": "mount", "uts": "uts"}  # in /proc, and as nsenter names them


class ShellEndedError(EmulationError):
    """The shell of a node ended while a command was waited for."""


class ShellNode(Node):  # type: ignore[misc]
    """A Mininet node whose shell may end at any time. `shell_started` is called with each new shell's process id."""

    shell_started: Callable[[int], None] | None = None
    shell_end = -1  # a pidfd, readable once the shell has ended
    _kept: tuple[int, ...] = ()  # namespaces of the first shell, if they are not those of this process

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 (Mininet's name)
        """Start a shell, which must not be running."""
        super().startShell(mnopts)
        if self.inNamespace and not self._kept:
            paths = (f"/proc/{self.pid}/ns/{name}" for name in _NAMESPACES)
            self._kept = tuple(os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths)
        if self.shell_started is not None:
            self.shell_started(self.pid)

    def ensure_shell(self) -> None:
        """Start a shell unless one is running."""
        if self.shell and self.shell.poll() is not None:
            self.cleanup()
        if not self.shell:
            self.startShell()

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command in the shell and return its output."""
        self.ensure_shell()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        """Send a command to the shell."""
        self.ensure_shell()
        return super().sendCmd(*args, **kwargs)

    def read(self, *args: Any) -> Any:
        """Read what the shell has printed; ShellEndedError once it has ended and all is read."""
        if not self.readbuf and not self._printed_before_end():
            self.cleanup()
            self.waiting = False
            raise ShellEndedError(f"The shell of {self.name} has ended; the next command starts a new one.")
        return super().read(*args)

    def cleanup(self) -> None:
        """Close what belongs to a shell that has ended."""
        if self.shell_end >= 0:
            os.close(self.shell_end)
            self.shell_end = -1
        super().cleanup()

    def terminate(self) -> None:
        """End the shell, for good."""
        super().terminate()
        for descriptor in self._kept:
            os.close(descriptor)
        self._kept = ()

    def _popen(self, cmd: Sequence[str], **params: Any) -> Any:
        own_shell = "stdin" in params and params["stdin"] == getattr(self, "slave", None)
        if own_shell and self._kept:
            here = f"/proc/{os.getpid()}/fd"
            enter = [f"--{name}={here}/{fd}" for name, fd in zip(_NAMESPACES.values(), self._kept, strict=True)]
            cmd = ["nsenter", *enter, "mnexec", "-cd", *cmd[2:]]
        process = super()._popen(pdeathsig(cmd, "HUP"), **params)
        if own_shell:
            self.shell_end = os.pidfd_open(process.pid)
        return process

    def waitReadable(self, timeoutms: int | None = None) -> Any:  # noqa: N802
        """Wait for output of the shell, or for its end."""
        if self.readbuf:
            return None
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        poll.register(self.shell_end, select.POLLIN)
        return poll.poll(timeoutms)

    def _printed_before_end(self) -> bool:
        """Wait for output or the end of the shell; whether there is output."""
        self.waitReadable()
        poll = select.poll()
        poll.register(self.stdout, select.POLLIN)
        return bool(poll.poll(0))

    def sendInt(self, intr: str = chr(3)) -> None:  # noqa: N802
        """Interrupt the command that runs, if there still is a shell."""
        if self.shell:
            with suppress(OSError):
                super().sendInt(intr)
