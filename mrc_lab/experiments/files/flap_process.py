"""The key ``flaps`` of a file: links of a class or pattern that go down at random times, so many a minute in all.

They become faults of kind ``link_down`` when the faults of chance are drawn (`fault_draws`), the same for the same seed
on every backend: a Poisson process of the whole class, a link by chance each time, and an exponential time until it is
up again. A link that is drawn again while it is down stays down for the longer of the two times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text, a_time
from mrc_common.declared.sections import key
from mrc_common.units import NUMBER_PATTERN, parse_number
from mrc_lab.experiments.files.faults import FaultDraw, PlannedFault
from simulation.seeds import generator
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.link_down import LinkDown
from topologies.link_rules import CLASSES

MAX_FLAPS = 100_000  # of a run, on average
_SECONDS = {"s": 1, "min": 60, "h": 3600, "day": 86_400, "month": 30 * 86_400}


@dataclass(frozen=True)
class EventRate(FieldType):
    """How often something happens: ``4.2/min``. A month has 30 days."""

    def read(self, value: Value) -> float:
        """Times a second; FileError when it is none."""
        number, slash, unit = value.text().partition("/")
        try:
            if not slash or unit.strip() not in _SECONDS:
                raise ValueError(
                    f"must be so many a second, minute, hour, day or month, as in 4.2/min, not {value.text()[:40]!r}"
                )
            rate = parse_number(number) / _SECONDS[unit.strip()]
            if rate <= 0:
                raise ValueError("must be more than 0: leave it out")
        except ValueError as error:
            raise value.error(str(error)) from None
        return rate

    def schema(self) -> JsonSchema:
        """A string."""
        units = "|".join(_SECONDS)
        return {"type": "string", "pattern": f"^{NUMBER_PATTERN}/\\s*({units})\\s*$", "examples": ["4.2/min"]}


@dataclass(frozen=True, slots=True)
class FlapProcess:
    """Links that flap at random. `rate` is in flaps a second of all of them together."""

    rate: float = key(EventRate(), "how often one of the links goes down, as in 4.2/min")
    of: str = key(Text(), f"which links: a class ({', '.join(CLASSES)}) or a pattern", default="t0-t1")
    down: int = key(a_time(1), "how long it is down, on average", default=1_000_000_000)

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """Names of the links; FabricError if there are none."""
        if self.of not in CLASSES:
            return tuple(link.name for link in fabric.find_links(self.of))
        found = tuple(link.name for link in fabric.links if link.kind.value == self.of)
        if not found:
            raise FabricError(f"there are no {self.of} links in this fabric")
        return found

    def draw(self, fabric: Fabric, seed: int, place: int, line: int, duration: int) -> Iterator[PlannedFault]:
        """The flaps of a run of `duration` ns. `place` is that of the process among all that a file draws."""
        names, chance = self.links(fabric), generator(seed, "flaps", place)
        at = chance.expovariate(self.rate) * 1e9
        while at < duration:
            link = chance.choice(names)
            until = round(at + max(1.0, chance.expovariate(1.0) * self.down))
            lasts = until if until < duration else None
            yield PlannedFault(LinkDown(link), round(at), lasts, line, draw=FaultDraw(place, len(names)))
            at += chance.expovariate(self.rate) * 1e9


def check_flaps(process: FlapProcess, fabric: Fabric, duration: int, place: Value) -> None:
    """FileError where there are no such links, or far too many flaps."""
    try:
        process.links(fabric)
    except FabricError as error:
        raise place.items().get("of", place).error(str(error)) from None
    if process.rate * duration / 1e9 > MAX_FLAPS:
        raise place.items()["rate"].error(f"makes more than {MAX_FLAPS} flaps in the run: give a lower rate")
