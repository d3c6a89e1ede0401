"""Verified writes from one host to another, over and over, through agents that may be killed at any time.

The memory is divided into slots, one write each. A write is correct if its slot at the destination holds exactly its
bytes both at its completion at the source and at its completion at the destination, if completions come in order and
once, and if nothing has changed outside the slots in flight. When an agent crashes, the queue pairs are created again.
Before that, unfinished writes are checked: every byte must be the old one or the new one. If the destination's agent
crashed, the flow also waits until the source's queue pair has failed with a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.verbs import AgentLostError, CompletionQueue, MemoryRegion, QueuePair, check
from mrc_host.verbs_types import QpAttributes

SLOTS = 4
SLOT = 1 << 14  # bytes
PEER_TIMEOUT_S = 240.0  # for a queue pair to notice that its peer is gone
# Gives up after ten seconds or more: longer than a switch process takes to come back, short enough to see it happen.
ATTRIBUTES = QpAttributes(retry_count=20)
_PAUSE_S = 0.1  # before connecting again

Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class _Write:
    slot: int
    content: Bytes
    completions: int = 0  # at either end


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a flow: when its connection began and failed (monotonic s), and the error message."""

    flow: str
    began: float
    ended: float
    reason: str


@dataclass(slots=True)
class SoakFlow:
    """Traffic from `source` to `destination`, whose agents listen at `sockets`.

    `wrong` gets a message for every violation, `log` one for every failure.
    """

    source: str
    destination: str
    sockets: tuple[str, str]
    seed: int
    wrong: Callable[[str], None]
    log: Callable[[str], None]
    writes: int = 0
    nbytes: int = 0
    failures: list[Failure] = field(default_factory=list)
    peer_seconds: list[float] = field(default_factory=list)  # from a peer's crash to the queue pair's failure
    stopping: bool = False

    @property
    def name(self) -> str:
        """Source and destination."""
        return f"{self.source}->{self.destination}"

    async def run(self) -> None:
        """Write until `stopping`, whatever happens to the agents."""
        draw = random.Random(f"{self.seed} {self.name}")
        while not self.stopping:
            began = time.monotonic()
            connected = False
            try:
                with contextlib.ExitStack() as stack:
                    connection = _Connection(self, draw, stack)
                    connected = True
                    await connection.run()
            except MrcError as error:
                if connected:
                    self.failures.append(Failure(self.name, began, time.monotonic(), str(error)))
                    self.log(f"{self.name}: {error}")
                    if not str(error).strip():
                        self.wrong(f"{self.name} failed without a reason")
                await asyncio.sleep(_PAUSE_S)


