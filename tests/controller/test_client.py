"""How long the client waits for a change: while the controller answers anything, but not longer than one may take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from controller import client as client_module
from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.proto import controller_v1_pb2 as pb
from controller.proto import controller_v1_pb2_grpc as pb_grpc

LATER = 5  # checks, after which a change is done


class SlowController(pb_grpc.ControllerServicer, health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Clears faults once it has been `released`, and calls `checked` for each check of its health."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.checks = 0
        self.checked: Callable[[], object] = lambda: None

    def ClearFaults(self, request: Any, context: Any) -> pb.ClearFaultsResponse:  # noqa: N802 - gRPC's name
        self.released.wait()
        return pb.ClearFaultsResponse()

    def Check(self, request: Any, context: Any) -> health_pb2.HealthCheckResponse:  # noqa: N802 - gRPC's name
        self.checks += 1
        self.checked()
        return health_pb2.HealthCheckResponse()


@pytest.fixture
def slow() -> SlowController:
    return SlowController()


@pytest.fixture
def client(slow: SlowController, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ControllerClient]:
    """A client that waits this long for a controller that answers nothing: its parameter, in seconds."""
    server = grpc.server(ThreadPoolExecutor(4))
    pb_grpc.add_ControllerServicer_to_server(slow, server)  # type: ignore[no-untyped-call]
    health_pb2_grpc.add_HealthServicer_to_server(slow, server)
    server.add_insecure_port(f"unix:{tmp_path}/c.sock")
    server.start()
    try:
        with ControllerClient(tmp_path / "c.sock", timeout_s=getattr(request, "param", 0.2)) as connected:
            yield connected
    finally:
        slow.released.set()
        server.stop(0).wait()


@pytest.mark.parametrize("client", [1.0], indirect=True)  # what a busy machine may need for a check
def test_the_client_waits_for_a_change_while_the_controller_answers_health_checks(
    client: ControllerClient, slow: SlowController
) -> None:
    slow.checked = lambda: slow.checks < LATER or slow.released.set()
    assert client.clear_all().faults == ()
    assert slow.checks == LATER


def test_the_client_gives_up_on_a_controller_that_answers_nothing(
    client: ControllerClient, slow: SlowController
) -> None:
    slow.checked = lambda: slow.released.wait()
    with pytest.raises(ControllerError, match="does not answer now, but may go on with it: 'mrc fault list' shows"):
        client.clear_all()


def test_the_wait_for_a_change_is_bounded(client: ControllerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_LONGEST_CHANGE_S", 0.5)
    with pytest.raises(ControllerError, match=r"has not finished in 0\.7 s, but may go on with it: 'mrc fault list'"):
        client.clear_all()
