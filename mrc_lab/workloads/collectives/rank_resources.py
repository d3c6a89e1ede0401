"""Resources of a communicator on each NIC: the plan all ranks share, what one rank creates, and what it publishes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrc_host.errors import MrcError
from mrc_host.verbs import CompletionQueue, Context, Endpoint, MemoryRegion, ProtectionDomain, QueuePair, RemoteMemory
from mrc_host.verbs_types import Access, QpAddress
from mrc_lab.workloads.collectives.settings import Peers, StreamSettings
from mrc_lab.workloads.collectives.stream import CREDIT_AREA, Place, Receiver, Sender


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Who has streams to whom, and where each stream's slots are in everybody's region."""

    settings: StreamSettings
    world: int
    peers: Peers

    def outgoing(self, rank: int) -> list[int]:
        """Ranks that `rank` sends to; the next one first."""
        steps = min(1, self.world - 1) if self.peers is Peers.RING else self.world - 1
        return [(rank + step) % self.world for step in range(1, steps + 1)]

    def incoming(self, rank: int) -> list[int]:
        """Ranks that `rank` receives from; the previous one first."""
        steps = min(1, self.world - 1) if self.peers is Peers.RING else self.world - 1
        return [(rank - step) % self.world for step in range(1, steps + 1)]

    def region_bytes(self) -> int:
        """The same on every rank."""
        return CREDIT_AREA + 2 * len(self.outgoing(0)) * self._window_bytes

    def send_window(self, rank: int, peer: int) -> int:
        """Where `rank` keeps what it sends to `peer`."""
        return self._window((peer - rank) % self.world - 1)

    def receive_window(self, rank: int, peer: int) -> int:
        """Where `rank` gets what `peer` sends."""
        return self._window(len(self.outgoing(rank)) + (rank - peer) % self.world - 1)

    @property
    def _window_bytes(self) -> int:
        return self.settings.window * self.settings.slot_bytes

    def _window(self, index: int) -> int:
        return CREDIT_AREA + index * self._window_bytes


@dataclass(frozen=True, slots=True)
class Card:
    """What the others need to know of a rank: its memory and its queue pairs by peer."""

    memory: RemoteMemory
    outgoing: Mapping[int, Sequence[QpAddress]]  # by peer
    incoming: Mapping[int, Sequence[QpAddress]]

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
        pairs = [
            [[peer, [str(Endpoint(address)) for address in some]] for peer, some in pairs.items()]
            for pairs in (self.outgoing, self.incoming)
        ]
        return {"memory": str(self.memory), "pairs": pairs}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], reader: int) -> Card:
        """What :meth:`to_json` gave, with those queue pairs only that rank `reader` connects to: others are many."""
        outgoing, incoming = (
            {peer: [Endpoint.parse(text).qp for text in some] for peer, some in pairs if peer == reader}
            for pairs in value["pairs"]
        )
        return cls(RemoteMemory.parse(value["memory"]), outgoing, incoming)


@dataclass(frozen=True, slots=True)
class Resources:
    """What a rank makes on its NIC."""

    rank: int
    domain: ProtectionDomain
    region: MemoryRegion
    queue: CompletionQueue
    outgoing: Mapping[int, Sequence[QueuePair]]
    incoming: Mapping[int, Sequence[QueuePair]]

    @classmethod
    def create(cls, device: Context, plan: StreamPlan, rank: int) -> Resources:
        """Queue pairs are made next neighbour first, then previous, then the others alike. All are made, or none."""
        settings, domain = plan.settings, device.alloc_pd()
        outgoing, incoming = plan.outgoing(rank), plan.incoming(rank)
        with contextlib.ExitStack() as undo:
            undo.callback(_close, domain)
            region = domain.alloc_mr(plan.region_bytes(), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
            queue = device.create_cq(_capacity(settings, len(outgoing) + len(incoming)))
            undo.callback(_close, domain, queue)

            def make() -> list[QueuePair]:
                every = range(settings.queue_pairs)
                return [domain.create_qp(queue, queue, settings.qp_type, settings.attributes) for _ in every]

            pairs: tuple[dict[int, list[QueuePair]], dict[int, list[QueuePair]]] = ({}, {})
            for to, source in zip(outgoing, incoming, strict=True):
                pairs[0][to] = make()
                pairs[1][source] = make()
            undo.pop_all()
        return cls(rank, domain, region, queue, *pairs)

    def close(self) -> None:
        """Destroy everything. An agent that is gone has done so."""
        _close(self.domain, self.queue)

    @property
    def card(self) -> Card:
        """The addresses for the other ranks."""
        info = self.region.info
        addresses = (
            {peer: [pair.address for pair in some] for peer, some in pairs.items()}
            for pairs in (self.outgoing, self.incoming)
        )
        return Card(RemoteMemory(info.address, info.length, info.rkey), *addresses)

    def sender(self, plan: StreamPlan, peer: int, card: Card) -> Sender:
        """The stream to `peer`, connected."""
        pairs, rank = self.outgoing[peer], self.rank
        _connect(pairs, card.incoming[rank])
        windows = plan.send_window(rank, peer), plan.receive_window(peer, rank)
        name = f"rank {rank} to rank {peer}"
        return Sender(Place(name, plan.settings, pairs, self.region, windows[0], card.memory, windows[1]))

    def receiver(self, plan: StreamPlan, peer: int, card: Card) -> Receiver:
        """The stream from `peer`, connected."""
        pairs, rank = self.incoming[peer], self.rank
        _connect(pairs, card.outgoing[rank])
        windows = plan.receive_window(rank, peer), plan.send_window(peer, rank)
        name = f"rank {rank} from rank {peer}"
        return Receiver(Place(name, plan.settings, pairs, self.region, windows[0], card.memory, windows[1]))


def _close(*parts: ProtectionDomain | CompletionQueue) -> None:
    for part in parts:
        with contextlib.suppress(MrcError):
            part.close()


def _connect(pairs: Sequence[QueuePair], far: Sequence[QpAddress]) -> None:
    for pair, address in zip(pairs, far, strict=True):
        pair.connect(address)


def _capacity(settings: StreamSettings, pairs: int) -> int:
    """Room for all completions that a rank may leave lying: its own and its peers' WRITE_WITH_IMMs, and failures."""
    parts = settings.queue_pairs if settings.split else 1
    return max(1, pairs) * (4 * settings.window * parts + 16)
