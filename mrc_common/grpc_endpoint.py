"""Listening addresses of a gRPC server, and who may use it: one rule for the controller and for the switch.

Access to a UNIX socket is up to the file's permissions: 0600, the user who started the server. A loopback address is
open to every user of the machine unless a token is set. Any other address is reachable from the network and requires a
token and TLS. `GrpcEndpoint.prepare` checks that much and reads the files, `GrpcEndpoint.bind` takes the address for a
server; both have short error messages, where gRPC's own message would be a page long.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc_common import named_files, unix_sockets

MIN_TOKEN = 16  # characters
MAX_KEY_FILE = 1 << 20  # bytes of a file with a token, a key or certificates


class EndpointError(Exception):
    """The server cannot, or must not, listen there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Access control of an address: files with token, TLS certificate and key, and the CA of client certificates."""

    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None  # CA certificates for client certificates
    tls_client_auth: bool = False  # require a client certificate

    @property
    def is_incomplete(self) -> bool:
        """True for a certificate without its key or vice versa, or client authentication without a certificate."""
        client_auth = self.tls_client_ca is not None or self.tls_client_auth
        return (self.tls_cert is None) != (self.tls_key is None) or (client_auth and self.tls_cert is None)


@dataclass(frozen=True, slots=True)
class GrpcEndpoint:
    """A checked address: `interceptors` for the server's constructor, then `bind`."""

    address: str
    interceptors: tuple[Any, ...]
    credentials: Any

    @classmethod
    def prepare(cls, address: str, settings: EndpointSettings, server: str) -> GrpcEndpoint:
        """Check the settings and read the files; clients without the token learn that the `server` wants one.

        `address`: ``unix:PATH``, ``unix-abstract:NAME`` or ``HOST:PORT``. Raises EndpointError.
        """
        check_settings(address, settings)
        if settings.token_file is None:
            return cls(address, (), _credentials(settings))
        from mrc_common.grpc_guards import TokenCheck  # loads gRPC: settings are read without it

        return cls(address, (TokenCheck(read_token(settings.token_file), server),), _credentials(settings))

    def check_free(self) -> None:
        """Try whether the address can be listened on, and remove the socket that a dead process left there.

        Raises EndpointError.
        """
        if self.address.startswith("unix:"):
            try:
                unix_sockets.claim(Path(self.address[len("unix:") :].removeprefix("//")), socket.SOCK_STREAM)
            except unix_sockets.SocketError as error:
                raise EndpointError(str(error)) from None
        elif not _is_unix(self.address):
            check_port_free(self.address)

    def bind(self, server: Any) -> str:
        """Bind a ``grpc.aio`` server; returns its address, with the actual port number if 0 was requested.

        Raises EndpointError.
        """
        self.check_free()
        before = os.umask(0o177)  # a UNIX socket must never be open to others, not even briefly
        try:
            port = self._add_port(server)
        finally:
            os.umask(before)
        if not port:
            hint = ": are certificate and key PEM files that match?" if self.credentials else "."
            raise EndpointError(f"Cannot listen on {self.address}{hint}")
        return self.address if _is_unix(self.address) else f"{self.address.rpartition(':')[0]}:{port}"

    def _add_port(self, server: Any) -> int:
        try:
            if self.credentials is None:
                return int(server.add_insecure_port(self.address))
            return int(server.add_secure_port(self.address, self.credentials))
        except RuntimeError:
            return 0


def check_settings(address: str, settings: EndpointSettings) -> None:
    """Raises EndpointError where a server with these settings must not listen, or cannot as they are incomplete."""
    if settings.is_incomplete:
        raise EndpointError("TLS needs both a certificate and its key: give --tls-cert and --tls-key.")
    if _is_unix(address):
        if settings.token_file or settings.tls_cert:
            raise EndpointError(
                "A token and TLS are for HOST:PORT: access to a UNIX socket is up to its file's permissions."
            )
    elif not is_loopback(split_address(address)[0]) and not (settings.token_file and settings.tls_cert):
        raise EndpointError(
            f"{address} is reachable from the network, which requires a token and TLS: give --token-file,"
            f" --tls-cert and --tls-key, or an address on loopback like 127.0.0.1:{split_address(address)[1]}."
        )


def read_token(file: Path) -> str:
    """The first line of a file, at least MIN_TOKEN printable ASCII characters. EndpointError otherwise."""
    try:
        lines = named_files.read_text(file, MAX_KEY_FILE).splitlines()
    except (OSError, UnicodeError) as error:
        raise EndpointError(f"The token cannot be read from {file}: {_why(error)}.") from None
    token = lines[0].strip() if lines else ""
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise EndpointError(f"The token in {file} must have at least {MIN_TOKEN} printable ASCII characters.")
    return token


def _is_unix(address: str) -> bool:
    return address.startswith(("unix:", "unix-abstract:"))


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT`` or ``[HOST]:PORT``; EndpointError otherwise."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise EndpointError(f"{address!r} is no address to listen on: write it as localhost:9559 or [::1]:9559.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address, given as such or as ``localhost``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _credentials(settings: EndpointSettings) -> Any:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    import grpc

    read = named_files.read_bytes
    try:
        pair = read(settings.tls_key, MAX_KEY_FILE), read(settings.tls_cert, MAX_KEY_FILE)
        roots = None if settings.tls_client_ca is None else read(settings.tls_client_ca, MAX_KEY_FILE)
    except OSError as error:
        raise EndpointError(f"{error.filename} cannot be read: {_why(error)}.") from None
    return grpc.ssl_server_credentials([pair], roots, settings.tls_client_auth)


def check_port_free(address: str) -> None:
    """Raises EndpointError if nothing can listen on an address ``HOST:PORT`` now."""
    host, port = split_address(address)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        in_use = "it is in use; stop the other server or choose another address"
        why = in_use if error.errno == errno.EADDRINUSE else _why(error)
        raise EndpointError(f"Cannot listen on {address}: {why}.") from None


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
