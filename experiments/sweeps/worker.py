"""What a worker process of a sweep does (see ``processes``).

Nothing here imports the transport, which would be too early for the compiled one: what to do comes through the pipe.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import Connection

from mrc_host import compiled


def serve(pipe: Connection, use_compiled: bool) -> None:
    """Receive a function, then answer each thing received with what the function makes of it, until the pipe ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if use_compiled:
        compiled.use()
    try:
        execute = pipe.recv()
        while True:
            pipe.send(execute(pipe.recv()))
    except EOFError:
        return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
