"""Writes indented C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Collects lines; `block` writes braces around what is written inside it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def __call__(self, line: str = "") -> None:
        """One line, or several separated by newlines."""
        for part in line.split("\n"):
            self.lines.append("    " * self.depth + part if part else "")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head {` ... `tail`."""
        self(head + " {")
        self.depth += 1
        yield
        self.depth -= 1
        self(tail)

    def text(self) -> str:
        """The whole text."""
        return "\n".join(self.lines) + "\n"
