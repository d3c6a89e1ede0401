"""An agent that answers every request alike and does what a test wants when work is posted."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.protocol import MessageKind

# A client looks for keys, so one answer serves all requests.
ANSWER = {"address": "fd00::1", "result": 7, "path_mtu": 4096, "lkey": 1, "rkey": 2, "port": 0, "up": True}


class FakeAgent:
    """Answers every request; `on_post` is called with the socket at each message of posts, and ends it if False.

    A request for the verb `ends_at` ends the connection, too.
    """

    def __init__(self, path: Path, on_post: Callable[[socket.socket], bool], ends_at: str) -> None:
        self.path = path
        self.posts = 0  # records received
        self._on_post = on_post
        self._ends_at = f'"op":"{ends_at}"'.encode()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen()

    def serve(self) -> None:
        with self._listener:
            while True:
                try:
                    sock, _ = self._listener.accept()
                except OSError:
                    return
                threading.Thread(target=self._client, args=(sock,), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)

    def _client(self, sock: socket.socket) -> None:
        with sock:
            while message := sock.recv(protocol.MAX_MESSAGE):
                kind, _, request = protocol.unpack_header(message)
                if kind == MessageKind.POST:
                    self.posts += (len(message) - protocol.HEADER.size) // protocol.POST_SIZE
                    if not self._on_post(sock):
                        return
                elif self._ends_at in message:
                    return
                elif kind in (MessageKind.HELLO, MessageKind.REQUEST):
                    answer = MessageKind.HELLO if kind == MessageKind.HELLO else MessageKind.REPLY
                    for part in protocol.pack_json(answer, request, ANSWER):
                        sock.send(part)


@contextmanager
def agent(folder: Path, on_post: Callable[[socket.socket], bool], ends_at: str = "none") -> Iterator[FakeAgent]:
    fake = FakeAgent(folder / "a.sock", on_post, ends_at)
    thread = threading.Thread(target=fake.serve, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.close()
        thread.join()


def run(program: Path, case: str, fake: FakeAgent) -> str:
    """What the program says on its standard error; it must succeed."""
    words = [program, case, fake.path, fake.path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr
