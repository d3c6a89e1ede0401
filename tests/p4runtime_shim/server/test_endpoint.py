"""Where the switch listens and who may come in, under its own name and under BMv2's."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from mrc_common import children
from p4runtime_shim.config import ConfigError, default_address

ROOT = Path(__file__).parents[3]
TOKEN = "0123456789abcdef"


@pytest.fixture
def tls(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and the wildcard address, and its key."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    children.run(command, check=True, capture_output=True)
    return cert, key


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return file


@contextlib.contextmanager
def started(folder: Path, *arguments: str, name: str = "p4runtime_shim") -> Iterator[tuple[str, str]]:
    """A running switch under a name; its address and its standard error."""
    script = folder / name
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom p4runtime_shim.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    errors = folder / "errors"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [script, "--no-p4", *arguments],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), errors.read_text()
        yield dict(word.partition("=")[::2] for word in line.split()[1:])["grpc"], errors.read_text()
    finally:
        process.terminate()
        process.wait(10)


def ask(channel: grpc.Channel, **options: object) -> str:
    answer = p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), **options)
    version: str = answer.p4runtime_api_version
    return version


def test_the_default_endpoint_is_a_private_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with started(tmp_path, "--grpc-server-addr", f"unix:{path}"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with grpc.insecure_channel(f"unix:{path}") as channel:
            assert ask(channel)


def test_the_default_socket_is_in_run_or_the_users_runtime_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_address(7, {}) == "unix:/run/p4runtime_shim-7.sock"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_address(0, {"XDG_RUNTIME_DIR": "/run/user/1000"}) == "unix:/run/user/1000/p4runtime_shim-0.sock"
    with pytest.raises(ConfigError, match="--grpc-server-addr"):
        default_address(0, {})


def test_clients_with_token_and_certificate_are_accepted(tmp_path: Path, tls: tuple[Path, Path], token: Path) -> None:
    cert, key = tls
    words = ("--token-file", str(token), "--tls-cert", str(cert), "--tls-key", str(key))
    with started(tmp_path, "--grpc-server-addr", "0.0.0.0:0", *words) as (address, _):
        port = address.rpartition(":")[2]
        credentials = grpc.ssl_channel_credentials(cert.read_bytes())
        with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            assert ask(channel, metadata=(("authorization", f"Bearer {TOKEN}"),))
            stub = p4r_grpc.P4RuntimeStub(channel)
            for call in (
                lambda: ask(channel),
                lambda: ask(channel, metadata=(("authorization", "Bearer wrong-wrong-wrong"),)),
                lambda: next(stub.StreamChannel(iter([p4r.StreamMessageRequest()]))),
                lambda: next(stub.Read(p4r.ReadRequest())),
            ):
                with pytest.raises(grpc.RpcError) as caught:
                    call()
                assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError):
            ask(channel, timeout=2)


@pytest.mark.parametrize("given", [(), ("--", "--grpc-server-addr", "0.0.0.0:{port}")])
def test_as_simple_switch_grpc_it_listens_on_loopback_without_a_token(tmp_path: Path, given: tuple[str, ...]) -> None:
    """BMv2's own default is every address of the machine, and the tutorials say 0.0.0.0:50051."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [word.format(port=port) for word in given] or ["--grpc-server-addr", f"127.0.0.1:{port}"]
    with started(tmp_path, *words, name="simple_switch_grpc") as (address, errors):
        assert address == f"127.0.0.1:{port}"
        assert ("--tls-cert" in errors) == bool(given)
        with grpc.insecure_channel(address) as channel:
            assert ask(channel)
        listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        assert f"0100007F:{port:04X}" in listening
        assert f"00000000:{port:04X}" not in listening
