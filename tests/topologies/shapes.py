from __future__ import annotations

from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric

SHAPES: list[dict[str, int]] = [
    {"planes": 2, "t0": 2, "t1": 4, "hosts": 4},
    {"planes": 1, "t0": 1, "t1": 0, "hosts": 3},
    {"planes": 8, "t0": 1, "t1": 0, "hosts": 2},
    {"planes": 1, "t0": 3, "t1": 1, "hosts": 3},
    {"planes": 4, "t0": 1, "t1": 2, "hosts": 2},
    {"planes": 8, "t0": 4, "t1": 4, "hosts": 16},
]


def build(shape: dict[str, int]) -> Fabric:
    return multi_plane_clos("shape", **shape)
