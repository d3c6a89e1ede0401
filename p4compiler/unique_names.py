"""Names that are different from each other."""

from __future__ import annotations


class UniqueNames:
    """Names that are taken; one that is taken already gets the next number: ``x``, ``x_0``, ``x_1``, ..."""

    def __init__(self, *taken: str) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}  # the next of each name

    def add(self, name: str) -> None:
        """Take a name as it is."""
        self._taken.add(name)

    def take(self, name: str) -> str:
        """Take the name, or a similar one."""
        made, number = name, self._numbers.get(name, 0)
        while made in self._taken:
            made = f"{name}_{number}"
            number += 1
        self._numbers[name] = number
        self._taken.add(made)
        return made
