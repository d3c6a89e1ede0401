"""A rank's links to its group on the NIC: a communicator for collectives, another for messages.

Ranks join in the background while the group is made already; the first operations wait for it. Collectives are carried
out one after another in the order in which they were posted; messages beside them, in order for each pair of ranks and
tag. The first failure of a collective ends all that is posted later: nobody knows what the other ranks have of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from mrc_host.errors import MrcError
from mrc_host.verbs import Context
from mrc_lab.errors import TransferError
from mrc_lab.torch.store_exchange import StoreExchange
from mrc_lab.workloads.collectives import Communicator, Messages, Peers, StreamSettings

Collective = Callable[[Communicator], Awaitable[None]]
Message = Callable[[Messages], Awaitable[Any]]
_DRAIN_S = 5.0  # how long a rank that leaves waits for acknowledgements


class GroupFailedError(Exception):
    """An operation cannot be carried out; the message says why."""


class GroupLinks:
    """All methods but the constructor run on the NIC's loop; `name` is the group's."""

    def __init__(self, device: Context, exchange: StoreExchange, settings: StreamSettings, name: str) -> None:
        self.rank, self.world, self.name = exchange.rank, exchange.world, name
        self._device = device
        self._exchange = exchange
        self._settings = settings
        self._turn: asyncio.Lock | None = None
        self._joining: asyncio.Task[None] | None = None
        self._collectives: Communicator | None = None
        self._messages: Messages | None = None
        self._failure: str | None = None

    async def join(self) -> None:
        """Begin to connect to the other ranks."""
        self._turn = asyncio.Lock()
        self._joining = asyncio.ensure_future(self._join())

    async def collective(self, operation: Collective, timeout_s: float) -> None:
        """Carry out one in its turn. GroupFailedError when it fails or takes too long; then all later ones do.

        Whatever the reason is: a rank that went on would take the others' data of this one for that of its next.
        """
        try:
            await asyncio.wait_for(self._in_turn(operation), timeout_s)
        except asyncio.TimeoutError:
            await self._fail(f"Timed out after {timeout_s:g} s{self._missing()}")
        except Exception as error:
            await self._fail(_reason(error))

    async def message(self, operation: Message, timeout_s: float) -> Any:
        """Send or receive one. GroupFailedError when that fails; a wrong length costs that message alone."""
        try:
            return await asyncio.wait_for(self._with_messages(operation), timeout_s)
        except asyncio.TimeoutError:
            raise GroupFailedError(f"Timed out after {timeout_s:g} s{self._missing()}") from None
        except Exception as error:
            raise GroupFailedError(_reason(error)) from None

    async def close(self, *, orderly: bool) -> None:
        """Give everything back to the NIC; with `orderly` wait a little until our last writes are acknowledged."""
        self._failure = self._failure or "the group is destroyed"
        if self._joining is not None and not self._joining.done():
            self._joining.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._joining
        ends = [end for end in (self._collectives, self._messages) if end is not None]
        if orderly:
            with contextlib.suppress(TransferError, MrcError, asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.gather(*(end.drain() for end in ends)), _DRAIN_S)
        for end in ends:
            await end.close()

    async def _join(self) -> None:
        self._collectives = await Communicator.join(
            self._device, self._exchange, self._settings, peers=Peers.ALL, name="collectives"
        )
        self._messages = await Messages.join(self._device, self._exchange, self._settings, name="messages")

    async def _joined(self) -> None:
        assert self._joining is not None
        await asyncio.shield(self._joining)

    async def _in_turn(self, operation: Collective) -> None:
        assert self._turn is not None
        async with self._turn:
            self._check()
            await self._joined()
            self._check()
            assert self._collectives is not None
            await operation(self._collectives)

    async def _with_messages(self, operation: Message) -> Any:
        self._check()
        await self._joined()
        self._check()
        assert self._messages is not None
        return await operation(self._messages)

    def _check(self) -> None:
        if self._failure is not None:
            raise TransferError(self._failure)

    async def _fail(self, reason: str) -> None:
        """Keep the first reason, and let the other ranks notice: what they write to us fails from now on."""
        first, self._failure = self._failure is None, self._failure or reason
        if first and self._collectives is not None:
            await self._collectives.close()
        raise GroupFailedError(reason)

    def _missing(self) -> str:
        """Who has not come to the rendezvous, if that is what is waited for."""
        if self._collectives is not None:
            return ""
        try:
            missing = self._exchange.missing("collectives/cards")
        except RuntimeError:  # the store is gone
            return "; the store of the rendezvous is gone"
        return f": no word from rank {', '.join(map(str, missing))}" if missing else ""


def _reason(error: Exception) -> str:
    """What our own errors say; of torch's and numpy's, such as of tensors that cannot be written, also which it is."""
    own = isinstance(error, (TransferError, MrcError, ValueError))
    return str(error) if own else f"{type(error).__name__}: {error}"
