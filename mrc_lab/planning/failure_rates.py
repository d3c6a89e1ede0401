"""How often parts of a fabric fail, and for how long: the user's, in a YAML file or with ``--set``.

    links: {rate: 4.2/min, down: 5s}
    t1s: {rate: 2/month, down: 12min}
    nic_ports: {rate: 30/month, down: 60min}

There are no values to assume: what is left out does not fail. A rate is that of all parts of the kind together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrc_common.declared.document import Source, parse, read_text
from mrc_common.declared.field_types import a_time
from mrc_common.declared.sections import Section, key
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.flap_process import EventRate
from mrc_lab.planning.settings import with_settings

MONTH: Final = 30 * 86_400 * 10**9  # ns


@dataclass(frozen=True, slots=True)
class FailureRate:
    """One kind of part. `rate` is failures a second, `down` (ns) how long one lasts, on average."""

    rate: float = key(EventRate(), "how often one of them fails, as in 30/month")
    down: int = key(a_time(1, MONTH), "how long it takes until that part works again, on average")

    @property
    def a_month(self) -> float:
        """Failures a month."""
        return self.rate * MONTH / 1e9

    @property
    def at_once(self) -> float:
        """Parts that are down at one time, on average."""
        return self.rate * self.down / 1e9


_KIND = Section(FailureRate)


@dataclass(frozen=True, slots=True)
class FailureRates:
    """All kinds of parts; None of those that do not fail."""

    links: FailureRate | None = key(_KIND, "links between T0s and T1s", default=None)
    t1s: FailureRate | None = key(_KIND, "T1 switches, with all of their links", default=None)
    nic_ports: FailureRate | None = key(_KIND, "ports of NICs, or their links", default=None)

    def given(self) -> Iterator[tuple[str, FailureRate]]:
        """Name and rate of each kind that fails."""
        for name in self.__slots__:
            if (rate := getattr(self, name)) is not None:
                yield name, rate


def load_rates(file: Path | None, settings: Sequence[str]) -> FailureRates:
    """The values of a file, with settings such as ``t1s.rate=2/month`` over them. Raises FileError."""
    text, name = ("{}", "--set") if file is None else (read_text(file, FileError), str(file))
    rates: FailureRates = Section(FailureRates).read(with_settings(parse(text, Source(name, FileError)), settings))
    if not list(rates.given()):
        raise FileError(f"{name}: nothing fails: give rates, as in --set t1s.rate=2/month --set t1s.down=12min")
    return rates
