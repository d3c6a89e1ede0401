from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.client import ControllerClient
from controller.server import Listening
from tests.controller.p4runtime_stand_in import StandIn, serve
from tests.controller.serving import Running, running
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric


@pytest.fixture
def fabric() -> Fabric:
    return multi_plane_clos("ctltest", planes=2, t0=2, t1=2, hosts=4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a controller's socket."""
    return tmp_path / "c.sock"


@pytest.fixture
def one(fabric: Fabric, path: Path) -> Iterator[Running]:
    """A controller that runs."""
    with running(fabric, Listening(path)) as found:
        yield found


@pytest.fixture
def client(one: Running, path: Path) -> Iterator[ControllerClient]:
    """A client of it."""
    with ControllerClient(path) as connected:
        yield connected


@pytest.fixture
def stand_in(fabric: Fabric) -> StandIn:
    return StandIn(range(1, len(fabric.switches) + 1))


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/switches.sock"


@pytest.fixture
def serving(stand_in: StandIn, address: str) -> Iterator[Callable[[], None]]:
    """Start the stand-in when called; stopped at the end of the test."""
    servers = []

    def start() -> None:
        servers.append(serve(stand_in, address))

    yield start
    for server in servers:
        server.stop(0).wait()
