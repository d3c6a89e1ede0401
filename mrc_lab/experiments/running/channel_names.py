"""Names of channels: a channel is one direction of a link, the link's name with ``>`` upwards or ``<`` downwards."""

from __future__ import annotations

from topologies.fabric import Fabric, LinkEnd


def channel_from(fabric: Fabric, node: str, port: int) -> str | None:
    """The channel that begins at a port; None where no link is plugged in."""
    end = LinkEnd(node, port)
    link = fabric.link_at(end)
    return None if link is None else f"{link.name}{'>' if end == link.lower else '<'}"


def channel_to(fabric: Fabric, node: str, port: int) -> str | None:
    """The channel that ends at a port; None where no link is plugged in."""
    channel = channel_from(fabric, node, port)
    return None if channel is None else reverse(channel)


def reverse(channel: str) -> str:
    """The other direction of the same link."""
    return channel[:-1] + ("<" if channel[-1] == ">" else ">")


def in_words(channel: str) -> str:
    """A channel as people read it: ``h1@p0 up``."""
    return f"{channel[:-1]} {'up' if channel[-1] == '>' else 'down'}"
