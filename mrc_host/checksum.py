"""CRC-32, the transport's largest cost per byte: the datapath's, or zlib-ng's or zlib's where that cannot be compiled.

All give the same result. An application whose NIC is elsewhere needs no C compiler, but has the fastest as well. For a
packet of 4096 bytes zlib takes nine times as long as zlib-ng, a seventh of all the CPU time that a sender spends on
the packet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc_common.c_build.errors import CBuildError

if TYPE_CHECKING:
    from zlib import crc32

    from mrc_host.datapath.native import copy_and_crc32
else:
    try:
        from mrc_host.datapath.native import copy_and_crc32, crc32
    except (CBuildError, ImportError):  # who makes a NIC gets it
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
