"""Names of lines: a line is one direction of a link, the link's name with ``>`` upwards or ``<`` downwards."""

from __future__ import annotations

from topologies.fabric import Endpoint, Fabric


def line_from(fabric: Fabric, node: str, port: int) -> str | None:
    """The line that begins at a port; None where no link is plugged in."""
    end = Endpoint(node, port)
    link = fabric.link_at(end)
    return None if link is None else f"{link.name}{'>' if end == link.lower else '<'}"


def line_to(fabric: Fabric, node: str, port: int) -> str | None:
    """The line that ends at a port; None where no link is plugged in."""
    line = line_from(fabric, node, port)
    return None if line is None else line[:-1] + ("<" if line[-1] == ">" else ">")


def in_words(line: str) -> str:
    """A line as people read it: ``h1@p0 up``."""
    return f"{line[:-1]} {'up' if line[-1] == '>' else 'down'}"
