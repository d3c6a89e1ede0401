"""Messages between two ranks, matched by sender and tag as in MPI, beside and independent of collective operations.

Each message is a header (tag and length) and its bytes, on the stream of its pair of ranks. Messages of one sender with
one tag arrive in the order they were sent. One task for each sender reads headers: a message goes straight into the
array of a receive that was posted for it. If none was, it stays where it is, and its sender waits once the stream's
window is full; only when somebody waits for another message behind it is it put aside in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc_host.verbs import Context
from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives.algorithms import as_bytes, part
from mrc_lab.workloads.collectives.communicator import Communicator
from mrc_lab.workloads.collectives.layout import Span, cut
from mrc_lab.workloads.collectives.out_of_band import Exchange
from mrc_lab.workloads.collectives.settings import Peers, StreamSettings
from mrc_lab.workloads.collectives.stream import Bytes, Receiver

_HEADER = struct.Struct("<qQ")  # tag, bytes that follow


@dataclass(eq=False, slots=True)
class _Receive:
    """One that waits: `place` gets the message; `arrived` its sender's rank, or an error."""

    source: int | None
    tag: int
    place: Bytes
    arrived: asyncio.Future[int]
    claimed: bool = False  # its message is being received
    settled: bool = False

    def fits(self, source: int, tag: int) -> bool:
        return self.source in (None, source) and self.tag == tag


