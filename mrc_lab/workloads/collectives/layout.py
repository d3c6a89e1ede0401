"""The layout of an array for a ring: one segment a rank, and in each segment chunks that move on independently.

Pure arithmetic. Offsets and lengths are bytes; every boundary falls between elements. Segment `k` of `world` covers
the elements ``k*n//world .. (k+1)*n//world``, so lengths differ by at most one element and every rank computes the
same cut.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc_host.checksum import copy_and_crc32, crc32

_PART_ALIGN = 128  # bytes, as NCCL aligns the parts of a message


@dataclass(frozen=True, slots=True)
class Span:
    """`length` bytes at `offset`."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """First byte after the span."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Layout:
    """Cut of `elements` items of `item_bytes` each over `world` ranks, in chunks of at most `chunk_bytes`."""

    elements: int
    item_bytes: int
    world: int
    chunk_bytes: int

    def segment(self, index: int) -> Span:
        """Segment `index`, counted modulo the number of ranks."""
        index %= self.world
        first = index * self.elements // self.world
        last = (index + 1) * self.elements // self.world
        return Span(first * self.item_bytes, (last - first) * self.item_bytes)

    def chunks(self, index: int) -> list[Span]:
        """The chunks of segment `index` in order; none when the segment is empty."""
        return cut(self.segment(index), self.chunk_bytes - self.chunk_bytes % self.item_bytes)


def cut(span: Span, size: int) -> list[Span]:
    """`span` in pieces of `size` bytes, the last one as long as what is left."""
    return [Span(at, min(size, span.end - at)) for at in range(span.offset, span.end, size)]


def parts(length: int, queue_pairs: int) -> list[Span]:
    """A chunk of `length` bytes divided among so many queue pairs, or as many of the first as there are parts for."""
    size = -(-length // queue_pairs)
    return cut(Span(0, length), -(-size // _PART_ALIGN) * _PART_ALIGN)


def check(sequence: int, data: memoryview) -> int:
    """CRC-32 over a chunk's place in the stream and its bytes: a chunk out of order is as wrong as a changed one."""
    return crc32(data, _seed(sequence))


def copy_and_check(sequence: int, target: memoryview, data: memoryview) -> int:
    """Copy `data` to `target`, which is as long; `check` of it."""
    return copy_and_crc32(target, data, _seed(sequence))


def _seed(sequence: int) -> int:
    return crc32(sequence.to_bytes(8, "big"))
