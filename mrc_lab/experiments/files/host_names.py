"""Hosts that experiment files name: one by one, by patterns, or as the two ends of a flow."""

from __future__ import annotations

from collections.abc import Iterable

from topologies.fabric import Fabric


def several_hosts(patterns: Iterable[str], fabric: Fabric) -> list[str]:
    """Hosts that match any of the patterns; ValueError when they are not two at least."""
    hosts = select_hosts(patterns, fabric)
    if len(hosts) < 2:
        raise ValueError(f"needs two hosts or more, but has {len(hosts)}")
    return hosts


def split_pair(text: str, fabric: Fabric) -> tuple[str, str]:
    """Source and destination of ``h1>h3``."""
    source, arrow, destination = (part.strip() for part in text.partition(">"))
    if not arrow:
        raise ValueError(f"{text!r} is not a flow: write source>destination, as in h1>h3")
    fabric.nic(source)
    fabric.nic(destination)
    if source == destination:
        raise ValueError(f"{text!r} leads from a host to itself")
    return source, destination


def select_hosts(patterns: Iterable[str], fabric: Fabric) -> list[str]:
    """Hosts that match any of the patterns, in the fabric's order; FabricError for a pattern that matches none."""
    chosen = {nic.name for pattern in patterns for nic in fabric.find_nics(pattern)}
    return [name for name in fabric.nic_names if name in chosen]
