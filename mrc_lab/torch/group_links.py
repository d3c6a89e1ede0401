"""A rank's links to its group on the NIC: a communicator for collectives, another for messages, a watch over the peers.

Ranks join in the background while the group is made already; the first operations wait for it. Collectives are carried
out one after another in the order in which they were posted; messages beside them, in order for each pair of ranks and
tag. The first failure of a collective ends all that is posted later: nobody knows what the other ranks have of it.

The loss of a rank, and a collective that failed on another rank, end everything under way and posted later, too. A rank
that has left in order ends only what it has not done itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from mrc_host.errors import MrcError
from mrc_host.verbs import Context
from mrc_lab.errors import TransferError
from mrc_lab.torch.stages import AtStage, Stage, StagedExchange, pass_stage
from mrc_lab.torch.store_exchange import StoreExchange
from mrc_lab.workloads.collectives import Communicator, Messages, Peers, StreamSettings
from mrc_lab.workloads.liveness import LivenessSettings, PeerEvent, PeerLeft, PeerLost, PeerMonitor

Collective = Callable[[Communicator], Awaitable[None]]
Message = Callable[[Messages], Awaitable[Any]]
_DRAIN_S = 5.0  # how long a rank that leaves waits for acknowledgements
_GOODBYE_S = 0.2  # and how long for those of its peers' NICs to its notice that it leaves
_VERDICT_S = 0.1  # how long a failed transfer waits for the NICs to say whether its peer is lost


class GroupFailedError(Exception):
    """An operation cannot be carried out; the message says why."""


class FailureKind(enum.Enum):
    """Why a group has failed."""

    TIMEOUT = "timeout"
    PEER = "peer"  # another rank is lost, has left, or has given up
    OWN = "own"  # a transfer, or an operation of this rank


class GroupLinks:
    """All methods but the constructor run on the NIC's loop; `name` is the group's.

    Without `liveness` peers are not watched. `isolated` says whether all links of the NIC are down.
    """

    def __init__(
        self,
        device: Context,
        exchange: StoreExchange,
        settings: StreamSettings,
        name: str,
        liveness: LivenessSettings | None = None,
        isolated: Callable[[], bool] = lambda: False,
        at_stage: AtStage = pass_stage,
    ) -> None:
        self.rank, self.world, self.name = exchange.rank, exchange.world, name
        self.failure_kind: FailureKind | None = None
        self.on_failure: Callable[[], None] = lambda: None  # called once, on the NIC's loop
        self._device = device
        self._exchange = exchange
        self._at_stage = at_stage
        self._settings = settings
        self._liveness = liveness if exchange.world > 1 else None
        self._isolated = isolated
        self._monitor: PeerMonitor | None = None
        self._successor: Callable[[PeerEvent], None] | None = None
        self._left: dict[int, PeerLeft] = {}  # by rank
        self._done = 0  # collectives
        self._under_way = 0  # number of the collective that has its turn, from 1; 0: none has
        self._turn = asyncio.Lock()
        self._joining: asyncio.Task[None] | None = None
        self._watching = asyncio.Event()  # from when on the peers are watched, if they are at all
        self._collectives: Communicator | None = None
        self._messages: Messages | None = None
        self._failure: str | None = None

    @property
    def lost(self) -> tuple[PeerLost, ...]:
        """The ranks that are lost, as far as this one knows; the first is why the group has failed, if one is."""
        return self._monitor.lost if self._monitor is not None else ()

    @property
    def failure(self) -> str | None:
        """Why operations that are called now fail, in words; None if they do not."""
        return self._failure

    async def join(self) -> None:
        """Begin to connect to the other ranks."""
        self._joining = asyncio.ensure_future(self._join())
        self._joining.add_done_callback(lambda task: task.cancelled() or task.exception())  # perhaps nobody asks for it

    async def collective(self, operation: Collective, timeout_s: float) -> None:
        """Carry out one in its turn. GroupFailedError when it fails or takes too long; then all later ones do.

        Whatever the reason is: a rank that went on would take the others' data of this one for that of its next.
        """
        try:
            await asyncio.wait_for(self._in_turn(operation), timeout_s)
        except asyncio.TimeoutError:
            await self._fail(f"Timed out after {timeout_s:g} s{await self.missing()}", FailureKind.TIMEOUT)
        except Exception as error:
            await self._look_for_losses(error)
            await self._fail(reason_of(error), FailureKind.OWN)

    async def message(self, operation: Message, timeout_s: float) -> Any:
        """Send or receive one. GroupFailedError when that fails; a wrong length costs that message alone."""
        try:
            return await asyncio.wait_for(self._with_messages(operation), timeout_s)
        except asyncio.TimeoutError:
            raise GroupFailedError(f"Timed out after {timeout_s:g} s{await self.missing()}") from None
        except Exception as error:
            await self._look_for_losses(error)
            raise GroupFailedError(self._failure or reason_of(error)) from None

    async def close(self, *, orderly: bool, reason: str = "the group is destroyed") -> None:
        """Give everything back to the NIC; with `orderly` wait a little until our last writes are acknowledged."""
        await self._at_stage(Stage.LEAVE)
        self._failure = self._failure or reason
        if self._joining is not None and not self._joining.done():
            self._joining.cancel()
            with contextlib.suppress(asyncio.CancelledError, TransferError):
                await self._joining
        ends = [end for end in (self._collectives, self._messages) if end is not None]
        if orderly:
            with contextlib.suppress(TransferError, MrcError, asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.gather(*(end.drain() for end in ends)), _DRAIN_S)
        await self.say_goodbye()
        if self._monitor is not None:
            await self._monitor.close()
        for end in ends:
            await end.close()

    async def say_goodbye(self) -> None:
        """Notify the peers that this rank leaves, so that they do not take it for lost, nor wait for it to join."""
        if self._monitor is not None:
            if self._messages is None:
                self._monitor.report_failure()
            await self._monitor.say_goodbye(self._done, _GOODBYE_S)

    async def _join(self) -> None:
        """Connect; TransferError with the group's failure if that cancels it."""
        device, exchange, settings = self._device, StagedExchange(self._exchange, self._at_stage), self._settings
        try:
            if self._liveness is not None:
                self._monitor = await PeerMonitor.join(
                    device, exchange, self._liveness, self._on_peer, isolated=self._isolated
                )
            self._watching.set()
            self._collectives = await Communicator.join(device, exchange, settings, peers=Peers.ALL, name="collectives")
            self._messages = await Messages.join(device, exchange, settings, name="messages")
        except asyncio.CancelledError:
            if self._failure is None:
                raise
            raise TransferError(self._failure) from None

    @property
    def watched(self) -> bool:
        """Whether the peers are watched, so that a lost one is noticed here."""
        return self._watching.is_set()

    async def watching(self, within_s: float) -> None:
        """Wait until the peers are watched, or joining has ended; TransferError if neither is so in time."""
        assert self._joining is not None
        waiting = asyncio.ensure_future(self._watching.wait())
        try:
            await asyncio.wait((self._joining, waiting), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not (self._watching.is_set() or self._joining.done()):
            raise TransferError(f"a member did not come within {within_s:g} s after it had called")

    async def joined(self) -> None:
        """Wait until all ranks are connected; TransferError or MrcError if they are not."""
        assert self._joining is not None
        await asyncio.shield(self._joining)

    async def _in_turn(self, operation: Collective) -> None:
        async with self._turn:
            self._check()
            await self.joined()
            self._check()
            assert self._collectives is not None
            self._under_way = self._done + 1
            try:
                await self._at_stage(Stage.COLLECTIVE)
                self._check_left()
                await operation(self._collectives)
            finally:
                self._under_way = 0
            self._done += 1

    async def _with_messages(self, operation: Message) -> Any:
        self._check()
        await self.joined()
        self._check()
        assert self._messages is not None
        return await operation(self._messages)

    def _check(self) -> None:
        if self._failure is not None:
            raise TransferError(self._failure)

    def _check_left(self) -> None:
        """TransferError if a rank has left before the collective under way."""
        for left in self._left.values():
            if left.before(self._under_way):
                self.give_up(str(left), FailureKind.PEER)
        self._check()

    def retire(self, reason: str, successor: Callable[[PeerEvent], None] | None = None) -> None:
        """Fail what is under way or called later by `reason`, if not by an earlier one, and notify the peers.

        They remain watched until :meth:`close`, for the successor, which may be another one later.
        """
        first, self._successor = self._successor is None, successor
        self._failure = self._failure or reason
        if first and self._monitor is not None:
            self._monitor.report_retirement(self._done)
        self._end()

    def end_by(self, reason: str) -> None:
        """What is called from now on fails by `reason`, whatever happened before."""
        self._failure, self.failure_kind = reason, FailureKind.OWN

    def _on_peer(self, event: PeerEvent) -> None:
        if self._successor is not None:
            self._successor(event)
            return
        if isinstance(event, PeerLeft):
            self._left[event.rank] = event
            if not (self._under_way and event.before(self._under_way)):
                return
        self.give_up(str(event), FailureKind.PEER)

    def give_up(self, reason: str, kind: FailureKind = FailureKind.PEER) -> None:
        """Keep the first reason; what is under way fails by it, and what is called later."""
        if self._failure is not None:
            return
        self._failure, self.failure_kind = reason, kind
        if self._monitor is not None and kind is not FailureKind.PEER:
            self._monitor.report_failure()
        self._end()
        self.on_failure()

    def _end(self) -> None:
        """What is under way fails by the failure."""
        assert self._failure is not None
        for end in (self._collectives, self._messages):
            if end is not None:
                end.fail(TransferError(self._failure))
        if self._joining is not None:
            self._joining.cancel()

    async def _look_for_losses(self, error: Exception) -> None:
        """Before a failed transfer is the reason: a rank that is lost may be, and the others shall name the same."""
        if self._failure is None and self._monitor is not None and isinstance(error, (TransferError, MrcError)):
            await self._monitor.verdict(_VERDICT_S)

    async def _fail(self, reason: str, kind: FailureKind) -> NoReturn:
        """Give up for the first reason there is, and let the other ranks notice: what they write to us fails."""
        self.give_up(reason, kind)
        if self._collectives is not None:
            await self._collectives.close()
        raise GroupFailedError(self._failure or reason)

    async def missing(self) -> str:
        """Who has not come to the rendezvous, if that is what is waited for; for the end of a message."""
        if self._collectives is not None:
            return ""
        first = "liveness" if self._liveness is not None and self._monitor is None else "collectives"
        try:
            missing = await self._exchange.missing(f"{first}/cards")
        except (RuntimeError, asyncio.TimeoutError):
            return "; the store of the rendezvous is gone"
        return f": no word from rank {', '.join(map(str, missing))}" if missing else ""


def reason_of(error: Exception) -> str:
    """What our own errors say; of torch's and numpy's, such as of tensors that cannot be written, also which it is."""
    own = isinstance(error, (TransferError, MrcError, ValueError))
    return str(error) if own else f"{type(error).__name__}: {error}"
