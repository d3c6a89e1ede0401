"""Owners of interfaces: which fabric one belongs to, and whether that is alive, from kernel objects instead of files.

Run directories are files, and another mount namespace has others, though it may share the network namespace and so see
the interfaces of a fabric of whose directory it knows nothing. So every link of a fabric bears a *mark* in its alias
(``ip link`` shows it; only CAP_NET_ADMIN may set it): the fabric's name and a random word. Under that word the owner
listens on an abstract UNIX socket, which belongs to the network namespace as the interfaces do and vanishes with the
process, however that ends. Somebody listens: the fabric is up, wherever its files are. Nobody does: it is a leftover.

The word is random so that nobody can occupy it before, and a listener of another user than root or the caller does not
count. The socket is only asked whether it is there; nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MARK = re.compile(r"mrc-testbed fabric=([a-z][a-z0-9-]{0,31}) owner=([0-9a-f]{16})")
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid (unix(7), SO_PEERCRED)


@dataclass(frozen=True, slots=True)
class Mark:
    """What the alias of an interface says: the fabric that it is part of, and the word of who brought it up."""

    fabric: str
    word: str

    def __str__(self) -> str:
        return f"mrc-testbed fabric={self.fabric} owner={self.word}"


def parse(alias: str | None) -> Mark | None:
    """The mark that an interface's alias is; None for any other alias and for none."""
    found = _MARK.fullmatch(alias or "")
    return Mark(found[1], found[2]) if found else None


@contextlib.contextmanager
def claimed(fabric: str) -> Iterator[Mark]:
    """A mark for the links of `fabric` in the caller's network namespace; its owner counts as alive until the end."""
    mark = Mark(fabric, secrets.token_hex(8))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address(mark))
        listener.listen()
        yield mark


def owner(mark: Mark) -> int | None:
    """Process id of the owner of a mark, None when it has ended; 0 for one that cannot be seen from here.

    Asks in the caller's network namespace, where the interface with the mark must be.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(address(mark))
        except BlockingIOError:  # so many are asking that the queue is full
            return 0
        except OSError:
            return None
        pid, uid, _ = _CREDENTIALS.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid if uid in (0, os.geteuid()) else None


def address(mark: Mark) -> bytes:
    """The abstract socket on which the owner of what bears this mark listens."""
    return f"\0mrc-testbed/{mark.word}".encode()
