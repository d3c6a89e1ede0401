"""Where the P4Runtime server listens, and who may use it; the rule is the controller's.

On a UNIX socket the file's permissions decide: 0600, the user who started the switch. On a loopback address every user
of the machine may come in, unless a token is wanted; that is how BMv2's clients expect it. Anything else is the
network: that takes a token and TLS, or it is refused, whatever name the switch was started under.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from mrc_common.grpc_guards import TokenCheck
from p4runtime_shim.config import ListenSettings

MIN_TOKEN = 16


class ListenError(Exception):
    """It cannot, or must not, listen there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Listening:
    """What a server needs before it is made (`interceptors`) and to be bound (`bind`)."""

    address: str
    interceptors: tuple[Any, ...]
    credentials: Any

    @classmethod
    def prepare(cls, address: str, settings: ListenSettings) -> Listening:
        """Check everything and read the files; ListenError."""
        if settings.is_incomplete:
            raise ListenError("TLS needs both a certificate and its key: give --tls-cert and --tls-key")
        local = address.startswith(("unix:", "unix-abstract:"))
        if local and (settings.token_file or settings.tls_cert):
            raise ListenError(
                "a token and TLS are for HOST:PORT; who may use a UNIX socket is up to its file's permissions"
            )
        if not local and not _is_loopback(address) and not (settings.token_file and settings.tls_cert):
            raise ListenError(
                f"listening on {address} lets the network in, which needs a token and TLS: give --token-file,"
                " --tls-cert and --tls-key, or an address on loopback like 127.0.0.1:9559"
            )
        token = None if settings.token_file is None else _read_token(settings.token_file)
        guards = () if token is None else (TokenCheck(token, "switch"),)
        return cls(address, guards, _credentials(settings))

    def bind(self, server: Any) -> str:
        """Bind the server; the address it has, with the port number filled in when 0 was asked for."""
        if self.address.startswith("unix:"):
            _claim_socket(Path(self.address[len("unix:") :].removeprefix("//")))
        elif not self.address.startswith("unix-abstract:"):
            _check_port(self.address)
        before = os.umask(0o177)  # a UNIX socket is never open to others, not for a moment
        try:
            port = self._add_port(server)
        finally:
            os.umask(before)
        if not port:
            hint = "; are certificate and key PEM files that match?" if self.credentials else "; see --grpc-server-addr"
            raise ListenError(f"cannot listen on {self.address}{hint}")
        if self.address.startswith("unix"):
            return self.address
        return f"{self.address.rpartition(':')[0]}:{port}"

    def _add_port(self, server: Any) -> int:
        try:
            if self.credentials is None:
                return int(server.add_insecure_port(self.address))
            return int(server.add_secure_port(self.address, self.credentials))
        except RuntimeError:
            return 0


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_token(file: Path) -> str:
    """The first line of a file, 16 characters or more."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise ListenError(f"cannot read the token from {file}: {_why(error)}") from None
    token = lines[0].strip() if lines else ""
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise ListenError(f"the token in {file} must have at least {MIN_TOKEN} printable ASCII characters")
    return token


def _credentials(settings: ListenSettings) -> Any:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        pair = settings.tls_key.read_bytes(), settings.tls_cert.read_bytes()
        roots = None if settings.tls_client_ca is None else settings.tls_client_ca.read_bytes()
    except OSError as error:
        raise ListenError(f"cannot read {error.filename}: {_why(error)}") from None
    return grpc.ssl_server_credentials([pair], roots, settings.tls_client_auth)


def _check_port(address: str) -> None:
    """Ask the kernel first: gRPC's own complaint is a page long."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ListenError(
                f"address {address} is in use; stop the other server or choose another with --grpc-server-addr"
            ) from None
        raise ListenError(f"cannot listen on {address}: {_why(error)}") from None


def _claim_socket(path: Path) -> None:
    """Make room for a UNIX socket: a stale one is removed, a live one and anything else are not."""
    if not path.parent.is_dir():
        raise ListenError(f"cannot listen on {path}: there is no directory {path.parent}")
    if len(os.fsencode(path)) > 107:
        raise ListenError(f"cannot listen on {path}: a UNIX socket's path has at most 107 bytes")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"cannot listen on {path}: a file with this name exists and is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise ListenError(f"address unix:{path} is in use; stop the other server or choose another path")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
