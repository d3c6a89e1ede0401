"""Two agents on fake NICs, served by one loop in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_host.agent.server import AgentServer
from mrc_host.back_to_back import nic_config
from mrc_host.driver.loop import Loop
from mrc_host.verbs import Context
from mrc_host.verbs.remote.connection import control_socket
from tests.mrc_host.fake_nic import FakeNic, Wire


class Agents:
    """The agents of `h1` and `h2`; their NICs may only be touched through `call`.

    With `split` each has a socket for its controller besides.
    """

    def __init__(self, folder: Path, *, split: bool = False, group: int | None = None) -> None:
        self.loop = Loop()
        self.call = self.loop.call
        self.wire = Wire()
        self.nics = [FakeNic(nic_config(i), self.wire) for i in range(2)]
        self.paths = [folder / f"{nic.config.name}.sock" for nic in self.nics]
        self.servers = [
            AgentServer(nic, self.loop, path, control=control_socket(path) if split else None, group=group)
            for nic, path in zip(self.nics, self.paths, strict=True)
        ]
        self.applications: list[Context] = []  # closed in the end, and not whenever Python finds them
        for server in self.servers:
            server.start()
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        self._thread.start()

    def turn(self) -> None:
        """Return once the loop has been round, so that everything sent before was taken in."""
        for _ in range(3):
            self.call(lambda: None, 10)

    def stop(self) -> None:
        """End applications and both agents."""
        for application in self.applications:
            application.close()
        for server in self.servers:
            self.call(server.close, 10)
        self.loop.stop()
        self._thread.join(10)
        self.loop.close()


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    agents = Agents(tmp_path)
    yield agents
    agents.stop()
