"""Memory that the NIC may read for sending and write on arrival."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mrc_host.errors import MrcError
from mrc_host.verbs.errors import ClosedError
from mrc_host.verbs.provider import Provider
from mrc_host.verbs_types import MemoryRegionInfo

_REMOTE = re.compile(r"(?P<address>[0-9a-f]{1,16})\+(?P<length>[0-9a-f]{1,16}):(?P<rkey>[0-9a-f]{1,8})")


@dataclass(frozen=True, slots=True)
class RemoteMemory:
    """A peer's memory region as its owner published it: address of its first byte, length in bytes, rkey."""

    address: int
    length: int
    rkey: int

    def __str__(self) -> str:
        return f"{self.address:x}+{self.length:x}:{self.rkey:08x}"

    @classmethod
    def parse(cls, text: str) -> RemoteMemory:
        """The value that `str` was made from; raises MrcError if `text` is not of that form."""
        match = _REMOTE.fullmatch(text)
        if match is None:
            raise MrcError(f"{text!r} is not a remote memory region (address+length:rkey in hexadecimal).")
        return cls(*(int(match[name], 16) for name in ("address", "length", "rkey")))


class MemoryRegion:
    """Registered memory, created by `ProtectionDomain.alloc_mr` or `reg_mr`.

    `buffer` is the memory itself, a writable view of bytes: the application may slice it, or wrap it in a numpy array
    (`numpy.frombuffer(mr.buffer, ...)`). What a peer writes appears in it. Do not change a range that is being sent
    before its work request completes.
    """

    def __init__(
        self,
        provider: Provider,
        info: MemoryRegionInfo,
        buffer: memoryview,
        forget: Callable[[MemoryRegion], None],
    ) -> None:
        self.info = info
        self._provider = provider
        self._buffer = buffer
        self._forget = forget
        self._closed = False

    @property
    def buffer(self) -> memoryview:
        """The memory, writable."""
        if self._closed:
            raise ClosedError("This memory region is closed.")
        return self._buffer

    @property
    def address(self) -> int:
        """What work requests call the first byte: the address chosen at registration, else one of the NIC's."""
        return self.info.address

    @property
    def rkey(self) -> int:
        """Key with which a peer may write here."""
        return self.info.rkey

    @property
    def remote(self) -> RemoteMemory:
        """What a peer needs to write here."""
        return RemoteMemory(self.info.address, self.info.length, self.info.rkey)

    def __len__(self) -> int:
        return self.info.length

    def close(self) -> None:
        """Deregister: peers can no longer write here. Closing twice does nothing.

        The memory itself exists as long as the application holds views of it.
        """
        if not self._closed:
            self._provider.deregister_memory(self.info.lkey)
            self.abandon()

    def abandon(self) -> None:
        """Mark the region closed without a command to the NIC, because the whole context is being closed."""
        self._closed = True
        self._forget(self)

    def __enter__(self) -> MemoryRegion:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
