"""``rate``: links become slower."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import link, rate, towards


@kind()
@dataclass(frozen=True, slots=True)
class Rate(Fault):
    """A link becomes slower than its ends believe; one that is slower anyway stays as it is."""

    link: str = link()
    rate: int = rate("the lower rate", "2M", "10M")
    towards: str | None = towards()