class _Connection:
    """Queue pairs and memory of a flow, for as long as both agents run."""

    def __init__(self, flow: SoakFlow, draw: random.Random, stack: contextlib.ExitStack) -> None:
        self._flow = flow
        self._draw = draw
        near, far = (stack.enter_context(verbs.open(path)) for path in flow.sockets)
        self._near_cq, self._near, self._pair = _end(near)
        self._far_cq, self._far, far_pair = _end(far)
        self._pair.connect(far_pair.address)
        far_pair.connect(self._pair.address)
        self._expected: Bytes = np.zeros(SLOTS * SLOT, dtype=np.uint8)
        self._arrived: Bytes = np.frombuffer(self._far.buffer, dtype=np.uint8)
        stack.callback(self._drop)
        self._in_flight: dict[int, _Write] = {}
        self._order: deque[int] = deque()  # numbers of writes without a completion at the destination yet
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(SLOTS):
            self._free.put_nowait(slot)
        self._number = 0

    def _drop(self) -> None:
        del self._arrived  # it keeps the region's buffer

    async def run(self) -> None:
        try:
            await _until_one_ends(self._send(), self._take_near(), self._take_far())
        except MrcError as error:
            self._check_rest()
            if isinstance(error, AgentLostError):
                await self._peer_fails()
            raise

    async def _send(self) -> None:
        """Keep all slots busy; once the flow is stopping, end when nothing is in flight."""
        while not self._flow.stopping:
            self._post(await self._free.get())
        while self._in_flight:
            await asyncio.sleep(_PAUSE_S)

    def _post(self, slot: int) -> None:
        length = self._draw.randint(1, SLOT)
        content = np.frombuffer(self._draw.randbytes(length), dtype=np.uint8)
        self._number += 1
        self._in_flight[self._number] = _Write(slot, content)
        self._order.append(self._number)
        at = slot * SLOT
        self._near.buffer[at : at + length] = content.data
        self._pair.write(
            self._near, self._far.remote,
            offset=at, remote_offset=at, length=length, wr_id=self._number, imm=self._number,
        )  # fmt: skip

    async def _take_near(self) -> None:
        while True:
            self._completed(check(await self._near_cq.next()).wr_id, "acknowledged")

    async def _take_far(self) -> None:
        while True:
            number = check(await self._far_cq.next()).imm
            expected = self._order.popleft() if self._order else None
            if number != expected:
                self._flow.wrong(f"{self._flow.name}: write {number} arrived when {expected} was due")
            if number is not None:
                self._completed(number, "received")

    def _completed(self, number: int, what: str) -> None:
        write = self._in_flight.get(number)
        if write is None:
            self._flow.wrong(f"{self._flow.name}: write {number} was {what}, but is not in flight")
            return
        at, length = write.slot * SLOT, len(write.content)
        differing = int(np.count_nonzero(self._arrived[at : at + length] != write.content))
        if differing:
            self._flow.wrong(f"{self._flow.name}: write {number} was {what} with {differing} of {length} bytes wrong")
        write.completions += 1
        if write.completions == 2:
            self._expected[at : at + length] = write.content
            del self._in_flight[number]
            self._check_rest()
            self._flow.writes += 1
            self._flow.nbytes += length
            self._free.put_nowait(write.slot)

    def _check_rest(self) -> None:
        """Only the writes in flight have changed memory, and each of their bytes is the old or the new one."""
        changed = self._arrived != self._expected
        for write in self._in_flight.values():
            part = slice(write.slot * SLOT, write.slot * SLOT + len(write.content))
            changed[part] &= self._arrived[part] != write.content
        if changed.any():
            self._flow.wrong(f"{self._flow.name}: {np.count_nonzero(changed)} bytes changed that nobody has written")

    async def _peer_fails(self) -> None:
        """If the source's agent is alive, wait until its queue pair has noticed that the destination's is not."""
        began = time.monotonic()
        try:
            with contextlib.suppress(asyncio.QueueEmpty):
                self._post(self._free.get_nowait())  # otherwise something is in flight
            deadline = began + PEER_TIMEOUT_S
            while True:
                check(await asyncio.wait_for(self._near_cq.next(), max(0.0, deadline - time.monotonic())))
        except AgentLostError:
            return  # the source's agent has been killed too
        except MrcError as error:
            seconds = time.monotonic() - began
            self._flow.peer_seconds.append(seconds)
            self._flow.log(f"{self._flow.name}: the peer's agent has gone; {seconds:.1f} s later: {error}")
            if "failed, " not in str(error):
                self._flow.wrong(f"{self._flow.name}: the peer's crash is reported as {error}")
        except asyncio.TimeoutError:
            self._flow.wrong(f"{self._flow.name}: the queue pair does not notice that its peer is gone")


def _end(context: verbs.Context) -> tuple[CompletionQueue, MemoryRegion, QueuePair]:
    domain = context.alloc_pd()
    queue = context.create_cq(4 * SLOTS)
    return queue, domain.alloc_mr(SLOTS * SLOT), domain.create_qp(queue, attributes=ATTRIBUTES)


async def _until_one_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Do several things at once until one is done or fails; leaves none running."""
    tasks = [asyncio.ensure_future(part) for part in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
