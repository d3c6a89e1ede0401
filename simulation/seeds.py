"""Seeds of a run's parts: every part that needs chance derives its own from the run's by name.

So what one part draws never depends on how often, or when, another does, nor on Python's own hashing.
"""

from __future__ import annotations

import hashlib
import random


def derive(seed: int, *names: object) -> int:
    """A 64-bit seed for the part called `names`."""
    text = "\0".join((str(seed), *map(str, names)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def generator(seed: int, *names: object) -> random.Random:
    """A random generator of its own for the part called `names`."""
    return random.Random(derive(seed, *names))
