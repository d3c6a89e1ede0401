"""UNIX sockets that only those may use who shall: a listening one has its owner and mode before anybody can connect.

The mode of the file decides (unix(7)): connecting needs write permission. So it is bound under a umask that lets nobody
in, given to its group, opened to it, and only then listens. `listen` is for sockets that we accept on ourselves. Where
somebody else binds, `claim` first makes room at the path, and `allow_group` opens the file afterwards.
"""

from __future__ import annotations

import grp
import os
import socket
import stat
from pathlib import Path

MAX_PATH = 107  # bytes in sun_path
DEFAULT_GROUP = "mrc"
_LISTENS = 0x10000  # __SO_ACCEPTCON among the flags in /proc/net/unix


class SocketError(Exception):
    """A socket cannot be created; the message says why and what to do."""


def group_id(name: str) -> int | None:
    """Number of the group `name`; None for "", and for DEFAULT_GROUP where there is none. SocketError for others."""
    if not name:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        if name == DEFAULT_GROUP:
            return None
        raise SocketError(f"There is no group {name!r}: make it with `groupadd {name}`, or choose another.") from None


def listen(path: Path, kind: socket.SocketKind, *, group: int | None = None, backlog: int = 64) -> socket.socket:
    """A non-blocking listening socket at `path`, in place of one that a dead process left behind.

    Mode 0600, or 0660 for the group with number `group`. Raises SocketError.
    """
    claim(path, kind)
    sock = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        mask = os.umask(0o177)
        try:
            sock.bind(str(path))
        finally:
            os.umask(mask)
        if group is not None:
            allow_group(path, group)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise SocketError(f"Cannot listen at {path}: {error.strerror}.") from None
    except BaseException:
        sock.close()
        raise
    return sock


def allow_group(path: Path, group: int) -> None:
    """Let the members of a group use the socket at `path` as well as its owner, and nobody else. Raises OSError."""
    os.chown(path, -1, group, follow_symlinks=False)
    path.chmod(0o660)


def claim(path: Path, kind: socket.SocketKind) -> None:
    """Make room for a socket at `path`: one that a dead process left is removed, anything else there is an error.

    Asks the kernel who listens, so that a server here is not troubled; one in another network namespace is called.
    Raises SocketError.
    """
    if len(os.fsencode(path)) > MAX_PATH:
        raise SocketError(f"The socket path {path} is longer than {MAX_PATH} bytes: choose a shorter one.")
    try:
        if not path.parent.is_dir():
            raise SocketError(f"Cannot listen at {path}: there is no directory {path.parent}.")
        mode = path.lstat().st_mode
        if not stat.S_ISSOCK(mode):
            raise SocketError(f"{path} exists and is not a socket: remove it or choose another path.")
        if str(path) in listening() or not _is_stale(path, kind):
            raise SocketError(f"Another process listens at {path}: stop it or choose another path.")
        path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SocketError(f"Cannot listen at {path}: {error.strerror}.") from None


def _is_stale(path: Path, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            pass  # something lives there, if not ours
    return False


def listening() -> frozenset[str]:
    """Paths at which a process of this network namespace accepts clients, whosever it is; asks none of them."""
    lines = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    return frozenset(words[7] for words in lines if len(words) > 7 and int(words[3], 16) & _LISTENS)
