"""The address that the P4Runtime server listens on, and its access control; the rule is the same as the controller's.

Access to a UNIX socket is up to the file's permissions: 0600, the user who started the switch. A loopback address is
open to every user of the machine, as BMv2's clients expect, unless a token is set. Any other address is reachable from
the network and requires a token and TLS, whatever name the switch was started under.
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
from p4runtime_shim.config import EndpointSettings

MIN_TOKEN = 16


class EndpointError(Exception):
    """The server cannot, or must not, listen there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked address: `interceptors` for the server's constructor, then `bind`."""

    address: str
    interceptors: tuple[Any, ...]
    credentials: Any

    @classmethod
    def prepare(cls, address: str, settings: EndpointSettings) -> Endpoint:
        """Check the settings and read the files; raises EndpointError."""
        if settings.is_incomplete:
            raise EndpointError("TLS needs both a certificate and its key: give --tls-cert and --tls-key")
        local = address.startswith(("unix:", "unix-abstract:"))
        if local and (settings.token_file or settings.tls_cert):
            raise EndpointError(
                "a token and TLS are for HOST:PORT; access to a UNIX socket is controlled by the file's permissions"
            )
        if not local and not _is_loopback(address) and not (settings.token_file and settings.tls_cert):
            raise EndpointError(
                f"{address} is reachable from the network, which requires a token and TLS: give --token-file,"
                " --tls-cert and --tls-key, or an address on loopback like 127.0.0.1:9559"
            )
        token = None if settings.token_file is None else _read_token(settings.token_file)
        guards = () if token is None else (TokenCheck(token, "switch"),)
        return cls(address, guards, _credentials(settings))

    def bind(self, server: Any) -> str:
        """Bind the server; returns its address, with the actual port number if 0 was requested."""
        if self.address.startswith("unix:"):
            _claim_socket(Path(self.address[len("unix:") :].removeprefix("//")))
        elif not self.address.startswith("unix-abstract:"):
            _check_port(self.address)
        before = os.umask(0o177)  # a UNIX socket must never be open to others, not even briefly
        try:
            port = self._add_port(server)
        finally:
            os.umask(before)
        if not port:
            hint = "; are certificate and key PEM files that match?" if self.credentials else "; see --grpc-server-addr"
            raise EndpointError(f"cannot listen on {self.address}{hint}")
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
    """The first line of a file, at least 16 characters."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise EndpointError(f"cannot read the token from {file}: {_why(error)}") from None
    token = lines[0].strip() if lines else ""
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise EndpointError(f"the token in {file} must have at least {MIN_TOKEN} printable ASCII characters")
    return token


def _credentials(settings: EndpointSettings) -> Any:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        pair = settings.tls_key.read_bytes(), settings.tls_cert.read_bytes()
        roots = None if settings.tls_client_ca is None else settings.tls_client_ca.read_bytes()
    except OSError as error:
        raise EndpointError(f"cannot read {error.filename}: {_why(error)}") from None
    return grpc.ssl_server_credentials([pair], roots, settings.tls_client_auth)


def _check_port(address: str) -> None:
    """Try to bind first: gRPC's own error message is a page long."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise EndpointError(
                f"address {address} is in use; stop the other server or choose another with --grpc-server-addr"
            ) from None
        raise EndpointError(f"cannot listen on {address}: {_why(error)}") from None


def _claim_socket(path: Path) -> None:
    """Remove a stale UNIX socket; a live one, or any other file, is an error."""
    if not path.parent.is_dir():
        raise EndpointError(f"cannot listen on {path}: the directory {path.parent} does not exist")
    if len(os.fsencode(path)) > 107:
        raise EndpointError(f"cannot listen on {path}: a UNIX socket's path has at most 107 bytes")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise EndpointError(f"cannot listen on {path}: a file with this name exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise EndpointError(f"address unix:{path} is in use; stop the other server or choose another path")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
