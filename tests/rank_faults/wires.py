"""NICs in memory whose wires fail: links that are cut, planes that forward nothing, hosts that are silent, loss.

They are a process of their own. It takes orders over a connection, and says of each that it is carried out.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic_ns
from typing import Any

from mrc_host.driver.loop import Loop
from tests.mrc_host.nics_in_memory import PLANES, NicsInMemory
from tests.rank_faults.scenario import Blow, Fault

_ANSWER_S = 20


@dataclass(frozen=True)
class Left:
    """What clients have left on the NICs: queue pairs and memory regions, by NIC."""

    queue_pairs: tuple[int, ...]
    regions: tuple[int, ...]

    def __bool__(self) -> bool:
        return any((*self.queue_pairs, *self.regions))


class Wires:
    """What of `count` NICs is broken."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._silent: set[int] = set()
        self._cut: set[tuple[int, int]] = set()
        self._dark: set[int] = set()
        self._loss = 0.0

    def carries(self, sender: int, receiver: int, plane: int) -> bool:
        """Whether a frame arrives."""
        if plane in self._dark or {sender, receiver} & self._silent:
            return False
        if (sender, plane) in self._cut or (receiver, plane) in self._cut:
            return False
        return self._loss == 0 or self._random.random() >= self._loss

    def down(self, nic: int, plane: int) -> bool:
        """Whether a port has no link."""
        return (nic, plane) in self._cut

    def fail(self, blow: Blow) -> None:
        """Break something more."""
        nic, plane = blow.victim or 0, int(blow.amount)
        if blow.fault is Fault.OFF:
            self._cut |= {(nic, each) for each in range(PLANES)}
        elif blow.fault is Fault.CUT:
            self._cut.add((nic, plane))
        elif blow.fault is Fault.SILENT:
            self._silent.add(nic)
        elif blow.fault is Fault.DARK:
            self._dark.add(plane)
        else:
            self._loss = blow.amount

    def heal(self) -> None:
        """Break nothing."""
        self._silent.clear()
        self._cut.clear()
        self._dark.clear()
        self._loss = 0.0


def serve(orders: Connection, folder: Path, count: int, seed: int) -> None:
    """The process: a blow breaks something, "heal" repairs all, "left" asks for :class:`Left`, None ends it."""
    loop, wires = Loop(), Wires(seed)
    nics = NicsInMemory(folder, count, loop, wires.carries)

    def follow_links() -> None:
        for number, nic in enumerate(nics.nics):
            for plane in range(PLANES):
                nic.port_changed(plane, not wires.down(number, plane), monotonic_ns())

    def carry_out(order: Any) -> Left | None:
        if order == "left":
            return Left(
                tuple(len(nic._qps.by_qpn) for nic in nics.nics),
                tuple(len(nic._context.memory._by_lkey) for nic in nics.nics),
            )
        if order == "heal":
            wires.heal()
        else:
            wires.fail(order)
        follow_links()
        return None

    def take_orders() -> None:
        while (order := orders.recv()) is not None:
            orders.send(loop.call(lambda order=order: carry_out(order), _ANSWER_S))
        loop.stop()

    threading.Thread(target=take_orders, daemon=True).start()
    orders.send("ready")
    loop.run()
