"""The processes of a run, all forked from this one: NICs in memory, the store, and the ranks."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import torch.distributed as dist

from tests.rank_faults import rank, wires
from tests.rank_faults.scenario import Blow
from tests.rank_faults.wires import Left

_PR_SET_PDEATHSIG = 1
_ANSWER_S = 60.0
_FORK = multiprocessing.get_context("fork")


class Child:
    """A process that `serve` is, which talks over `orders` and prints to `log`; it ends with this one."""

    def __init__(self, log: Path, serve: Callable[..., None], *arguments: Any) -> None:
        self.orders, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_run, args=(log, serve, theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()

    def signal(self, number: int) -> None:
        """Send a signal; one that has ended gets none."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, number)

    def ask(self, order: Any) -> Any:
        """Send an order and wait for the answer."""
        self.orders.send(order)
        return self.answer()

    def answer(self, within_s: float = _ANSWER_S) -> Any:
        """The next message. AssertionError if none comes, EOFError if the process has ended."""
        assert self.orders.poll(within_s), "no answer"
        return self.orders.recv()

    def end(self) -> None:
        """Kill it."""
        self.signal(signal.SIGKILL)
        self.process.join(_ANSWER_S)
        self.orders.close()


class RunFabric:
    """`count` NICs with sockets in `folder`, and a store; ranks start with :meth:`start`."""

    def __init__(self, folder: Path, world: int, count: int, seed: int) -> None:
        self._folder, self._world, self.log = folder, world, folder / "log"
        self.nics = Child(self.log, wires.serve, folder, count, seed)
        assert self.nics.answer() == "ready"
        self.store = Child(self.log, _serve_store)
        self._port: int = self.store.answer()
        self.ranks: list[Child] = []
        self.handles: list[str] = []

    def start(self) -> int:
        """Another process, on the next NIC; returns its number."""
        number = len(self.ranks)
        nic = self._folder / f"h{number + 1}.sock"
        self.ranks.append(Child(self.log, rank.serve, nic, self._port, number, self._world))
        return number

    def meet(self) -> None:
        """Wait for the handles of those that have started."""
        self.handles += [child.answer() for child in self.ranks[len(self.handles) :]]

    def fail(self, blow: Blow) -> None:
        """Break something of the network."""
        self.nics.ask(blow)

    def heal(self) -> None:
        """Repair the network."""
        self.nics.ask("heal")

    def left(self) -> Left:
        """What is on the NICs."""
        found: Left = self.nics.ask("left")
        return found

    def __enter__(self) -> RunFabric:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in (*self.ranks, self.store, self.nics):
            with contextlib.suppress(OSError):
                child.end()


def _run(log: Path, serve: Callable[..., None], orders: Connection, *arguments: Any) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner ends all
    serve(orders, *arguments)


def _serve_store(orders: Connection) -> None:
    """A store of torch on a port of this machine alone; torch's own would listen on all interfaces."""
    listener = socket.create_server(("127.0.0.1", 0))
    store = dist.TCPStore(
        "127.0.0.1", listener.getsockname()[1], is_master=True, wait_for_workers=False,
        timeout=timedelta(seconds=_ANSWER_S), master_listen_fd=listener.detach(),
    )  # fmt: skip
    orders.send(store.port)
    orders.recv()
