"""Stages of a group's life at which a rank may be lost or stopped: each has its end in bounded time on the others.

A rank passes them in this order: first those of a reconfiguration, then those of joining, each of which is a gather of
values over the store, then operations, and leaving. Tests lose and stop ranks at every stage of this list.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any

from mrc_lab.workloads.collectives import Exchange


class Stage(enum.Enum):
    """A stage begins; values of those of joining are names of gathers."""

    RETIRE = "retire"  # the old group is given up
    ROLL_CALL = "roll call"  # the members of the new one are called over
    LIVENESS_CARDS = "liveness/cards"  # addresses of the queue pairs for heartbeats
    LIVENESS_CONNECTED = "liveness/connected"
    COLLECTIVES_CARDS = "collectives/cards"
    COLLECTIVES_CONNECTED = "collectives/connected"
    MESSAGES_CARDS = "messages/cards"
    MESSAGES_CONNECTED = "messages/connected"
    COLLECTIVE = "collective"  # one has its turn
    LEAVE = "leave"


AtStage = Callable[[Stage], Awaitable[None]]


async def pass_stage(stage: Stage) -> None:
    """Go on at once."""


class StagedExchange:
    """An exchange of which each gather is a stage."""

    def __init__(self, exchange: Exchange, at_stage: AtStage) -> None:
        self._exchange = exchange
        self._at_stage = at_stage

    @property
    def rank(self) -> int:
        """As the exchange's."""
        return self._exchange.rank

    @property
    def world(self) -> int:
        """As the exchange's."""
        return self._exchange.world

    async def gather(self, name: str, value: Any) -> list[Any]:
        """As the exchange's."""
        await self._at_stage(Stage(name))
        return await self._exchange.gather(name, value)
