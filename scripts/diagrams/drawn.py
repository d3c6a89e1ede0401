"""The diagrams by the name of their file in docs/diagrams."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scripts.diagrams.concepts import concepts, processes
from scripts.diagrams.fabrics import ROOT, address, fabric, rooms
from scripts.diagrams.lost_packet import lost_packet
from scripts.diagrams.states import path, queue_pair

FOLDER = ROOT / "docs" / "diagrams"
DIAGRAMS: Mapping[str, Callable[[], str]] = {
    "demo-fabric": fabric,
    "three-tiers": lambda: fabric("three_tiers.yaml"),
    "uneven": lambda: fabric("uneven.yaml"),
    "two-clusters": lambda: fabric("two_clusters.yaml"),
    "address": address,
    "rooms": rooms,
    "concepts": concepts,
    "processes": processes,
    "queue-pair-states": queue_pair,
    "path-states": path,
    "lost-packet": lost_packet,
}
