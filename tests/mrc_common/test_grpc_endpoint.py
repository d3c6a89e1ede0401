"""Where a gRPC server may listen: the rule for addresses, and what is refused before gRPC is asked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mrc_common.grpc_endpoint import EndpointError, EndpointSettings, GrpcEndpoint, read_token

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:50051", "example.org:1", "*:1"])
@pytest.mark.parametrize("missing", ["all", "token", "tls"])
def test_addresses_off_loopback_require_token_and_tls(address: str, missing: str) -> None:
    files = Path("token"), Path("cert.pem"), Path("key.pem")
    settings = {
        "all": EndpointSettings(),
        "token": EndpointSettings(None, *files[1:]),
        "tls": EndpointSettings(files[0]),
    }[missing]
    with pytest.raises(EndpointError, match="is reachable from the network"):
        GrpcEndpoint.prepare(address, settings, "switch")


@pytest.mark.parametrize("address", ["127.0.0.1:9559", "[::1]:9559", "localhost:1", "unix:/x", "unix-abstract:x"])
def test_loopback_addresses_require_nothing(address: str) -> None:
    prepared = GrpcEndpoint.prepare(address, EndpointSettings(), "switch")
    assert (prepared.interceptors, prepared.credentials) == ((), None)


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":80", "localhost:http", "localhost:65536", "x:-1"])
def test_invalid_addresses_are_reported(address: str) -> None:
    with pytest.raises(EndpointError, match="is no address to listen on: write it as localhost:9559"):
        GrpcEndpoint.prepare(address, EndpointSettings(), "switch")


@pytest.mark.parametrize("content", ["", "short", "\n" + TOKEN, "fifteen letters", "ümläute are out of order"])
def test_missing_and_weak_tokens_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(EndpointError, match="at least 16 printable ASCII characters"):
        read_token(file)
    with pytest.raises(EndpointError, match=r"cannot be read from .*: No such file"):
        read_token(tmp_path / "none")


@pytest.mark.parametrize("kind", [socket.SOCK_SEQPACKET, socket.SOCK_DGRAM])
def test_a_live_socket_of_another_type_is_not_replaced(tmp_path: Path, kind: socket.SocketKind) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX, kind) as live:
        live.bind(str(path))
        if kind is socket.SOCK_SEQPACKET:
            live.listen()
        with pytest.raises(EndpointError, match="Another process listens at"):
            GrpcEndpoint.prepare(f"unix:{path}", EndpointSettings(), "switch").check_free()
        assert path.is_socket()
