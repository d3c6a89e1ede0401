"""Out-of-band meeting place of the ranks of one job: a UNIX socket served by the coordinator, JSON lines both ways.

A rank says ``hello`` with its number and the world's size, then ``gather``s values by name (the server answers when
every rank has given its own, which makes a gather of nothing a barrier), sends one-way ``report``s, and says ``bye``.
A rank whose connection ends without ``bye`` is lost: every gather, pending or later, then fails on the others with
one sentence naming it, so that nobody waits for a dead peer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mrc_common import strict_json, unix_sockets
from mrc_common.limited_server import LimitedServer
from mrc_lab.errors import RendezvousError

_LINE_LIMIT = 1 << 20  # bytes of one message
_SPARE_CONNECTIONS = 16  # of ranks that are gone, or come twice
_OPEN_GATHERS = 1000  # that wait for somebody

# What a message that no rank sends may raise, at whatever depth.
_MALFORMED = (ConnectionError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError)

Report = Mapping[str, Any]


class RendezvousServer:
    """The coordinator's side, for exactly `world` ranks.

    `on_report(rank, report)` is called for each report, `on_leave(rank, orderly)` when a rank's connection ends.
    """

    def __init__(
        self,
        world: int,
        on_report: Callable[[int, Report], None] | None = None,
        on_leave: Callable[[int, bool], None] | None = None,
    ) -> None:
        self._world = world
        self._on_report = on_report or (lambda rank, report: None)
        self._on_leave = on_leave or (lambda rank, orderly: None)
        self._server: LimitedServer | None = None
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._gathers: dict[str, dict[int, Any]] = {}
        self._lost: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, path: Path) -> None:
        """Listen on a UNIX socket at `path`, replacing one that a dead server left. Raises RendezvousError."""
        server = LimitedServer(self._protocol, self._world + _SPARE_CONNECTIONS)
        try:
            server.listen_unix(path)
        except unix_sockets.SocketError as error:
            raise RendezvousError(str(error)) from None
        self._server = server

    async def everybody_left(self) -> None:
        """Wait until no rank is connected; their messages have been handled then."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.stop_listening()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_LINE_LIMIT), self._connected)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank: int | None = None
        orderly = False
        try:
            rank = self._welcome(await _read(reader))
            self._writers[rank] = writer
            if self._lost:
                _write(writer, {"op": "error", "message": self._lost})
            assert self._server is not None
            with self._server.serving(writer.transport.get_protocol()):
                orderly = await self._take_messages(rank, reader)
        except RendezvousError as error:
            _write(writer, {"op": "error", "message": str(error)})
        except _MALFORMED:
            pass  # treated as a rank that left
        finally:
            if rank is not None:
                del self._writers[rank]
                self._left(rank, orderly)
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _take_messages(self, rank: int, reader: asyncio.StreamReader) -> bool:
        """Handle what a rank sends until its end; whether it has said bye."""
        while (message := await _read(reader)) is not None:
            if message["op"] == "bye":
                return True
            self._handle(rank, message)
        return False

    def _welcome(self, message: dict[str, Any] | None) -> int:
        """Check a hello and return its rank."""
        if message is None or message.get("op") != "hello":
            raise RendezvousError("the first message must be a hello")
        rank, world = int(message["rank"]), int(message["world"])
        if world != self._world or not 0 <= rank < world:
            raise RendezvousError(f"rank {rank} of {world} does not belong to this job of {self._world} ranks")
        if rank in self._writers:
            raise RendezvousError(f"rank {rank} is already here")
        return rank

    def _handle(self, rank: int, message: dict[str, Any]) -> None:
        if message["op"] == "report":
            self._on_report(rank, message["report"])
        elif message["op"] == "gather":
            self._gather(rank, message["name"], message["value"])
        else:
            raise RendezvousError(f"unknown message {message['op']!r} from rank {rank}")

    def _gather(self, rank: int, name: str, value: Any) -> None:
        if len(self._gathers) >= _OPEN_GATHERS and name not in self._gathers:
            raise RendezvousError(f"more than {_OPEN_GATHERS} gathers wait for somebody")
        values = self._gathers.setdefault(name, {})
        if rank in values:
            raise RendezvousError(f"rank {rank} gave a second value for {name!r}")
        values[rank] = value
        if len(values) == self._world:
            del self._gathers[name]
            answer = {"op": "gathered", "name": name, "values": [values[r] for r in range(self._world)]}
            for writer in self._writers.values():
                _write(writer, answer)

    def _left(self, rank: int, orderly: bool) -> None:
        if not orderly and self._lost is None:
            self._lost = f"rank {rank} is gone"
            for writer in self._writers.values():
                _write(writer, {"op": "error", "message": self._lost})
        self._on_leave(rank, orderly)


