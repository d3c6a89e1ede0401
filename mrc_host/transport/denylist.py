"""The paths to one peer that a controller forbids (docs/protocol.md §3, R3.13), counted by plane.

They carry neither data nor answers. A plane with nothing but such paths is shut: what would leave there goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Denylist:
    """Forbidden paths, in the order in which they were forbidden."""

    __slots__ = ("_paths", "of_plane")

    def __init__(self, ports: int) -> None:
        self._paths: dict[int, None] = {}
        self.of_plane = [0] * ports  # how many there are

    def __contains__(self, index: object) -> bool:
        return index in self._paths

    def __iter__(self) -> Iterator[int]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def set(self, index: int, plane: int, denied: bool) -> None:
        """Forbid path `index` or allow it; nothing changes when it is so already."""
        if denied == (index in self._paths):
            return
        if denied:
            self._paths[index] = None
            self.of_plane[plane] += 1
        else:
            del self._paths[index]
            self.of_plane[plane] -= 1

    def open(self, planes: int, members: Sequence[Sequence[int]]) -> int:
        """Those of the planes in mask `planes` that have an allowed path; `members` are the paths by plane."""
        if self._paths:
            for plane, denied in enumerate(self.of_plane):
                if denied == len(members[plane]):
                    planes &= ~(1 << plane)
        return planes
