"""Which attributes the ends of a pair give their queue pairs in each life, at random: all that a queue pair has.

A queue pair is created with those of its plan. In each life it is given some others, and what it is not given it must
have as it was created. The ends agree on what concerns both: path MTU, what each accepts, whether it answers trims.
Everything is drawn from the plan's seed and the number of the life, so that a part of a plan has the same lives.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mrc_host.verbs_types import QpAttributes, QpType
from simulation.seeds import generator
from tests.swarm.plane_masks import life_masks
from tests.swarm.scenario import PlannedPair, Scenario

EV_PROFILE: Final = 1  # number of a profile that has every path, on every NIC
_RETRIES: Final = (10, 32)
_MORE_TIMEOUT: Final = (0, 1, 2)  # added to the exponent that fits the fabric
_PSNS: Final = (0, 7, 0x7FFFFE, 0xFFFFF0, 0xFFFFFF)


@dataclass(frozen=True, slots=True)
class LifeAttributes:
    """What one end gives in one life (`given`), and all that its queue pair must have then, first PSNs aside."""

    given: Mapping[str, Any]
    all: QpAttributes


def draw(scenario: Scenario, number: int, life: int) -> tuple[LifeAttributes, LifeAttributes]:
    """Attributes of both ends of pair `number` when they connect for their life `life`."""
    pair = scenario.pairs[number]
    if not pair.renewed:
        return LifeAttributes({}, pair.created(False)), LifeAttributes({}, pair.created(True))
    rng = generator(scenario.seed, "life", number, life)
    first, second = _own(rng, pair), _own(rng, pair)
    mtu = _some(rng, (256, 1024, 4096))
    for mine, theirs in ((first, second), (second, first)):
        mine["path_mtu"] = mtu
        for accepted, name in (("mpr", "mpr_dest"), ("max_wimm", "max_wimm_dest"), ("trim_nack", "trim_nack_dest")):
            theirs[name] = mine[accepted]
    first["planes"], second["planes"] = life_masks(scenario, number, life)
    return _given(rng, pair.created(False), first), _given(rng, pair.created(True), second)


def _own(rng: random.Random, pair: PlannedPair) -> dict[str, Any]:
    """What one end chooses by itself; None where it gives nothing."""
    created = pair.attributes
    own: dict[str, Any] = {
        "mpr": _some(rng, (1, 2, 8)),
        "max_wimm": _some(rng, (1, 4, 128)),
        "trim_nack": _some(rng, (True, False)),
        "dynamic_mpr": _some(rng, (0, 8)),
        "timeout": _some(rng, tuple(created.timeout + more for more in _MORE_TIMEOUT)),
        "retry_count": _some(rng, _RETRIES),
        "linear_retries": _some(rng, (0, 2, 4)),
        "active_paths": _some(rng, (1, 4)),
        "num_qps_per_peer": _some(rng, (0, 3)),
        "num_send_peers": _some(rng, (0, 2)),
        "num_remote_recv_peers": _some(rng, (0, 5)),
        "udp_sport": _some(rng, (0, rng.randrange(1024, 65536))),
    }
    if pair.kind is QpType.MRC:
        own["ev_profile"] = _some(rng, (0, EV_PROFILE))
    window = rng.choice((None, 4096, 65536))
    if window is None and created.congestion_window is None and pair.kind is QpType.MRC:
        own["cc_profile"] = _some(rng, ("", "nscc"))
    else:
        own["congestion_window"] = window
    return own


def _some(rng: random.Random, values: tuple[Any, ...]) -> Any:
    """One of `values`, or None."""
    return rng.choice(values) if rng.random() < 0.5 else None


def _given(rng: random.Random, created: QpAttributes, wanted: Mapping[str, Any]) -> LifeAttributes:
    """Without what is None, and at times without what is so anyway."""
    chosen = {name: value for name, value in wanted.items() if value is not None}
    usual = {name for name, value in chosen.items() if value == getattr(created, name) and rng.random() < 0.5}
    given = {name: value for name, value in chosen.items() if name not in usual}
    return LifeAttributes(given, replace(created, **given, send_psn=None, receive_psn=None))


def first_psn(scenario: Scenario, number: int, back: bool, life: int) -> int | None:
    """The first PSN that an end chooses for the packets it sends; None where its NIC is to choose."""
    pair = scenario.pairs[number]
    if not pair.renewed:
        return pair.attributes.send_psn
    rng = generator(scenario.seed, "first PSN", number, int(back), life)
    return rng.choice((None, None, rng.choice(_PSNS), rng.getrandbits(24)))


def longest_retries(pair: PlannedPair) -> QpAttributes:
    """Attributes of the life of a pair that may go on longest without an answer."""
    if not pair.renewed:
        return pair.attributes
    return replace(pair.attributes, retry_count=max(_RETRIES), linear_retries=0, timeout=longest_timeout(pair))


def longest_timeout(pair: PlannedPair) -> int:
    """The largest exponent of the ACK timeout of any of its lives."""
    return pair.attributes.timeout + (max(_MORE_TIMEOUT) if pair.renewed else 0)
