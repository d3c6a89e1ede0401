"""Memory filled with random bytes, however much it is."""

from __future__ import annotations

import random
from typing import Final

_PIECE: Final = 1 << 24  # bytes; `randbytes` gives 2**31 bits at most


def fill(memory: memoryview, chance: random.Random) -> None:
    """As ``memory[:] = chance.randbytes(len(memory))``, whose bytes these are where that can give so many."""
    for at in range(0, len(memory), _PIECE):
        memory[at : at + _PIECE] = chance.randbytes(min(_PIECE, len(memory) - at))
