"""The whole server in a thread, as ``python -m controller`` makes it, over links and switches that only remember."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from controller.events import Events
from controller.injector import FaultInjector
from controller.path_map.service import PathMapService
from controller.server import Listening, Server, make_server
from controller.service import ControllerService
from tests.controller.driven import Links, Switches
from tests.waiting import TIMEOUT_S
from topologies.fabric import Fabric

T = TypeVar("T")
TOKEN = "correct horse battery staple"


class Running:
    """A server that runs, and what is in it."""

    def __init__(self, fabric: Fabric, agents: str) -> None:
        self.links = Links(lambda: 0)
        self.switches = Switches()
        self.events = Events()
        self.injector = FaultInjector(fabric, self.switches, self.links, self.events)
        fleet: Any = self.switches
        links: Any = self.links
        self.service = ControllerService(
            fabric, fleet, links, events=self.events, injector=self.injector, agents=agents
        )
        self.path_map = PathMapService(fabric, "")
        self.server: Server | None = None
        self.loop = asyncio.new_event_loop()

    def leases(self) -> int:
        """How many are held."""
        return self.call(self.service.leases.total)

    def call(self, function: Callable[[], T]) -> T:
        """What a function returns that is called in the server's thread."""

        async def work() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(work(), self.loop).result(TIMEOUT_S)


@contextmanager
def running(fabric: Fabric, listening: Listening, *, ready: bool = True, agents: str = "") -> Iterator[Running]:
    """A server for as long as the body runs; what is wrong with `listening` is raised here."""
    one = Running(fabric, agents)
    started, stop = threading.Event(), asyncio.Event()
    failed: list[BaseException] = []

    async def serve() -> None:
        try:
            one.server = make_server(listening, one.service, one.path_map)
            await one.server.start()
            if ready:
                await one.server.ready()
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            started.set()
        await stop.wait()
        await one.server.stop(0)
        await one.injector.close(keep=False)
        await one.path_map.close()

    def work() -> None:
        try:
            one.loop.run_until_complete(serve())
        except BaseException:
            if not failed:
                raise

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert started.wait(30)
        if failed:
            raise failed[0]
        yield one
    finally:
        if not failed:
            one.loop.call_soon_threadsafe(stop.set)
        thread.join()
        one.loop.close()


def certificate(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = (
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"),
        *("-keyout", str(key), "-out", str(cert)),
    )
    try:
        subprocess.run(command, capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("openssl is not here to make a certificate")
    return cert, key


def token_file(folder: Path, token: str = TOKEN) -> Path:
    """A file with a token."""
    file = folder / "token"
    file.write_text(token + "\n")
    return file


def free_port() -> int:
    """A TCP port that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
