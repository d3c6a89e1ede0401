"""Memory that the application and the NIC share: memfds, which one creates and both map.

Sealed against shrinking, a memfd cannot lose pages that the other side has mapped, so neither can make the other fault
(SIGBUS). Memory of huge pages is refused: the kernel may have none left when such a page is touched, with that signal.
"""

from __future__ import annotations

import fcntl
import mmap
import os

from mrc_host.errors import InvalidArgumentError, ResourceExhaustedError

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create(length: int) -> int:
    """Descriptor of a new memfd of `length` zeroed bytes, sealed for good; OSError."""
    fd = os.memfd_create("mrc-mr", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, length)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def map_part(fd: int, offset: int, length: int) -> tuple[mmap.mmap, memoryview]:
    """Map `length` bytes at `offset` of a memfd: the mapping, which starts at a page, and a view of those bytes.

    InvalidArgumentError if it is no memfd, could shrink or ends before them; ResourceExhaustedError.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise InvalidArgumentError("The descriptor is not a memfd that allows sealing.") from None
    if not seals & fcntl.F_SEAL_SHRINK:
        raise InvalidArgumentError("The memfd is not sealed against shrinking (F_SEAL_SHRINK).")
    if os.fstatvfs(fd).f_bsize != mmap.PAGESIZE:
        raise InvalidArgumentError("The memfd has huge pages (MFD_HUGETLB): create it without.")
    size = os.fstat(fd).st_size
    if size < offset + length:
        behind = f" at offset {offset}" if offset else ""
        raise InvalidArgumentError(f"The memfd has {size} bytes, less than the region's {length}{behind}.")
    start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    try:
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        memory = mmap.mmap(fd, offset - start + length, mmap.MAP_SHARED, rights, offset=start)
    except (OSError, ValueError) as error:
        raise ResourceExhaustedError(f"Cannot map {length} bytes of the memfd: {error}.") from None
    return memory, memoryview(memory)[offset - start :]
