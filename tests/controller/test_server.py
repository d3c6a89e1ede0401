"""Who may come in: UNIX socket, loopback, TLS, token; and health and reflection for who may."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.server import MAP_SERVICE, SERVICE, Listening, make_server
from tests.controller.serving import TOKEN, Running, certificate, free_port, running, token_file
from tests.waiting import TIMEOUT_S
from topologies.fabric import Fabric

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def guarded(fabric: Fabric, tmp_path: Path, pair: tuple[Path, Path]) -> Iterator[tuple[str, Running]]:
    """The address of a server with TLS and a token."""
    address = f"localhost:{free_port()}"
    with running(fabric, Listening(None, address, token_file(tmp_path), *pair)) as one:
        yield address, one


def refused(client: ControllerClient) -> str:
    with client, pytest.raises(ControllerError) as caught:
        client.faults()
    text = str(caught.value)
    assert "\n" not in text
    return text


# ---- token and TLS


def test_with_token_and_certificate_everything_works(guarded: tuple[str, Running], pair: tuple[Path, Path]) -> None:
    address, one = guarded
    with ControllerClient(address, token=TOKEN, tls_ca=pair[0]) as client:
        fault = client.link_down("h1@p0")
        assert client.faults() == [fault]
        with client.lease("me"), client.events() as events:
            assert next(events).kind.value == "subscribed"
            client.link_down("h2@p0", owner="me")
    assert one.links.down >= {"h1@p0"}


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1], TOKEN.upper(), " " + TOKEN])
def test_a_wrong_token_is_refused_with_a_message(
    guarded: tuple[str, Running], pair: tuple[Path, Path], token: str
) -> None:
    address, one = guarded
    wanted = "The controller wants a token: give the file it was started with."
    assert refused(ControllerClient(address, token=token, tls_ca=pair[0])) == wanted
    with ControllerClient(address, token=token, tls_ca=pair[0]) as client:
        with pytest.raises(ControllerError, match="wants a token"), client.lease("me"):
            pass
        with client.events() as events, pytest.raises(ControllerError, match="wants a token"):
            next(events)
    assert one.leases() == 0


def test_a_client_without_tls_is_refused(guarded: tuple[str, Running]) -> None:
    assert "or does it want TLS" in refused(ControllerClient(guarded[0], token=TOKEN, timeout_s=TIMEOUT_S))


def test_an_unknown_certificate_is_rejected(guarded: tuple[str, Running], tmp_path: Path) -> None:
    other, _ = certificate(tmp_path)
    assert "another certificate than" in refused(
        ControllerClient(guarded[0], token=TOKEN, tls_ca=other, timeout_s=TIMEOUT_S)
    )


def test_connecting_with_tls_to_a_plain_server_is_reported(fabric: Fabric, pair: tuple[Path, Path]) -> None:
    address = f"localhost:{free_port()}"
    with running(fabric, Listening(None, address)):
        assert "does not use TLS" in refused(ControllerClient(address, tls_ca=pair[0], timeout_s=TIMEOUT_S))
    assert "does not answer: is it up?" in refused(ControllerClient(address, tls_ca=pair[0], timeout_s=3))


def test_an_invalid_certificate_file_is_reported(guarded: tuple[str, Running], tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    with pytest.raises(ControllerError, match=r"nothing.pem cannot be read: No such file"):
        ControllerClient(guarded[0], token=TOKEN, tls_ca=nothing)


def test_a_unix_socket_is_private_and_needs_no_token(fabric: Fabric, tmp_path: Path) -> None:
    path, address = tmp_path / "c.sock", f"127.0.0.1:{free_port()}"
    with running(fabric, Listening(path, address, token_file(tmp_path))):
        assert path.stat().st_mode & 0o777 == 0o600
        assert "wants a token" in refused(ControllerClient(address))
        with ControllerClient(path) as client, ControllerClient(address, token=TOKEN) as other:
            fault = client.link_down("h1@p0")
            assert other.faults() == [fault]


@pytest.mark.parametrize("given", ["token", "tls"])
def test_a_token_or_tls_without_an_address_is_refused(tmp_path: Path, pair: tuple[Path, Path], given: str) -> None:
    more = (token_file(tmp_path),) if given == "token" else (None, *pair)
    with pytest.raises(ControllerError, match="A token and TLS are for --listen"):
        Listening(tmp_path / "c.sock", "", *more).check()


def test_loopback_needs_neither_token_nor_tls(fabric: Fabric) -> None:
    address = f"127.0.0.1:{free_port()}"
    with running(fabric, Listening(None, address)), ControllerClient(address) as client:
        assert client.faults() == []


# ---- refused to begin with


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "example.invalid", "*"])
@pytest.mark.parametrize("given", ["nothing", "token", "tls"])
def test_other_addresses_need_both_token_and_tls(
    tmp_path: Path, pair: tuple[Path, Path], host: str, given: str
) -> None:
    token = token_file(tmp_path) if given == "token" else None
    files = pair if given == "tls" else (None, None)
    with pytest.raises(ControllerError) as caught:
        Listening(None, f"{host}:9559", token, *files).check()
    assert re.fullmatch(
        r"\S+:9559 is reachable from the network, which requires a token and TLS: .*\.", str(caught.value)
    )


def test_with_token_and_tls_any_address_is_accepted(fabric: Fabric, tmp_path: Path, pair: tuple[Path, Path]) -> None:
    Listening(None, f"0.0.0.0:{free_port()}", token_file(tmp_path), *pair).check()


def test_tls_needs_both_certificate_and_key(pair: tuple[Path, Path]) -> None:
    with pytest.raises(ControllerError, match="TLS needs both"):
        Listening(None, "localhost:1", None, pair[0]).check()


def test_a_port_in_use_is_reported(fabric: Fabric) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ControllerError, match=f"Cannot listen on {address}: it is in use"):
            Listening(None, address).check()


def begin(fabric: Fabric, listening: Listening) -> None:
    with running(fabric, listening):
        pass


def test_a_key_that_does_not_match_its_certificate_is_reported(
    fabric: Fabric, tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    _, key = certificate(tmp_path)
    address = f"localhost:{free_port()}"
    with pytest.raises(ControllerError, match="are certificate and key PEM files that match"):
        begin(fabric, Listening(None, address, None, pair[0], key))
    with pytest.raises(ControllerError, match=r"gone\.pem cannot be read"):
        begin(fabric, Listening(None, address, None, tmp_path / "gone.pem", key))


def test_only_a_stale_socket_is_replaced(fabric: Fabric, tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with running(fabric, Listening(path)), pytest.raises(ControllerError, match="Another process listens at"):
        begin(fabric, Listening(path))
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(ControllerError, match="is not a socket"):
        begin(fabric, Listening(file))
    assert file.read_text() == "precious"
    with pytest.raises(ControllerError, match="there is no directory"):
        begin(fabric, Listening(tmp_path / "no" / "c.sock"))
    with pytest.raises(ControllerError, match="107 bytes"):
        begin(fabric, Listening(tmp_path / ("x" * 108)))
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
    with running(fabric, Listening(stale)), ControllerClient(stale) as client:
        assert client.faults() == []


# ---- health and reflection


def stub(kind: Any, channel: grpc.Channel) -> Any:
    return kind(channel)


def health(channel: grpc.Channel, service: str = "", **more: Any) -> Any:
    check = stub(health_pb2_grpc.HealthStub, channel).Check
    return check(health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT_S, **more).status


def test_health_is_serving_once_the_switches_are_verified(fabric: Fabric, tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with running(fabric, Listening(path), ready=False) as one, grpc.insecure_channel(f"unix:{path}") as channel:
        assert {health(channel, name) for name in ("", SERVICE, MAP_SERVICE)} == {NOT_SERVING}
        watch = stub(health_pb2_grpc.HealthStub, channel).Watch(health_pb2.HealthCheckRequest(service=SERVICE))
        assert next(watch).status == NOT_SERVING
        assert one.server is not None
        asyncio.run_coroutine_threadsafe(one.server.ready(), one.loop).result(TIMEOUT_S)
        assert next(watch).status == SERVING
        assert {health(channel, name) for name in ("", SERVICE, MAP_SERVICE)} == {SERVING}
        with pytest.raises(grpc.RpcError) as caught:
            health(channel, "nothing.v1")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_reflection_lists_services_and_messages(fabric: Fabric, tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with running(fabric, Listening(path)), grpc.insecure_channel(f"unix:{path}") as channel:
        ask = stub(reflection_pb2_grpc.ServerReflectionStub, channel).ServerReflectionInfo
        requests = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
        ]
        listed, file = ask(iter(requests), timeout=TIMEOUT_S)
    names = {service.name for service in listed.list_services_response.service}
    assert {SERVICE, MAP_SERVICE, "grpc.health.v1.Health"} <= names
    assert b"HoldLease" in file.file_descriptor_response.file_descriptor_proto[0]


def test_health_and_reflection_require_the_token(guarded: tuple[str, Running], pair: tuple[Path, Path]) -> None:
    credentials = grpc.ssl_channel_credentials(pair[0].read_bytes())
    with grpc.secure_channel(guarded[0], credentials) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            health(channel)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert health(channel, metadata=(("authorization", f"Bearer {TOKEN}"),)) == SERVING
        ask = stub(reflection_pb2_grpc.ServerReflectionStub, channel).ServerReflectionInfo
        with pytest.raises(grpc.RpcError) as caught:
            next(ask(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=TIMEOUT_S))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/no.such.Service/Method")(b"", timeout=TIMEOUT_S)
        assert caught.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED)


def test_an_insecure_network_address_is_refused() -> None:
    with pytest.raises(ControllerError, match="is reachable from the network"):
        make_server(Listening(None, "0.0.0.0:1"), None, None)
