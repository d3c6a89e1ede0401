"""Live view beside a command that brings a fabric up: ``--web`` of ``mrc up``, ``shell``, ``demo`` and ``run``.

The page is served by a process of its own (``python -m mrc_lab.web``), which ends with the fabric. Where it is to end
with the command, it also ends when its standard input does, so that it does not outlive a command that was killed. On
that input the demo reports how training goes; what it does not take at once is left out, as nobody waits for it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from mrc_common import children, strict_json
from mrc_lab.errors import ExperimentError

_START_S = 20.0  # for the server to print its address
_END_S = 10.0
_TOKEN_BYTES = 24


@dataclass(frozen=True, slots=True)
class TrainingState:
    """How far a training job is: steps that all ranks have done, steps planned, loss, and how long the last step took.

    The steps of collectives have no loss.
    """

    step: int
    planned: int
    loss: float | None
    step_ms: float


def new_token() -> str:
    """A token for the page that cannot be guessed."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


class LiveViewProcess:
    """The process that serves the page of a fabric, at `address`."""

    def __init__(self, address: str, descriptor: int, output: int) -> None:
        self.address = address
        self._descriptor = descriptor
        self._output = output  # of the process; what comes there after the address says that a browser is there

    def wait_until_opened(self, timeout_s: float) -> bool:
        """Wait until a browser shows the page, or its server has ended; False if neither happened in this time."""
        return bool(select.select([self._output], [], [], timeout_s)[0])

    def training(self, transport: str, state: TrainingState) -> None:
        """How training over a transport goes; never waits."""
        loss = state.loss if state.loss is not None and isfinite(state.loss) else None  # it diverged: JSON has no NaN
        line = strict_json.dumps([transport, state.step, state.planned, loss, state.step_ms]) + "\n"
        with contextlib.suppress(OSError):  # it is slow or gone
            os.write(self._descriptor, line.encode())


@contextlib.contextmanager
def web_beside(fabric: str, token_file: Path | None = None, recording: Path | None = None) -> Iterator[LiveViewProcess]:
    """Serve the page of a fabric that is up for as long as the body runs. ExperimentError if that cannot be.

    The page's token is that in `token_file`, or a new one. All that it shows is recorded into the file `recording`.
    """
    files = ["" if file is None else str(file) for file in (token_file, recording)]
    process = _start(fabric, *files, detached=False)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        os.set_blocking(process.stdin.fileno(), False)
        yield LiveViewProcess(_address(process), process.stdin.fileno(), process.stdout.fileno())
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def web_detached(fabric: str) -> str:
    """Serve the page of a fabric until it is taken down; returns the address. ExperimentError if that cannot be."""
    process = _start(fabric, detached=True)
    address = _address(process)
    process.returncode = 0  # it keeps running, and is not ours to wait for
    return address


def _start(fabric: str, *files: str, detached: bool) -> subprocess.Popen[str]:
    return children.popen(
        children.python("mrc_lab.web", fabric, "detached" if detached else "beside", *files),
        stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C is for the command, which then ends this
    )


def _address(process: subprocess.Popen[str]) -> str:
    """What the process prints first; ExperimentError if it is no address."""
    assert process.stdout is not None
    line = ""
    if select.select([process.stdout], [], [], _START_S)[0]:
        line = process.stdout.readline().strip()
    if not line.startswith("http"):
        process.kill()
        process.wait()
        raise ExperimentError(f"The page cannot be served: {line or 'its server does not start'}")
    return line
