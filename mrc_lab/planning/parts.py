"""Power and prices of parts: the user's, in a YAML file or with ``--set``, over assumed ones.

    currency: USD
    switch: {power: 1000, cost: 40000}
    optic: {power: 15, cost: 900}

Watts, and any currency. The assumed figures are round ones for a 51.2 Tb/s switch without its optics and for an 800G
transceiver; they show which of two designs costs more, not what either costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mrc_common import units
from mrc_common.declared.document import Source, parse, read_text
from mrc_common.declared.field_types import Quantity, Text
from mrc_common.declared.sections import Section, key
from mrc_lab.errors import FileError
from mrc_lab.planning.clos import Design
from mrc_lab.planning.settings import with_settings

_WATTS = Quantity(units.NUMBER, example="15")
_MONEY = Quantity(units.NUMBER, example="900")


@dataclass(frozen=True, slots=True)
class SwitchPart:
    """A switch without its optics."""

    power: float = key(_WATTS, "what it draws, in W", default=1000.0)
    cost: float = key(_MONEY, "what it costs", default=40_000.0)


@dataclass(frozen=True, slots=True)
class OpticPart:
    """A transceiver."""

    power: float = key(_WATTS, "what it draws, in W", default=15.0)
    cost: float = key(_MONEY, "what it costs", default=900.0)


@dataclass(frozen=True, slots=True)
class Parts:
    """Figures of every part."""

    switch: SwitchPart = key(Section(SwitchPart), "a switch without its optics", default=SwitchPart())
    optic: OpticPart = key(Section(OpticPart), "a transceiver", default=OpticPart())
    currency: str = key(Text(), "what costs are in", default="USD")

    def power(self, design: Design) -> float:
        """Watts of a fabric, without NICs."""
        return design.switches * self.switch.power + design.optics * self.optic.power

    def cost(self, design: Design) -> float:
        """What a fabric's switches and optics cost."""
        return design.switches * self.switch.cost + design.optics * self.optic.cost


def load_parts(file: Path | None, settings: Sequence[str]) -> Parts:
    """The values of a file, overridden by settings such as ``switch.cost=30000``. Raises FileError."""
    text, name = ("{}", "--set") if file is None else (read_text(file, FileError), str(file))
    document = with_settings(parse(text, Source(name, FileError)), settings)
    parts: Parts = Section(Parts).read(document)
    return parts
