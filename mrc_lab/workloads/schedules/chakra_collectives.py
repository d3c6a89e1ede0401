"""Collectives of Chakra traces as messages between ranks.

A trace says what was called, and not how it was carried out. Here all-reduce, reduce-scatter and all-gather go around
a ring, broadcast and reduce along a chain, and all-to-all, gather and scatter directly, as in our own collectives
(docs/collectives.md). ``comm_size`` is what each rank gives: all-gather sends that much from rank to rank, those
that part it a share of it. The n-th collective that a rank calls in a group (``pg_name``) is that of the n-th call of
all others there; who is in a group is known by who calls anything in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mrc_lab.errors import FileError
from mrc_lab.workloads.schedules.schedule import MAX_OPERATIONS, MAX_SIZE, Operation, OperationKind

COLLECTIVES = {
    0: "all_reduce", 1: "reduce", 2: "all_gather", 3: "gather", 4: "scatter", 5: "broadcast", 6: "all_to_all",
    7: "reduce_scatter", 8: "reduce_scatter", 9: "barrier",
}  # fmt: skip
_TAGS = 1 << 31  # those of collectives begin here
_CPU = 2  # for what takes no time

# A message: from which position in the group to which, how many bytes.
Hop = tuple[int, int, int]


@dataclass(slots=True)
class _Call:
    """A rank's call: its node, and the operation with which it is done."""

    rank: int
    node: Any
    done: int


@dataclass(slots=True)
class Collectives:
    """All collectives of a trace; `operations` is what they are added to."""

    operations: list[Operation]
    _groups: dict[str, dict[int, list[_Call]]] = field(default_factory=dict)  # by name and rank

    def add(self, rank: int, node: Any) -> None:
        """A call of a rank; for now the one operation that is its end."""
        calls = self._groups.setdefault(str(node.attributes.get("pg_name", "")), {}).setdefault(rank, [])
        calls.append(_Call(rank, node, len(self.operations)))
        self.operations.append(Operation(rank, OperationKind.CALC, 0, cpu=_CPU, line=node.number, label=node.label))

    def expand(self) -> dict[int, list[int]]:
        """Add the messages of all; by the end of each call: the operations that begin it. FileError if calls differ."""
        begins: dict[int, list[int]] = {}
        tag = _TAGS
        for group in self._groups.values():
            ranks = sorted(group)
            most = max(len(calls) for calls in group.values())
            for number in range(most):
                for rank in ranks:
                    if len(group[rank]) <= number:
                        other = next(calls[number].node for calls in group.values() if len(calls) > number)
                        raise other.error(
                            f"rank {rank} does not take part: it has {len(group[rank])} calls in its group"
                        )
                self._expand_one([group[rank][number] for rank in ranks], tag, begins)
                tag += 1
        return begins

    def _expand_one(self, calls: list[_Call], tag: int, begins: dict[int, list[int]]) -> None:
        first = calls[0].node
        kind = COLLECTIVES[first.attributes.get("comm_type", 0)]
        size = 0 if kind == "barrier" else first.count("comm_size", MAX_SIZE)
        root = first.count("root_rank", len(calls) - 1) if "root_rank" in first.attributes else 0
        for call in calls:
            own = COLLECTIVES[call.node.attributes.get("comm_type", 0)]
            bytes_given = 0 if own == "barrier" else call.node.count("comm_size", MAX_SIZE)
            if (own, bytes_given) != (kind, size):
                theirs = f"{kind} of {size} ({first.source}, node {first.number})"
                raise call.node.error(f"it is {own} of {bytes_given} bytes where rank {calls[0].rank} has {theirs}")
        received: dict[int, int] = {}  # by position: the receive on which the sends of the next round wait
        parts: list[list[int]] = [[] for _ in calls]
        for messages in rounds(kind, len(calls), size, root):
            before, received = received, {}
            for source, target, length in messages:
                send = self._message(OperationKind.SEND, calls[source], calls[target].rank, length, tag)
                receive = self._message(OperationKind.RECV, calls[target], calls[source].rank, length, tag)
                if source in before:
                    self.operations[send].requires.append(before[source])
                else:
                    begins.setdefault(calls[source].done, []).append(send)
                begins.setdefault(calls[target].done, []).append(receive)
                received[target] = receive
                parts[source].append(send)
                parts[target].append(receive)
        for call, own_parts in zip(calls, parts, strict=True):
            self.operations[call.done].requires += own_parts
            begins.setdefault(call.done, []).append(call.done)

    def _message(self, kind: OperationKind, call: _Call, peer: int, size: int, tag: int) -> int:
        if len(self.operations) >= MAX_OPERATIONS:
            raise FileError(f"{call.node.source}: more than {MAX_OPERATIONS} operations with those of its collectives")
        node = call.node
        self.operations.append(Operation(call.rank, kind, size, peer, tag, line=node.number, label=node.label))
        return len(self.operations) - 1


def rounds(kind: str, ranks: int, size: int, root: int) -> Iterator[Sequence[Hop]]:
    """The messages of a collective, of which each rank gives `size` bytes.

    What a rank sends in a round waits for what it has received in the round before.
    """
    share = -(-size // ranks)
    circle = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    if kind in ("all_reduce", "barrier"):
        yield from ([(*ends, share) for ends in circle] for _ in range(2 * (ranks - 1)))
    elif kind in ("reduce_scatter", "all_gather"):
        length = size if kind == "all_gather" else share
        yield from ([(*ends, length) for ends in circle] for _ in range(ranks - 1))
    elif kind in ("broadcast", "reduce"):
        first = root if kind == "broadcast" else root + 1
        yield from ([(*circle[(first + step) % ranks], size)] for step in range(ranks - 1))
    elif kind == "gather":
        yield [(rank, root, size) for rank in range(ranks) if rank != root]
    elif kind == "scatter":
        yield [(root, rank, share) for rank in range(ranks) if rank != root]
    else:
        yield [(rank, (rank + step) % ranks, share) for step in range(1, ranks) for rank in range(ranks)]
