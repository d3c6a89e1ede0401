"""Digests: messages of the data plane, collected in lists without duplicates (P4Runtime spec, "DigestEntry").

Messages are buffered until there are `max_list_size` distinct ones or the first is `max_timeout_ns` old. A message is
not sent again until it is acknowledged or `ack_timeout_ns` old. Time is an argument (ns, monotonic): the owner calls
`flush` at the time given by `due`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from finsy.proto import p4r

from p4runtime_shim import limits
from p4runtime_shim.entities import Digest
from p4runtime_shim.server import p4data
from p4runtime_shim.server.budget import ReadBudget
from p4runtime_shim.server.p4info import DigestInfo, Schema, find
from p4runtime_shim.server.rpc_errors import exists, invalid, not_found
from p4runtime_shim.server.undo_log import UndoLog


@dataclass(slots=True)
class _Stream:
    """One enabled digest: its buffer, and the unacknowledged messages by list id."""

    info: DigestInfo
    config: p4r.DigestEntry.Config
    buffer: dict[tuple[int, ...], int] = field(default_factory=dict)
    unacknowledged: dict[int, tuple[int, frozenset[tuple[int, ...]]]] = field(default_factory=dict)
    sent: set[tuple[int, ...]] = field(default_factory=set)  # all messages of those lists
    next_list: int = 1

    def knows(self, values: tuple[int, ...]) -> bool:
        return values in self.buffer or values in self.sent

    def forget(self, list_id: int) -> None:
        """The list was acknowledged, or has timed out."""
        _, values = self.unacknowledged.pop(list_id, (0, frozenset()))
        self.sent -= values

    @property
    def limit(self) -> int:
        if self.config.max_timeout_ns == 0:
            return 1
        return min(self.config.max_list_size or limits.MAX_DIGESTS, limits.MAX_DIGESTS)


class Digests:
    """The digest streams of one switch."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._by_name = {info.name: info.id for info in schema.digests.values()}
        self._streams: dict[int, _Stream] = {}
        self.dropped = 0

    # --- configuration

    def write(self, update: int, message: p4r.DigestEntry, undo_log: UndoLog | None) -> None:
        """INSERT enables a digest, MODIFY changes its configuration, DELETE disables it."""
        info = find(self._schema.digests, message.digest_id, "digest")
        old = self._streams.get(info.id)
        if update == p4r.Update.INSERT and old is not None:
            raise exists(f"digest {info.name} is already enabled")
        if update != p4r.Update.INSERT and old is None:
            raise not_found(f"digest {info.name} is not enabled")
        if update == p4r.Update.DELETE:
            del self._streams[info.id]
        else:
            config = message.config
            if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
                raise invalid(f"digest {info.name}: its configuration has a negative value")
            kept = p4r.DigestEntry.Config()
            kept.CopyFrom(config)
            stream = _Stream(info, kept)
            if old is not None:
                stream.buffer, stream.unacknowledged = dict(old.buffer), dict(old.unacknowledged)
                stream.sent = set(old.sent)
                stream.next_list = old.next_list
            self._streams[info.id] = stream
        if undo_log is not None:
            undo_log.append(lambda: self._restore(info.id, old))

    def _restore(self, id_: int, stream: _Stream | None) -> None:
        if stream is None:
            self._streams.pop(id_, None)
        else:
            self._streams[id_] = stream

    def read(self, message: p4r.DigestEntry, budget: ReadBudget | None = None) -> Iterator[p4r.DigestEntry]:
        """The enabled digests: one, or all for id 0."""
        if message.digest_id:
            find(self._schema.digests, message.digest_id, "digest")
        if budget is not None:
            budget.take(len(self._streams), "digests")
        return iter(
            [
                p4r.DigestEntry(digest_id=id_, config=stream.config)
                for id_, stream in sorted(self._streams.items())
                if message.digest_id in (0, id_)
            ]
        )

    # --- messages

    def offer(self, digests: Iterable[Digest], now: int) -> list[p4r.DigestList]:
        """Add messages of the data plane; returns the lists that are complete."""
        lists = []
        for digest in digests:
            stream = self._streams.get(self._by_name.get(digest.name, 0))
            if stream is None or len(digest.values) != stream.info.leaves:
                self.dropped += 1
                continue
            self._expire(stream, now)
            if stream.knows(digest.values):
                continue
            stream.buffer[digest.values] = now
            if len(stream.buffer) >= stream.limit:
                lists.append(self._list(stream, now))
        return lists

    def due(self) -> int | None:
        """The time at which `flush` has something to send, or None."""
        times = [next(iter(item.buffer.values())) + item.config.max_timeout_ns for item in self._buffered()]
        return min(times, default=None)

    def flush(self, now: int) -> list[p4r.DigestList]:
        """The lists whose first message has timed out."""
        return [
            self._list(stream, now)
            for stream in self._buffered()
            if next(iter(stream.buffer.values())) + stream.config.max_timeout_ns <= now
        ]

    def acknowledge(self, message: p4r.DigestListAck) -> None:
        """A client acknowledged a list; INVALID_ARGUMENT if the digest is unknown (an unknown list is outdated)."""
        if message.digest_id not in self._schema.digests:
            raise invalid(f"no digest has id {message.digest_id} in the P4Info")
        stream = self._streams.get(message.digest_id)
        if stream is not None:
            stream.forget(message.list_id)

    def forget(self) -> None:
        """The client has changed: send everything again to the new one."""
        for stream in self._streams.values():
            stream.unacknowledged.clear()
            stream.sent.clear()

    def _buffered(self) -> list[_Stream]:
        return [stream for stream in self._streams.values() if stream.buffer]

    def _expire(self, stream: _Stream, now: int) -> None:
        while stream.unacknowledged:
            first = next(iter(stream.unacknowledged))
            sent_at, _ = stream.unacknowledged[first]
            if now - sent_at < stream.config.ack_timeout_ns and len(stream.sent) <= limits.MAX_DIGESTS_SENT:
                return
            stream.forget(first)

    def _list(self, stream: _Stream, now: int) -> p4r.DigestList:
        message = p4r.DigestList(digest_id=stream.info.id, list_id=stream.next_list, timestamp=now)
        for values in stream.buffer:
            message.data.append(p4data.encode(stream.info.type_spec, self._schema.type_info, iter(values)))
        if stream.config.ack_timeout_ns:
            stream.unacknowledged[stream.next_list] = (now, frozenset(stream.buffer))
            stream.sent.update(stream.buffer)
        stream.next_list += 1
        stream.buffer.clear()
        return message
