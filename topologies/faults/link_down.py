"""``link_down``: a cable is pulled, or one of its directions lets nothing through."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.faults.kind import Fault, kind
from topologies.faults.parameters import link, towards


@kind(word="down")
@dataclass(frozen=True, slots=True)
class LinkDown(Fault):
    """Both ends lose their carrier; with `towards` one direction drops everything and neither end notices."""

    link: str = link()
    towards: str | None = towards()