class Messages:
    """One rank's messages to and from all others. Made by :meth:`join`; its queue pairs carry nothing else."""

    def __init__(self, streams: Communicator) -> None:
        self.rank = streams.rank
        self.world = streams.world
        self._streams = streams
        self._turns = {peer: asyncio.Lock() for peer in streams.senders}  # one message after another to each
        self._posted: list[_Receive] = []  # in order; none of them claimed
        self._aside: list[tuple[int, int, Bytes]] = []  # sender, tag, message; in order
        self._change = asyncio.Condition()
        self._failure: Exception | None = None
        self._readers = [asyncio.ensure_future(self._read(peer, end)) for peer, end in streams.receivers.items()]

    @classmethod
    async def join(
        cls, device: Context, exchange: Exchange, settings: StreamSettings | None = None, *, name: str = "messages"
    ) -> Messages:
        """Make a stream to and from every other rank; collective, as :meth:`Communicator.join`."""
        return cls(await Communicator.join(device, exchange, settings, peers=Peers.ALL, name=name))

    async def send(self, array: NDArray[Any], to: int, tag: int = 0) -> None:
        """Send `array` (contiguous, one-dimensional) to rank `to`; returns when `array` may be used again.

        A long message waits for its receiver. Several sends to one rank go in the order of the calls. `tag` is signed
        and has 64 bits. Raises TransferError when a work request fails or a send was cancelled: all messages are over.
        """
        data = self._bytes(array)
        if to not in self._turns:
            raise ValueError(f"rank {self.rank} cannot send to rank {to} in a world of {self.world}")
        sender, header = self._streams.senders[to], _HEADER.pack(tag, data.size)
        try:
            async with self._turns[to]:
                await sender.send(np.frombuffer(header, np.uint8))
                for chunk in self._chunks(data.size):
                    await sender.send(part(data, chunk))
        except asyncio.CancelledError:
            self._streams.fail(TransferError(f"rank {self.rank} cancelled a send to rank {to} before its end"))
            raise

    async def receive(self, array: NDArray[Any], source: int | None = None, tag: int = 0) -> int:
        """Receive a message with `tag` from rank `source` (None: any) into `array`; returns its sender's rank.

        Receives that fit the same message get it in the order of the calls. Raises ValueError for a message of another
        length, which is lost, TransferError as :meth:`send` does. Cancelling leaves a message that has not begun where
        it is; half-way through one it ends all messages of this rank.
        """
        place = self._bytes(array)
        if source is not None and source not in self._turns:
            raise ValueError(f"rank {self.rank} cannot receive from rank {source} in a world of {self.world}")
        if self._failure is not None:
            raise self._failure
        for number, (sender, its_tag, message) in enumerate(self._aside):
            if source in (None, sender) and its_tag == tag:
                del self._aside[number]
                _check_length(sender, tag, message.size, place.size)
                place[:] = message
                return sender
        waiting = _Receive(source, tag, place, asyncio.get_running_loop().create_future())
        self._posted.append(waiting)
        try:
            await self._changed()
            return await waiting.arrived
        except asyncio.CancelledError:
            if waiting.claimed and not waiting.settled:  # the message would go on into the caller's array
                self._streams.fail(TransferError(f"rank {self.rank} cancelled a receive before its end"))
            raise
        finally:
            if waiting in self._posted:
                self._posted.remove(waiting)

    async def drain(self) -> None:
        """Wait until every write of ours is acknowledged."""
        await self._streams.drain()

    def fail(self, failure: Exception) -> None:
        """Whoever sends or receives, now or later, gets the first failure."""
        self._streams.fail(failure)
        self._end(failure)

    async def close(self) -> None:
        """Give everything back to the NIC; sends and receives that wait fail. Closing twice does nothing."""
        await self._streams.close()
        self._end(TransferError("the messages are closed"))
        for reader in self._readers:
            reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._readers, return_exceptions=True)

    async def _read(self, peer: int, stream: Receiver) -> None:
        """Take messages of `peer` one after another."""
        try:
            while True:
                tag, length = _HEADER.unpack(bytes(await stream.receive(_HEADER.size)))
                stream.release()
                async with self._change:
                    await self._change.wait_for(lambda: any(each.source in (None, peer) for each in self._posted))
                await self._take(peer, stream, tag, length)
        except TransferError as failure:
            self._end(failure)

    async def _take(self, peer: int, stream: Receiver, tag: int, length: int) -> None:
        """Receive one message: for the first that waits for it, or else aside."""
        waiting = next((each for each in self._posted if each.fits(peer, tag)), None)
        if waiting is not None:
            waiting.claimed = True
            self._posted.remove(waiting)
        good = waiting is not None and waiting.place.size == length
        place = waiting.place if waiting is not None and good else np.empty(length, np.uint8)
        try:
            for chunk in self._chunks(length):
                part(place, chunk)[:] = await stream.receive(chunk.length)
                stream.release()
        except TransferError as failure:
            _settle(waiting, failure)
            raise
        if waiting is not None:
            try:
                _check_length(peer, tag, length, waiting.place.size)
            except ValueError as error:
                _settle(waiting, error)
            else:
                _settle(waiting, None, peer)
            return
        late = next((each for each in self._posted if each.fits(peer, tag)), None)  # posted while it came
        if late is None:
            self._aside.append((peer, tag, place))
            return
        self._posted.remove(late)
        if late.place.size == length:
            late.place[:] = place
            _settle(late, None, peer)
        else:
            _settle(late, _wrong_length(peer, tag, length, late.place.size))

    def _end(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        for waiting in self._posted:
            _settle(waiting, self._failure)
        self._posted.clear()

    async def _changed(self) -> None:
        async with self._change:
            self._change.notify_all()

    def _chunks(self, length: int) -> list[Span]:
        return cut(Span(0, length), self._streams.settings.chunk_bytes)

    @staticmethod
    def _bytes(array: NDArray[Any]) -> Bytes:
        if array.ndim != 1 or not array.flags.c_contiguous or array.dtype.hasobject:
            raise ValueError("a message needs a one-dimensional contiguous array of numbers")
        return as_bytes(array)


def _settle(waiting: _Receive | None, failure: Exception | None, sender: int = 0) -> None:
    if waiting is None:
        return
    waiting.settled = True
    if waiting.arrived.done():  # cancelled
        return
    if failure is not None:
        waiting.arrived.set_exception(failure)
    else:
        waiting.arrived.set_result(sender)


def _wrong_length(sender: int, tag: int, sent: int, expected: int) -> ValueError:
    return ValueError(f"rank {sender} sent {sent} bytes with tag {tag}, but the receive has room for {expected}")


def _check_length(sender: int, tag: int, sent: int, expected: int) -> None:
    if sent != expected:
        raise _wrong_length(sender, tag, sent, expected)
