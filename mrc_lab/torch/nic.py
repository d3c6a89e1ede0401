"""The NIC of this process: opened for the first group, closed after the last, and at the interpreter's end.

It is the one whose agent's socket the environment names in MRC_AGENT, as every process inside an emulated host has it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading

import torch.distributed as dist

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_lab.torch.loop_thread import LoopThread
from topologies.emulation.host_environment import AGENT

_lock = threading.Lock()
_open: dict[str, SharedNic] = {}  # by socket


class SharedNic:
    """One NIC and the loop on which it is used; `users` groups have it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.process = os.getpid()
        self.device = verbs.open(path)
        self.thread = LoopThread()
        self.users = 0

    def release(self) -> None:
        """One user less; the last one closes it."""
        with _lock:
            self.users -= 1
            if self.users > 0 or _open.get(self.path) is not self:
                return
            del _open[self.path]
        self.close()

    def close(self) -> None:
        """End the loop and give everything back to the agent."""
        if self.process != os.getpid():
            return  # a forked process has neither the thread nor the right to say goodbye
        self.thread.stop()
        with contextlib.suppress(MrcError):
            self.device.close()


def acquire() -> SharedNic:
    """The process's NIC for one more user. DistBackendError when there is none."""
    path = os.environ.get(AGENT)
    if not path:
        raise dist.DistBackendError(
            f"The backend mrc needs the NIC of an emulated host, and {AGENT} does not name one: start the program"
            " inside the host, as in 'mrc exec lab h1 -- torchrun ...' or with 'mrc train' (docs/pytorch.md)."
        )
    with _lock:
        nic = _open.get(path)
        if nic is None or nic.process != os.getpid():
            try:
                nic = _open[path] = SharedNic(path)
            except MrcError as error:
                raise dist.DistBackendError(f"The backend mrc cannot open the NIC at {path}: {error}") from error
        nic.users += 1
        return nic


@atexit.register
def _close_all() -> None:
    """The interpreter ends and somebody has not destroyed a group: end the thread while there is an interpreter."""
    with _lock:
        left = list(_open.values())
        _open.clear()
    for nic in left:
        nic.close()
