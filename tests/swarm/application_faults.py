"""What hosts and applications do to a plan's queue pairs, as faults of the plan: see :mod:`tests.swarm.scenario`.

Reconnecting and restarting happen at their `start`; a completion queue's setting holds as long as the fault, as does
the silence of a queue pair.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from topologies.faults import Fault


class Manner(enum.Enum):
    """How the two ends of a queue pair come to a new life."""

    TOGETHER = "together"  # both are reset, then both connect to each other, all at one moment
    BY_TURNS = "by turns"  # one is reset and notifies the other, which is reset, connects and notifies the first
    ALONE = "alone"  # one is reset and connects to the other, which is not notified until `end`, if ever


@dataclass(frozen=True, slots=True)
class Reconnect(Fault):
    """Pair number `pair` gets a new life, begun by its first end or (`back`) its second.

    With `recreate` queue pairs are destroyed and created instead of being reset. A message from one application to the
    other takes `word` ns. An end that was left `alone` is reconnected, by turns, when the fault ends.
    """

    pair: int
    back: bool
    manner: Manner
    recreate: bool
    word: int


@dataclass(frozen=True, slots=True)
class Restart(Fault):
    """A NIC forgets everything at once; its applications come back when the fault ends, and reconnect by turns."""

    nic: str
    word: int


@dataclass(frozen=True, slots=True)
class Revoke(Fault):
    """At one end of a pair (the first, or `back`) the memory that the other writes to is deregistered."""

    pair: int
    back: bool


@dataclass(frozen=True, slots=True)
class SharedQueue(Fault):
    """All queue pairs of a NIC complete in one queue of `capacity` entries, from the beginning to the end."""

    nic: str
    capacity: int


@dataclass(frozen=True, slots=True)
class SlowPoller(Fault):
    """Until it ends, each application of this NIC waits for `interval` ns before it takes one more completion."""

    nic: str
    interval: int


@dataclass(frozen=True, slots=True)
class Mute(Fault):
    """The NIC at one end of a pair (the first, or `back`) takes no packet for it, though it does for all others."""

    pair: int
    back: bool


HOST_FAULTS = (Reconnect, Restart, Revoke, SharedQueue, SlowPoller, Mute)
