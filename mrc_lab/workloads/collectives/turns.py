"""Operations of one rank, one after another in the order of their calls, as on a CUDA stream.

Peers count on that order, and nobody knows what they have of an operation that does not come to its end: so it ends all
that follow.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from mrc_lab.errors import TransferError


class Turns:
    """The turns of rank `rank`; `failed` is called once, with the first failure."""

    def __init__(self, rank: int, failed: Callable[[Exception], None]) -> None:
        self._rank = rank
        self._failed = failed
        self._lock = asyncio.Lock()  # fair: operations take it in the order of their calls
        self._failure: Exception | None = None

    def fail(self, failure: Exception) -> None:
        """No operation has a turn any more; those called later or waiting raise `failure`, if it is the first."""
        if self._failure is None:
            self._failure = failure
            self._failed(failure)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The turn of one operation; if that raises or is cancelled, also while it waits, none after it has one."""
        try:
            async with self._lock:
                if self._failure is not None:
                    raise self._failure
                yield
        except Exception as failure:
            self.fail(failure)
            raise
        except BaseException:
            self.fail(TransferError(f"rank {self._rank} cancelled an operation before its end"))
            raise
