"""The paths to one peer that a controller has denied (docs/protocol.md §3, R3.13), counted by plane.

They carry neither data nor answers. A plane whose paths are all denied is not used at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Denylist:
    """Denied paths, in the order in which they were denied."""

    __slots__ = ("_paths", "of_plane")

    def __init__(self, ports: int) -> None:
        self._paths: dict[int, None] = {}
        self.of_plane = [0] * ports  # number of denied paths

    def __contains__(self, index: object) -> bool:
        return index in self._paths

    def __iter__(self) -> Iterator[int]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def set(self, index: int, plane: int, denied: bool) -> None:
        """Deny path `index` or allow it; does nothing if it is so already."""
        if denied == (index in self._paths):
            return
        if denied:
            self._paths[index] = None
            self.of_plane[plane] += 1
        else:
            del self._paths[index]
            self.of_plane[plane] -= 1

    def open(self, planes: int, members: Sequence[Sequence[int]]) -> int:
        """The planes in mask `planes` that have an allowed path; `members` are the paths by plane."""
        if self._paths:
            for plane, denied in enumerate(self.of_plane):
                if denied == len(members[plane]):
                    planes &= ~(1 << plane)
        return planes
