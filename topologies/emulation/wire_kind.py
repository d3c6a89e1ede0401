"""Kinds of wires between the processes of an emulated fabric, by the names that `--wire` takes."""

from __future__ import annotations

import enum

DEFAULT = "veth"


class WireKind(enum.Enum):
    """Every link is a pair of interfaces; this is how frames pass."""

    VETH = "veth"  # through the interfaces: packet sockets
    RING = "ring"  # in memory: NICs by shared-memory rings, switches of one process from one to the next
