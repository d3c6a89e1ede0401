"""A digest of what happened: one record for every frame that arrives anywhere, hashed in order.

A record is time, number of the device, port, and a digest of the frame's bytes. Two runs are the same run exactly when
their hashes are. A hash alone costs 16 bytes however long the run is; with `keep` (a file, or memory) the records stay,
so that two traces that differ can be searched for the first difference, as a whole or cut at any time.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_RECORD: Final = struct.Struct("<qHH8s")  # time in ns, device, port, digest of the frame
_DIGEST: Final = 8
_BATCH: Final = 4096 * _RECORD.size
_MAGIC: Final = b"mrc-trace-1\n"


@dataclass(frozen=True, slots=True)
class Record:
    """A frame's arrival: `time` in ns, the device by name, its port, digest of the frame."""

    time: int
    device: str
    port: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A trace up to and including some moment: how many frames arrived, and the hash over all of them."""

    time: int
    frames: int
    hash: str


@dataclass(frozen=True, slots=True)
class TraceDifference:
    """The first record in which two traces differ; None on the side that has ended."""

    position: int
    left: Record | None
    right: Record | None


class Trace:
    """The trace of one world. Pass it to :class:`simulation.world.SimulatedWorld`, which names the devices."""

    def __init__(self, keep: Path | str | bool = False) -> None:
        """`keep` is False (hash only), True (records in memory) or the path of a file to write them to."""
        self._hash = hashlib.blake2b(digest_size=16)
        self._frames = 0
        self._time = 0
        self._buffer = bytearray()
        self._out: BinaryIO | None = None
        if keep:
            self._out = io.BytesIO() if keep is True else Path(keep).open("w+b")  # noqa: SIM115 - closed by close()
        self.devices: tuple[str, ...] = ()

    def start(self, devices: Sequence[str]) -> None:
        """Name the devices, by number; called once by the world."""
        self.devices = tuple(devices)
        if self._out is not None:
            head = _MAGIC + b"".join(name.encode() + b"\n" for name in devices) + b"\n"
            self._out.write(head)

    def frame(self, now: int, device: int, port: int, frame: bytes) -> None:
        """A frame arrived."""
        self._frames += 1
        self._time = now
        digest = hashlib.blake2b(frame, digest_size=_DIGEST).digest()
        self._buffer += _RECORD.pack(now, device, port, digest)
        if len(self._buffer) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._hash.update(self._buffer)
        if self._out is not None:
            self._out.write(self._buffer)
        self._buffer.clear()

    def cut(self) -> Cut:
        """The trace so far."""
        self._flush()
        return Cut(self._time, self._frames, self._hash.hexdigest())

    def records(self, until: int | None = None) -> Iterator[Record]:
        """The kept records, up to and including time `until` (ns)."""
        if self._out is None:
            raise ValueError("This trace keeps no records: make it with keep=True or a path.")
        self._flush()
        self._out.flush()
        end = self._out.tell()
        self._out.seek(0)
        try:
            yield from _read(self._out, until)
        finally:
            self._out.seek(end)

    def close(self) -> None:
        """Write out and close the file, if there is one; the hash stays readable."""
        self._flush()
        if self._out is not None and not isinstance(self._out, io.BytesIO):
            self._out.close()
            self._out = None


def read(path: Path | str, until: int | None = None) -> Iterator[Record]:
    """The records of a trace file, up to and including time `until` (ns)."""
    with Path(path).open("rb") as source:
        yield from _read(source, until)


def cut_records(records: Iterator[Record], devices: Sequence[str]) -> Cut:
    """The cut that a world whose trace these are had made after the last of them."""
    number = {name: index for index, name in enumerate(devices)}
    digest = hashlib.blake2b(digest_size=16)
    time = frames = 0
    for record in records:
        digest.update(_RECORD.pack(record.time, number[record.device], record.port, record.digest))
        time, frames = record.time, frames + 1
    return Cut(time, frames, digest.hexdigest())


def first_difference(left: Iterator[Record], right: Iterator[Record]) -> TraceDifference | None:
    """Where two traces part; None when they are equal. A trace that ends early differs there."""
    left, right = iter(left), iter(right)
    position = 0
    while True:
        a, b = next(left, None), next(right, None)
        if a != b:
            return TraceDifference(position, a, b)
        if a is None:
            return None
        position += 1


def _read(source: BinaryIO, until: int | None) -> Iterator[Record]:
    if source.readline() != _MAGIC:
        raise ValueError("This is not a trace file of the simulation.")
    devices: list[str] = []
    while name := source.readline().rstrip(b"\n"):
        devices.append(name.decode())
    while len(raw := source.read(_RECORD.size)) == _RECORD.size:
        time, device, port, digest = _RECORD.unpack(raw)
        if until is not None and time > until:
            return
        yield Record(time, devices[device], port, digest)
