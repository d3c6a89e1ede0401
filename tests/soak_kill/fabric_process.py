"""The process that has the fabric up: ``python -m tests.soak_kill.fabric_process FILE SWITCH``.

It prints ``{"up": SECONDS}``, then restarts the process that each line of its standard input names, and answers
``{"restarted": NAME, "seconds": S}`` or ``{"error": SENTENCE}``. At the end of its input it takes the fabric down.
:class:`Owner` is the other side of that conversation.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path
from typing import Any

from mrc_common import children, strict_json
from mrc_lab.errors import ExperimentError
from topologies.emulation.processes import pdeathsig

_TIMEOUT_S = 120.0


def main(file: str, switch: str) -> int:
    """Own the fabric that `file` describes until standard input ends."""
    from mrc_lab.fabric.emulation import running
    from topologies import loader
    from topologies.emulation.errors import EmulationError

    try:
        with running(loader.load_file(file), switch=switch) as world:
            print(strict_json.dumps({"up": world.emulation.bring_up_s}), flush=True)
            for line in sys.stdin:
                name, began = line.strip(), time.monotonic()
                try:
                    world.restart(name)
                    answer: dict[str, Any] = {"restarted": name, "seconds": time.monotonic() - began}
                except EmulationError as error:
                    answer = {"error": str(error)}
                print(strict_json.dumps(answer), flush=True)
    except EmulationError as error:
        print(strict_json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


class Owner:
    """A running owner process. Made by :meth:`start`; `up_s` is how long the bring-up took."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.up_s = 0.0

    @classmethod
    async def start(cls, file: Path, switch: str) -> Owner:
        """Bring the fabric of `file` up; raises ExperimentError when it does not come up."""
        command = pdeathsig(children.python("tests.soak_kill.fabric_process", str(file), switch), "TERM")
        pipe = asyncio.subprocess.PIPE
        owner = cls(await children.start(command, stdin=pipe, stdout=pipe, start_new_session=True))
        try:
            owner.up_s = float((await owner._answer())["up"])
        except BaseException:
            await owner.ended()
            raise
        return owner

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def restart(self, name: str) -> float:
        """Have a process restarted; returns how long (s) it took, and raises ExperimentError when it failed."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n".encode())
        return float((await self._answer())["seconds"])

    async def take_down(self) -> None:
        """Have the fabric taken down, and wait for it."""
        await self.ended()

    async def ended(self) -> None:
        """Close its input and wait for the process to be gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.wait(), _TIMEOUT_S)
        with contextlib.suppress(ConnectionError):  # of one that was killed
            await self._process.stdin.wait_closed()
        await self._process.stdout.read()

    async def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), _TIMEOUT_S)
        try:
            answer = strict_json.loads(line)
        except ValueError:
            raise ExperimentError(
                f"the fabric's owner has ended: {line.decode(errors='replace') or 'silent'}"
            ) from None
        if "error" in answer:
            raise ExperimentError(answer["error"])
        found: dict[str, Any] = answer
        return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
