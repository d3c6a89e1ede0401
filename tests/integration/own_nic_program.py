"""An application with a NIC of its own: sends back what is written to it, each byte plus one, with the same immediate.

``python -m tests.integration.own_nic_program CONFIG MODE``; MODE is `blocking`, `polling` or `asyncio`, or `leave`:
then it ends as soon as the first message is there; or `mistakes`: what is refused, and leaves the NIC as it was. It
prints its endpoint, reads the peer's, and ends after immediate value 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import Callable

import pytest

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.own_nic import OwnNic
from mrc_host.values import QpAttributes
from mrc_host.verbs import Completion, Endpoint

MEBI = 1 << 20
WAIT_S = 60


class Echo:
    """The first half of its memory is the peer's to write to, the second what it sends back."""

    def __init__(self, context: verbs.Context) -> None:
        self.cq = context.create_cq(1024)
        domain = context.alloc_pd()
        self.memory = domain.alloc_mr(2 * MEBI)
        self.qp = domain.create_qp(self.cq, attributes=QpAttributes(timeout=12, retry_count=64))
        print(self.qp.endpoint(self.memory), flush=True)
        self.peer = Endpoint.parse(sys.stdin.readline())
        self.qp.connect(self.peer)
        print("connected", flush=True)

    def answer(self, arrived: Completion) -> bool:
        """Send `imm` bytes back; whether more is to come."""
        length = arrived.imm or 0
        changed = bytes(byte + 1 & 0xFF for byte in self.memory.buffer[:length])
        self.memory.buffer[MEBI : MEBI + length] = changed
        self.qp.write(self.memory, self.peer.memory, offset=MEBI, remote_offset=MEBI, length=length, imm=length)
        return length > 0

    def wait(self) -> Completion:
        """The next completion."""
        return self.cq.wait(WAIT_S)

    def poll(self) -> Completion:
        """The same, by doing nothing but ask for it."""
        while not (found := self.cq.poll(1)):
            pass
        return found[0]

    def serve(self, next_one: Callable[[], Completion]) -> None:
        """Without asyncio."""
        more, outstanding = True, 0
        while more or outstanding:
            completion = verbs.check(next_one())
            if completion.opcode is verbs.CompletionOpcode.RECV_WRITE_WITH_IMM:
                more = self.answer(completion)
                outstanding += 1
            else:
                outstanding -= 1

    async def serve_in_coroutines(self) -> float:
        """With asyncio; a second coroutine counts time meanwhile. How long its shortest sleep of a millisecond took."""
        shortest = asyncio.ensure_future(_shortest_sleep())
        more, outstanding = True, 0
        while more or outstanding:
            completion = verbs.check(await asyncio.wait_for(self.cq.next(), WAIT_S))
            if completion.opcode is verbs.CompletionOpcode.RECV_WRITE_WITH_IMM:
                more = self.answer(completion)
                outstanding += 1
            else:
                outstanding -= 1
        return await shortest


async def _shortest_sleep() -> float:
    loop = asyncio.get_running_loop()
    shortest = float("inf")
    for _ in range(20):
        start = loop.time()
        await asyncio.sleep(0.001)
        shortest = min(shortest, loop.time() - start)
    return shortest


def make_mistakes(nic: OwnNic) -> None:
    """Each is refused by one sentence."""

    async def inside() -> None:
        refused(nic.close, "close it when OwnNic.run has ended")
        refused(lambda: nic.run(asyncio.sleep(0)), "An event loop runs here already")

    nic.run(inside())
    refused(lambda: asyncio.run(wait_for_one(nic)), "the NIC does not work in any other event loop")
    refused(lambda: OwnNic.open(sys.argv[1]), "A process, perhaps this one")
    with contextlib.suppress(ZeroDivisionError):
        nic.run(fail())
    nic.run(inside())


def fail_to_close(config: str) -> None:
    """A NIC whose last work fails is released all the same."""
    nic = OwnNic.open(config)
    nic.loop.add_turn(lambda now: now // 0)
    with pytest.raises(ZeroDivisionError):
        nic.close()
    OwnNic.open(config).close()


def refused(call: Callable[[], object], why: str) -> None:
    """MrcError with this reason."""
    with pytest.raises(MrcError, match=re.escape(why)):
        call()


async def wait_for_one(nic: OwnNic) -> None:
    await nic.context.create_cq(4).next()  # not the queue in which the peer's message may be


async def fail() -> None:
    raise ZeroDivisionError


def main() -> None:
    """See the module."""
    with OwnNic.open(sys.argv[1]) as nic:
        echo = Echo(nic.context)
        if sys.argv[2] == "asyncio":
            print("slept", nic.run(echo.serve_in_coroutines()), flush=True)
        elif sys.argv[2] in ("blocking", "polling"):
            echo.serve(echo.wait if sys.argv[2] == "blocking" else echo.poll)
        elif sys.argv[2] == "mistakes":
            make_mistakes(nic)
            echo.serve(echo.wait)
        else:
            verbs.check(echo.cq.wait(WAIT_S))
        nic.close()
        refused(lambda: nic.run(asyncio.sleep(0)), "This NIC is closed.")
    fail_to_close(sys.argv[1])
    print("closed", flush=True)


if __name__ == "__main__":
    main()
