"""An all-gather into one array for each rank, which may differ in size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mrc_lab.torch.tensors import Array
from mrc_lab.workloads.collectives import Communicator


async def gather_in_all(ranks: Communicator, given: Array, places: Sequence[Array]) -> None:
    """Every rank's `given` in `places`; if they differ in size every rank sends its own to each other one.

    All ranks have the same sizes in `places`, so they choose the same way.
    """
    if len({place.size for place in places}) > 1:
        sent = given.copy() if any(np.may_share_memory(given, place) for place in places) else given
        await ranks.exchange([sent] * len(places), places)
        return
    every = np.empty(given.size * len(places), np.uint8)
    await ranks.all_gather(given, every)
    for part, place in zip(np.split(every, len(places)), places, strict=True):
        place[:] = part
