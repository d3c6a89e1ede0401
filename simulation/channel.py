"""Channels, the directions of links, as faults shape them and watchers see them.

A channel itself is :class:`simulation.core.native.Channel`: rate, propagation delay, carrier and counters, in C. What
goes wrong there is physical: a channel goes down, and is shaped (:class:`topologies.faults.effect.PortShaping`):
slower, longer, or holding frames back. Random loss and corruption are up to the switches at its ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from simulation.core.native import Channel
from simulation.seeds import generator
from topologies.faults.effect import PortShaping


class ChannelWatcher(Protocol):
    """Who learns what becomes of a channel's frames."""

    def lost(self, frame: bytes, why: str) -> None:
        """A frame does not arrive."""

    def arrived(self, frame: bytes, deliver: Callable[[int, bytes], None]) -> None:
        """A frame arrives; the watcher delivers it to the port it is for."""


@dataclass(frozen=True, slots=True)
class ChannelStats:
    """Counters of a channel since the beginning: frames that it took, and what became of them."""

    frames: int
    bytes: int
    lost: int
    corrupted: int
    reordered: int


class ChannelShaper:
    """Shapes the channels of one world. What it draws at random for a channel follows from `seed` and its name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._draws: dict[tuple[str, str], random.Random] = {}

    def shape(self, channel: Channel, shape: PortShaping) -> None:
        """From now on the channel's frames are shaped like this; a rate above the channel's own changes nothing."""
        channel.shape(shape.rate_bps, shape.delay, self._hold_back(channel.name, shape) if shape.reorder else None)

    def _hold_back(self, name: str, shape: PortShaping) -> Callable[[], int]:
        whether, how_long = (self._generator(name, kind) for kind in ("reorder", "hold"))

        def held() -> int:
            """How much later a frame arrives, in ns."""
            return how_long.randint(1, max(1, shape.hold)) if whether.random() < shape.reorder else 0

        return held

    def _generator(self, name: str, kind: str) -> random.Random:
        found = self._draws.get((name, kind))
        if found is None:
            found = self._draws[name, kind] = generator(self._seed, name, kind)
        return found
