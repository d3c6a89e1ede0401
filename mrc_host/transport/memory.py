"""Registered memory: what a remote write may access, and how an address becomes bytes.

A region is a writable buffer with a 64-bit virtual address. Either its owner chooses that (verbs: iova); then it may be
the same as another region's, since only the key tells regions apart. Or the NIC does: such regions are page aligned, a
page apart, and no address is ever reused. Keys are random 32-bit numbers from the NIC's seeded generator. ``remote`` is
the only way from an rkey to memory, and checks everything first.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from mrc_host.errors import InvalidArgumentError, NotFoundError
from mrc_host.verbs_types import Access, MemoryRegionInfo

if TYPE_CHECKING:
    from mrc_host.datapath import native

_PAGE: Final = 4096
_BASE: Final = 0x7A00_0000_0000
NOTHING: Final = memoryview(bytearray())


class Region:
    """One registered buffer. `view` is None once it is deregistered."""

    __slots__ = ("address", "length", "lkey", "pd", "placed", "remote_write", "rkey", "view")

    def __init__(self, address: int, view: memoryview, lkey: int, rkey: int, pd: int, remote_write: bool) -> None:
        self.address = address
        self.length = len(view)
        self.view: memoryview | None = view
        self.lkey = lkey
        self.rkey = rkey
        self.pd = pd
        self.remote_write = remote_write
        self.placed: native.Region | None = None  # the same buffer, for the datapath in C


def empty_region(address: int) -> Region:
    """A region for a write of no bytes to `address`: that needs no memory, so its rkey and bounds do not matter."""
    return Region(address, NOTHING, 0, 0, 0, True)


class MemoryTable:
    """All regions of one NIC."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._by_lkey: dict[int, Region] = {}
        self._by_rkey: dict[int, Region] = {}
        self._next = _BASE + (rng.getrandbits(24) << 12)

    def register(self, pd: int, buffer: memoryview, access: Access, address: int | None = None) -> MemoryRegionInfo:
        """Add a region; see ``Nic.register_memory``."""
        if pd < 0:
            raise InvalidArgumentError(f"Protection domain {pd} is negative.")
        if buffer.readonly or not buffer.contiguous:
            raise InvalidArgumentError("The buffer must be writable and contiguous, like memoryview(bytearray(n)).")
        if access & Access.REMOTE_WRITE and not access & Access.LOCAL_WRITE:
            raise InvalidArgumentError("A region with REMOTE_WRITE needs LOCAL_WRITE too.")
        if buffer.nbytes == 0:
            raise InvalidArgumentError("A memory region needs at least one byte.")
        if address is None:
            address = self._next
            self._next += (buffer.nbytes + 2 * _PAGE - 1) // _PAGE * _PAGE
        elif not 0 <= address <= (1 << 64) - buffer.nbytes:
            raise InvalidArgumentError(
                f"A region of {buffer.nbytes} bytes at address {address:#x} does not end within 64 bits."
            )
        lkey, rkey = self._key(self._by_lkey), self._key(self._by_rkey)
        region = Region(address, buffer.cast("B"), lkey, rkey, pd, bool(access & Access.REMOTE_WRITE))
        self._by_lkey[lkey] = region
        self._by_rkey[rkey] = region
        return MemoryRegionInfo(region.address, region.length, lkey, rkey)

    def deregister(self, lkey: int) -> None:
        """Remove a region; its rkey is refused from now on."""
        region = self._by_lkey.pop(lkey, None)
        if region is None:
            raise NotFoundError(f"No memory region has lkey {lkey:#x}.")
        del self._by_rkey[region.rkey]
        region.view = None
        if region.placed is not None:
            region.placed.release()

    def local(self, pd: int, lkey: int, address: int, length: int) -> memoryview | None:
        """The bytes of a local range, or None if the key, protection domain or bounds are wrong.

        An empty range needs no region, so its key and address may be anything (IBTA, for zero-length requests).
        """
        if not length:
            return NOTHING
        region = self._by_lkey.get(lkey)
        if region is None or region.pd != pd or region.view is None:
            return None
        start = address - region.address
        if start < 0 or start + length > region.length:
            return None
        return region.view[start : start + length]

    def remote(self, pd: int, rkey: int, address: int, length: int) -> Region | None:
        """The region in which a peer may write `length` bytes at `address`, or None if it may not."""
        region = self._by_rkey.get(rkey)
        if region is None or region.pd != pd or not region.remote_write:
            return None
        start = address - region.address
        if start < 0 or start + length > region.length:
            return None
        return region

    def _key(self, taken: dict[int, Region]) -> int:
        while True:
            key = self._rng.getrandbits(32)
            if key and key not in taken:
                return key
