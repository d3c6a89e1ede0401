"""Who is killed when: an endless series of kills, drawn from a seed and nothing else.

The owner of the fabric, with which all other processes end, is hit seldom; the others are equally likely. One kill in
five hits two at once, and one in five hits its victim again while it is coming back.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topologies.emulation.switch_kind import SwitchKind
from topologies.fabric import Fabric

OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL for `victims` `after` seconds; they are restarted `pause` seconds later.

    `again` seconds after that they are killed once more (None: they are not).
    """

    after: float
    victims: tuple[str, ...]
    pause: float
    again: float | None = None

    def __str__(self) -> str:
        more = "" if self.again is None else f", again {self.again:.2f} s after their restart began"
        return f"{' and '.join(self.victims)} after {self.after:.2f} s, down for {self.pause:.2f} s{more}"


def processes(fabric: Fabric, switch: SwitchKind) -> tuple[str, ...]:
    """Names of a fabric's processes but its owner."""
    shared = switch is SwitchKind.EMBEDDED
    switches = ("switches",) if shared else tuple(f"switch-{found.name}" for found in fabric.p4_switches)
    return (*fabric.nic_names, *switches, "controller")


def kills(seed: int, names: Sequence[str], *, owner_share: float = 0.04) -> Iterator[Kill]:
    """The kills of a seed on processes `names`; a share of `owner_share` (0..1) goes to the owner."""
    draw = random.Random(seed)
    while True:
        after = draw.uniform(0.2, 5.0)
        if draw.random() < owner_share:
            yield Kill(after, (OWNER,), draw.uniform(0.0, 1.0))
            continue
        victims = draw.sample(list(names), 2 if draw.random() < 0.2 and len(names) > 1 else 1)
        again = draw.uniform(0.0, 0.8) if draw.random() < 0.2 else None
        yield Kill(after, tuple(victims), draw.uniform(0.0, 2.0), again)
