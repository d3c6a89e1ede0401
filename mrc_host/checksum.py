"""CRC-32, the transport's largest cost per byte: the datapath's where that is compiled, else zlib-ng's, else zlib's.

All give the same result, so applications whose NIC is elsewhere, and the plain transport, have the fastest as well. For
a packet of 4096 bytes zlib takes nine times as long as zlib-ng, a seventh of all the CPU time that a sender spends on
the packet.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mrc_host import datapath
from mrc_host.errors import InvalidArgumentError

if TYPE_CHECKING:
    from zlib import crc32

    from mrc_host.datapath.native import copy_and_crc32
else:
    _native = None
    with contextlib.suppress(ImportError, InvalidArgumentError):  # who makes a NIC gets it
        _native = datapath.available()
    if _native is not None:
        crc32, copy_and_crc32 = _native.crc32, _native.copy_and_crc32
    else:
        try:
            from zlib_ng.zlib_ng import crc32
        except ImportError:
            from zlib import crc32

        def copy_and_crc32(target, source, crc=0):
            """Copy all of `source` to the beginning of `target`, which is elsewhere; the CRC of what was copied."""
            copied = memoryview(target).cast("B")[: memoryview(source).nbytes]
            copied[:] = memoryview(source).cast("B")
            return crc32(copied, crc)


__all__ = ["copy_and_crc32", "crc32"]