class Rendezvous:
    """A rank's side; implements the `Exchange` that collectives need. Made by :meth:`connect`."""

    def __init__(self, rank: int, world: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._rank = rank
        self._world = world
        self._reader = reader
        self._writer = writer
        self._waiting: dict[str, asyncio.Future[list[Any]]] = {}
        self._broken: str | None = None
        self._break = asyncio.Event()
        self._listener = asyncio.get_running_loop().create_task(self._listen())

    @classmethod
    async def connect(cls, path: Path, rank: int, world: int) -> Rendezvous:
        """Join the job served at `path`; raises `RendezvousError` when nobody listens there."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(path), limit=_LINE_LIMIT)
        except OSError as error:
            raise RendezvousError(f"no coordinator at {path}: {error.strerror}") from error
        _write(writer, {"op": "hello", "rank": rank, "world": world})
        return cls(rank, world, reader, writer)

    @property
    def rank(self) -> int:
        """Number of this process, 0..world-1."""
        return self._rank

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self._world

    async def gather(self, name: str, value: Any) -> list[Any]:
        """Give `value` (JSON) under `name`; returns all values in rank order once every rank has given its own."""
        if self._broken:
            raise RendezvousError(self._broken)
        if name in self._waiting:
            raise ValueError(f"already gathering {name!r}")
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting[name] = future
        _write(self._writer, {"op": "gather", "name": name, "value": value})
        return await future

    async def broken(self) -> str:
        """Wait until the job cannot go on because a rank or the coordinator is gone; returns the error message."""
        await self._break.wait()
        return self._broken or ""

    def report(self, report: Report) -> None:
        """Tell the coordinator something; never waits and never fails (a lost coordinator shows at the next gather)."""
        _write(self._writer, {"op": "report", "report": report})

    async def flush(self) -> None:
        """Wait until what was reported is handed to the coordinator."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def close(self) -> None:
        """Say bye and leave."""
        with contextlib.suppress(ConnectionError):
            _write(self._writer, {"op": "bye"})
            await self._writer.drain()
        self._listener.cancel()
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def abandon(self) -> None:
        """Leave without bye: the other ranks are notified that this one is gone."""
        self._listener.cancel()
        self._writer.close()

    async def _listen(self) -> None:
        try:
            while (message := await _read(self._reader)) is not None:
                if message["op"] == "error":
                    self._fail(message["message"])
                else:
                    future = self._waiting.pop(message["name"], None)
                    if future is not None and not future.done():
                        future.set_result(message["values"])
        except _MALFORMED:
            pass
        self._fail("the coordinator is gone")

    def _fail(self, why: str) -> None:
        self._broken = self._broken or why
        self._break.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(RendezvousError(self._broken))
        self._waiting.clear()


def _write(writer: asyncio.StreamWriter, message: Mapping[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(strict_json.dumps(message).encode() + b"\n")


async def _read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message, None at the end; `ValueError` when it is not a JSON object."""
    line = await reader.readline()
    if not line:
        return None
    message = strict_json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a message must be a JSON object")
    return message
