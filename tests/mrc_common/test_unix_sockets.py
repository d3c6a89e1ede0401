"""Listening UNIX sockets: who may connect, and what stands in the way."""

from __future__ import annotations

import grp
import os
import socket
import stat
from pathlib import Path

import pytest

from mrc_common.unix_sockets import DEFAULT_GROUP, SocketError, allow_group, claim, group_id, listen, listening


def test_a_socket_is_private_or_group_accessible_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with (
            listen(tmp_path / "own", socket.SOCK_STREAM),
            listen(tmp_path / "shared", socket.SOCK_SEQPACKET, group=os.getegid()),
        ):
            own, shared = (tmp_path / "own").stat(), (tmp_path / "shared").stat()
        assert os.umask(0) == 0, "the umask is put back"
    finally:
        os.umask(before)
    assert stat.S_IMODE(own.st_mode) == 0o600
    assert (stat.S_IMODE(shared.st_mode), shared.st_gid) == (0o660, os.getegid())


def test_an_existing_socket_is_made_accessible_to_a_group(tmp_path: Path) -> None:
    path = tmp_path / "made"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
        path.chmod(0o777)
        allow_group(path, os.getegid())
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_groups_are_found_by_name() -> None:
    own = grp.getgrgid(os.getegid())
    assert group_id(own.gr_name) == own.gr_gid
    assert group_id("") is None
    with pytest.raises(SocketError, match="groupadd no-such-group"):
        group_id("no-such-group")


def test_the_default_group_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(grp, "getgrnam", none)
    assert group_id(DEFAULT_GROUP) is None
    with pytest.raises(SocketError):
        group_id("other")


def test_obstacles_to_listening_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listen(path, socket.SOCK_STREAM), pytest.raises(SocketError, match="Another process listens"):
        listen(path, socket.SOCK_STREAM)
    listen(path, socket.SOCK_STREAM).close()  # in place of one that nobody listens at any more
    path.unlink()
    path.write_text("precious")
    with pytest.raises(SocketError, match="is not a socket"):
        listen(path, socket.SOCK_STREAM)
    assert path.read_text() == "precious"
    with pytest.raises(SocketError, match="longer than 107"):
        listen(tmp_path / ("x" * 120), socket.SOCK_STREAM)


def test_checking_for_a_live_server_does_not_connect_to_it(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listen(path, socket.SOCK_STREAM) as waiting:
        with pytest.raises(SocketError, match="Another process listens"):
            claim(path, socket.SOCK_STREAM)
        with pytest.raises(BlockingIOError):
            waiting.accept()


def test_listening_sockets_are_distinguished_from_bound_and_absent_ones(tmp_path: Path) -> None:
    path = str(tmp_path / "meet")
    assert path not in listening()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert path not in listening()
        server.listen()
        assert path in listening()
