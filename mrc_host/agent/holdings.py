"""Objects that a client has on the NIC."""

from __future__ import annotations

import contextlib
import mmap
from dataclasses import dataclass, field

from mrc_host.verbs_types import QpType


@dataclass(slots=True)
class MappedRegion:
    """A client's memory mapped here."""

    memory: mmap.mmap
    view: memoryview

    def close(self) -> None:
        """Unmap. While the NIC still holds a slice, the mapping goes with the last slice instead."""
        with contextlib.suppress(BufferError):
            self.view.release()
            self.memory.close()


@dataclass(slots=True)
class ClientQueue:
    """A completion queue of a client: `credit` entries may still be sent before it has taken some."""

    number: int
    credit: int
    capacity: int


@dataclass(slots=True)
class ClientQueuePair:
    """A queue pair of a client, as far as the agent needs to know it."""

    qpn: int
    kind: QpType
    send_cq: int
    recv_cq: int
    pd: int
    remote: str = ""


@dataclass(slots=True)
class Holdings:
    """Everything on the NIC that belongs to one client."""

    pds: dict[int, int] = field(default_factory=dict)
    """Protection domains, and how many queue pairs and memory regions each has."""
    queues: dict[int, ClientQueue] = field(default_factory=dict)
    pairs: dict[int, ClientQueuePair] = field(default_factory=dict)
    regions: dict[int, MappedRegion] = field(default_factory=dict)
    region_pds: dict[int, int] = field(default_factory=dict)
