"""Which nodes of a graph lie on a cycle (Tarjan's strongly connected components, without recursion)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def on_cycles(graph: Mapping[N, Iterable[N]]) -> frozenset[N]:
    """The nodes that can be reached from themselves; every successor must be a node too."""
    numbers: dict[N, int] = {}
    lowest: dict[N, int] = {}
    path: list[N] = []
    on_path: set[N] = set()
    found = {node for node, successors in graph.items() if node in successors}
    for root in graph:
        if root in numbers:
            continue
        work = [(root, iter(graph[root]))]
        while work:
            node, rest = work[-1]
            if node not in numbers:
                numbers[node] = lowest[node] = len(numbers)
                path.append(node)
                on_path.add(node)
            below = next((item for item in rest if item not in numbers or item in on_path), None)
            if below is not None and below not in numbers:
                work.append((below, iter(graph[below])))
            elif below is not None:
                lowest[node] = min(lowest[node], numbers[below])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == numbers[node]:
                    component = path[path.index(node) :]
                    del path[-len(component) :]
                    on_path.difference_update(component)
                    if len(component) > 1:
                        found.update(component)
    return frozenset(found)
