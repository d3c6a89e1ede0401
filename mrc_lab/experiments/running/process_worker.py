"""A worker process of ``process_pool``: ``python -m <this module> DESCRIPTOR compiled|plain``.

Nothing here imports the transport, which would be too early for the compiled one: what to do comes through the pipe.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Connection

from mrc_host import compiled


def serve(pipe: Connection) -> None:
    """Receive where to look modules up and a function; then answer each thing received with what it makes of it.

    Returns when the pipe ends.
    """
    try:
        sys.path[:] = pipe.recv()
        function = pipe.recv()
        while True:
            pipe.send(function(pipe.recv()))
    except EOFError:
        return


def _end_with_parent() -> None:
    """Standard input is a pipe to which nobody writes: it ends with the parent, also in the middle of a run."""
    os.read(0, 1)
    os._exit(1)


def main(descriptor: str, transport: str) -> None:
    """Serve the pipe with this descriptor, on the compiled transport or the plain one."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if transport == "compiled":
        compiled.use()
    serve(Connection(int(descriptor)))


if __name__ == "__main__":
    main(*sys.argv[1:])
