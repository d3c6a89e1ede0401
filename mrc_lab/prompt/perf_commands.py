"""The performance tools at the Mininet prompt.

`PerfCommands` is mixed into the prompt's class, before Mininet's. Its commands run the tools as processes and pass on
what they print, so that Ctrl-C stops a tool and not the prompt. Hosts also find the tools by name (``h1 write_bw h3``).
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mrc_common import children
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.client_and_server import run_pair
from mrc_lab.fabric.emulation import EmulatedWorld


class PerfCommands:
    """What the prompt gains. It has to have `_world` before its constructor calls ours, `_echo` and `failed`."""

    _world: EmulatedWorld
    _echo: Callable[[str], None]
    failed: bool

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        for host in self._world.emulation.net.hosts:
            host.cmd(f'export PATH="{Path(sys.executable).parent}:$PATH"')
        super().__init__(*arguments, **keywords)

    def do_all_reduce_perf(self, line: str) -> None:
        """All_reduce_perf [FLAGS]: measure and verify all-reduce over all hosts; flags as in nccl-tests (-h)."""
        self._among_all("all_reduce_perf", line)

    def do_all_gather_perf(self, line: str) -> None:
        """All_gather_perf [FLAGS]: measure and verify all-gather over all hosts; flags as in nccl-tests (-h)."""
        self._among_all("all_gather_perf", line)

    def do_reduce_scatter_perf(self, line: str) -> None:
        """Reduce_scatter_perf [FLAGS]: measure and verify reduce-scatter over all hosts; as in nccl-tests (-h)."""
        self._among_all("reduce_scatter_perf", line)

    def do_alltoall_perf(self, line: str) -> None:
        """Alltoall_perf [FLAGS]: measure and verify all-to-all over all hosts; flags as in nccl-tests (-h)."""
        self._among_all("alltoall_perf", line)

    def do_sendrecv_perf(self, line: str) -> None:
        """Sendrecv_perf [FLAGS]: measure and verify a ring of sends over all hosts; flags as in nccl-tests (-h)."""
        self._among_all("sendrecv_perf", line)

    def do_broadcast_perf(self, line: str) -> None:
        """Broadcast_perf [FLAGS]: measure and verify a broadcast to all hosts; flags as in nccl-tests (-h)."""
        self._among_all("broadcast_perf", line)

    def do_write_bw(self, line: str) -> None:
        """Write_bw SOURCE DESTINATION [FLAGS]: bandwidth of RDMA WRITE; flags as in perftest (-h)."""
        self._between_two("write_bw", line)

    def do_write_lat(self, line: str) -> None:
        """Write_lat SOURCE DESTINATION [FLAGS]: latency of RDMA WRITE; flags as in perftest (-h)."""
        self._between_two("write_lat", line)

    def do_mrc_ping(self, line: str) -> None:
        """Mrc_ping SOURCE DESTINATION [FLAGS]: ping every path between two hosts; flags as in ping (-h)."""
        with self._errors_printed():
            words = self._foreground("mrc_ping", line)
            fabric = self._world.fabric.name
            self._run_tool(children.python("mrc_lab.perf.ping", "--fabric", fabric, *words))

    def _among_all(self, test: str, line: str) -> None:
        with self._errors_printed():
            words = self._foreground(test, line)
            fabric = self._world.fabric.name
            self._run_tool(children.python("mrc_lab.perf", test, "--fabric", fabric, *words))

    def _between_two(self, tool: str, line: str) -> None:
        with self._errors_printed():
            words = self._foreground(tool, line)
            command = children.python(f"mrc_host.tools.{tool}")
            if "-h" in words or "--help" in words:
                self._run_tool([*command, "-h"])
                return
            if len(words) < 2 or words[0] == words[1]:
                raise ExperimentError(f"use it like this: {tool} h1 h3 -s 65536")
            source, destination = (self._world.fabric.nic(word).name for word in words[:2])
            run_pair(tool, self._world.emulation.run, source, destination, words[2:], self._run_tool, self._echo)

    def _foreground(self, tool: str, line: str) -> list[str]:
        """The words of a line; ExperimentError if it asks a shell to go on meanwhile."""
        words = split_words(line)
        if words and words[-1].endswith("&"):
            rest = " ".join((tool, line.rstrip().removesuffix("&").rstrip()))
            raise ExperimentError(
                f"{tool} runs in the foreground here: leave out '&', and to have several at once run"
                f" sudo mrc shell {self._world.fabric.name} -c {shlex.quote(rest)} in other terminals"
            )
        return words

    def _run_tool(self, command: Sequence[str]) -> int:
        """Run a process and print its lines as they come; its exit status.

        On a terminal it writes its progress there by itself, on standard error.
        """
        errors = None if sys.stdout.isatty() and sys.stderr.isatty() else subprocess.STDOUT
        with children.popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    self._echo(line.rstrip("\n"))
            except KeyboardInterrupt:  # the process has got it too
                for line in process.stdout:
                    self._echo(line.rstrip("\n"))
        self.failed |= process.returncode != 0
        return process.returncode

    @contextlib.contextmanager
    def _errors_printed(self) -> Iterator[None]:
        """Print errors as a message instead of raising them."""
        try:
            yield
        except (ExperimentError, OSError, ValueError) as error:
            self.failed = True
            self._echo(str(error))


def split_words(line: str) -> list[str]:
    """The words of a line, as a shell splits them; ExperimentError when a quote or a backslash is left open."""
    try:
        return shlex.split(line)
    except ValueError as error:
        missing = "closing quote" if "quotation" in str(error) else "character after the last backslash"
        raise ExperimentError(f"Missing {missing}") from None
