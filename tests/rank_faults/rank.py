"""A process with a rank: it forms groups and adds as it is ordered, and at a stage it may kill or stop itself."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist

from mrc_lab.torch import create
from mrc_lab.torch.options import ReconfigureOptions
from mrc_lab.torch.process_group import MrcProcessGroup
from mrc_lab.torch.stages import Stage
from tests.rank_faults.scenario import YEAR_S, Blow, Fault
from topologies.emulation.host_environment import AGENT

REACHED: Final = "reached"  # a rank reports this just before it stops itself
_ELEMENTS = 5000  # several chunks for each rank
_STORE_S = 60


@dataclass(frozen=True)
class Order:
    """Form a group of the processes with these `handles`, if there are any; then add `sums` times.

    `timeout_s` is that of each operation. `blow` may come at a stage of this process.
    """

    timeout_s: float | None
    sums: int
    handles: tuple[str, ...] = ()
    uuid: int = 0
    blow: Blow | None = None


@dataclass(frozen=True)
class Ending:
    """How an order ended: well, or by the error in `words`; the `longest_s` of its operations; `wrong` may never be."""

    ok: bool
    words: str = ""
    longest_s: float = 0.0
    wrong: bool = False

    def __str__(self) -> str:
        return f"{self.words or 'well'} ({self.longest_s:.2f} s)"


class WrongError(Exception):
    """Something that no fault excuses."""


class RankProcess:
    """The process `number`, on the NIC behind the socket `nic`, with the store on `port`."""

    def __init__(self, orders: Connection, nic: Path, port: int, number: int, world: int) -> None:
        self._orders = orders
        self._reporting = threading.Lock()
        self._blow: Blow | None = None
        self._longest = 0.0
        os.environ[AGENT] = str(nic)
        torch.set_num_threads(1)
        create.GroupLinks = functools.partial(create.GroupLinks, at_stage=self._at_stage)  # type: ignore[misc,assignment]
        create.Reconfiguration = functools.partial(  # type: ignore[misc,assignment]
            create.Reconfiguration, at_stage=self._at_stage
        )
        store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=_STORE_S))
        self._group: MrcProcessGroup = create.new_group(
            dist.PrefixStore("group/", store), number % world, world,
            timeout=timedelta(seconds=YEAR_S), name="ranks", reconfigures=True,
        )  # fmt: skip

    def serve(self) -> None:
        """Carry out orders until there is none, then destroy the group."""
        self._send(self._group.get_reconfigure_handle())
        while (order := self._orders.recv()) is not None:
            self._send(self._carry_out(order))
        self._group.shutdown()
        self._send(Ending(True))

    def _send(self, message: Any) -> None:
        """Report how an order has ended; its blow comes no more."""
        with self._reporting:
            self._blow = None
            self._orders.send(message)

    async def _at_stage(self, stage: Stage) -> None:
        with self._reporting:
            blow = self._blow
            if blow is not None and blow.stage is stage:
                self._blow = None
                self._orders.send(REACHED)
                os.kill(os.getpid(), signal.SIGKILL if blow.fault is Fault.KILL else signal.SIGSTOP)

    def _carry_out(self, order: Order) -> Ending:
        self._longest, self._blow = 0.0, order.blow
        timeout = None if order.timeout_s is None else timedelta(seconds=order.timeout_s)
        self._group.set_timeout(timeout or timedelta(seconds=YEAR_S if timeout is None else 0))
        try:
            if order.handles:
                options = ReconfigureOptions(order.uuid, order.handles, timeout)
                self._wait(lambda: self._group.reconfigure(options))
                if self._group.size() != len(order.handles):
                    raise WrongError(f"a group of {self._group.size()} instead of {len(order.handles)}")
                if order.handles[self._group.rank()] != self._group.get_reconfigure_handle():
                    raise WrongError(f"rank {self._group.rank()} is another's")
            for number in range(order.sums):
                self._add(number)
        except dist.DistBackendError as error:
            return Ending(False, str(error), self._longest)
        except Exception as error:
            return Ending(False, f"{type(error).__name__}: {error}", self._longest, wrong=True)
        return Ending(True, longest_s=self._longest)

    def _add(self, number: int) -> None:
        value = torch.full((_ELEMENTS,), float((number + 1) << self._group.rank()))
        self._wait(lambda: self._group.allreduce([value]))
        expected = (number + 1) * ((1 << self._group.size()) - 1)
        if not bool((value == expected).all()):
            raise WrongError(f"a sum of {value.min()} to {value.max()} instead of {expected}")

    def _wait(self, start: Callable[[], Any]) -> None:
        began = time.monotonic()
        try:
            start().wait()
        finally:
            self._longest = max(self._longest, time.monotonic() - began)


def serve(orders: Connection, nic: Path, port: int, number: int, world: int) -> None:
    """The process."""
    RankProcess(orders, nic, port, number, world).serve()
