"""Random fabrics of two and three tiers: uneven racks, missing links, rates and delays of their own."""

from __future__ import annotations

import random

from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import Fabric, T2Wiring
from topologies.link_rules import LinkRule


def random_fabric(rng: random.Random, *, missing: bool = True) -> Fabric:
    """A fabric in which every two hosts have a path."""
    found = None
    while found is None:
        found = _draw_or_none(rng, missing)
    return found


def three_tiers(name: str = "tiers", **sizes: int) -> Fabric:
    """Two pods of two racks with two hosts each, and four T2s, unless `sizes` says otherwise."""
    return multi_plane_clos(name, **{"planes": 2, "pods": 2, "t0": 2, "t1": 2, "t2": 4, "hosts": 8, **sizes})  # type: ignore[arg-type]


def _draw_or_none(rng: random.Random, missing: bool) -> Fabric | None:
    try:
        return _draw(rng, missing)
    except FabricError as error:
        if "have no path" not in str(error) and "no link in any plane" not in str(error):
            raise
        return None


def _draw(rng: random.Random, missing: bool) -> Fabric:
    planes, pods, t1 = rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 2, 3)), rng.choice((1, 2, 3))
    wiring = rng.choice(tuple(T2Wiring))
    t2 = t1 * rng.choice((1, 2)) if wiring is T2Wiring.GROUPS else rng.choice((1, 2, 3))
    racks = [[rng.choice((1, 1, 2, 3)) for _ in range(rng.choice((1, 2, 3)))] for _ in range(pods)]
    if sum(map(sum, racks)) < 2:
        racks[0][0] = 2
    whole = multi_plane_clos(
        "random", planes=planes, t1=t1, t2=t2 if pods > 1 else 0, t2_wiring=wiring, racks=racks, rate_bps=10**11
    )
    chance = rng.choice((0.0, 0.1, 0.3)) if missing else 0.0
    rules = [LinkRule(link.name, missing=True) for link in whole.links if rng.random() < chance]
    rules += [
        LinkRule(
            rng.choice(whole.links).name, rate_bps=rng.choice((10, 25, 400)) * 10**9, delay_ns=rng.choice((0, 5_000))
        )
        for _ in range(rng.choice((0, 2)))
    ]
    return multi_plane_clos(
        "random", planes=planes, t1=t1, t2=t2 if pods > 1 else 0, t2_wiring=wiring, racks=racks, rate_bps=10**11,
        links=sorted(rules, key=lambda rule: rule.missing),
    )  # fmt: skip
