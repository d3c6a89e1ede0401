"""``delay``: frames of a link take longer."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import link, time, towards


@kind()
@dataclass(frozen=True, slots=True)
class Delay(Fault):
    """Frames take longer."""

    link: str = link()
    extra: int = time("how much longer", "5ms", "10ms")
    towards: str | None = towards()
