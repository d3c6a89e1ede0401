"""The NIC of this process: opened for the first group, closed after the last, and at the interpreter's end.

It is the one whose agent's socket the environment names in MRC_AGENT, as every process inside an emulated host has it.
A group that nobody has destroyed says goodbye to its peers at the interpreter's end, so that they do not take it for
dead; a process that is killed cannot.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from concurrent.futures import TimeoutError as FutureTimeoutError  # before Python 3.11 another one than TimeoutError
from weakref import WeakSet

import torch.distributed as dist

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.verbs_types import PortEvent
from mrc_lab.torch.group_links import GroupLinks
from mrc_lab.torch.loop_thread import LoopThread
from topologies.emulation.host_environment import AGENT

_GOODBYE_S = 2.0  # for all groups that are left at the end, which need a fraction of it

_lock = threading.Lock()
_open: dict[str, SharedNic] = {}  # by socket


class SharedNic:
    """One NIC and the loop on which it is used; `users` groups have it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.process = os.getpid()
        self.device = verbs.open(path)
        self._up = {port.port: port.up for port in self.device.ports()}
        self.thread = LoopThread()
        self.users = 0
        self.groups: WeakSet[GroupLinks] = WeakSet()
        self.thread.post(self._follow_ports)

    def isolated(self) -> bool:
        """Whether no port has a link."""
        return not any(self._up.values())

    async def _follow_ports(self) -> None:
        with contextlib.suppress(MrcError):  # the agent is gone, as whoever uses the NIC notices
            while True:
                event = await self.device.next_event()
                if isinstance(event, PortEvent) and event.local:
                    self._up[event.port] = event.up

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
        with contextlib.suppress(RuntimeError, FutureTimeoutError):
            self.thread.call(self._say_goodbye(), _GOODBYE_S)
        self.thread.stop()
        with contextlib.suppress(MrcError):
            self.device.close()

    async def _say_goodbye(self) -> None:
        """For all groups that were not destroyed."""
        await asyncio.gather(*(links.say_goodbye() for links in tuple(self.groups)), return_exceptions=True)


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
