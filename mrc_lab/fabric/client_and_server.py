"""Both ends of ``write_bw`` or ``write_lat`` from one command line: the server is a process, and so is the client."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from mrc_common import children
from mrc_common.unix_sockets import listening
from mrc_host.tools.session import GONE
from mrc_lab.errors import ExperimentError
from topologies.emulation import processes
from topologies.emulation.run_directory import RunDirectory

_SERVER_START_S = 20.0


def meeting_point(tool: str, run: RunDirectory, host: str) -> str:
    """Where the server of `tool` on `host` waits."""
    return f"unix:{run.path / f'{host}.{tool}'}"


def run_pair(
    tool: str,
    run: RunDirectory,
    source: str,
    destination: str,
    flags: Sequence[str],
    run_client: Callable[[Sequence[str]], int],
    echo: Callable[[str], None] = print,
) -> int:
    """Measure from host `source` to host `destination`; the client's exit status.

    `run_client` runs a command and returns its status; `echo` takes what the server prints. The two ends meet at a
    socket of their own, so several measurements can run at once. Raises ExperimentError if the hosts are one, or the
    server does not start.
    """
    if source == destination:
        raise ExperimentError(f"{tool} measures between two different hosts, not from {source} to itself.")
    command = children.python(f"mrc_host.tools.{tool}")
    meeting = f"{meeting_point(tool, run, destination)}.{os.getpid()}"
    with tempfile.TemporaryFile("w+") as errors:
        server = children.popen(
            [*command, "-d", str(run.host_socket(destination)), "-p", meeting], stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            _wait_until_listening(server, meeting.removeprefix("unix:"), destination)
            return run_client([*command, "-d", str(run.host_socket(source)), *flags, meeting])
        finally:
            server.terminate()
            server.wait()
            Path(meeting.removeprefix("unix:")).unlink(missing_ok=True)
            for line in _lines(errors):
                if not line.endswith(GONE):  # the client has printed why it ended
                    echo(line)


def _wait_until_listening(server: subprocess.Popen[bytes], path: str, host: str) -> None:
    seconds = processes.ready_seconds(_SERVER_START_S)
    deadline = time.monotonic() + seconds
    while path not in listening():
        if server.poll() is not None:
            raise ExperimentError("The server did not start.")
        if time.monotonic() > deadline:
            raise ExperimentError(
                f"The server did not start within {seconds:g} s: the agent of {host} may be stopped or overloaded."
            )
        time.sleep(0.01)


def _lines(errors: IO[str]) -> list[str]:
    errors.seek(0)
    return errors.read().splitlines()
