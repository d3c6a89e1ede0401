"""How busy every direction of a link was: a share of the time in which frames, with all that is around them, pass.

Mean and maximum are over the time bins after the warm-up. Bins that are much shorter than the others, as the last may
be, have no maximum of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.model import Case
from mrc_lab.experiments.running.recording import LINK_COUNTERS, Recording
from topologies.fabric import LinkKind
from topologies.round_trip import OVERHEAD

HEAD = ("case", "link", "direction", "rate_bps", "mean", "max")
_FRAMES, _BYTES = LINK_COUNTERS.index("frames"), LINK_COUNTERS.index("bytes")


@dataclass(frozen=True, slots=True)
class Utilisation:
    """One direction of a link. `mean` and `most` are shares of its rate; no `most` where bins were not recorded."""

    link: str
    kind: LinkKind
    up: bool
    rate_bps: float
    mean: float
    most: float | None

    @property
    def direction(self) -> str:
        """Up or down."""
        return "up" if self.up else "down"


def utilisation(case: Case, recording: Recording) -> list[Utilisation]:
    """Every direction of a link, in the order of `channels`; none if the warm-up was as long as the run."""
    fabric = build_fabric(case.fabric)
    first = int(np.searchsorted(recording.times, case.measure.warmup * recording.time_scale))
    samples, times = recording.link_samples[first:], recording.times[first:]
    widths = np.diff(times)
    if not widths.sum():
        return []
    whole = widths * 2 >= widths.max()
    sent = np.diff(samples[:, :, _BYTES] + OVERHEAD * samples[:, :, _FRAMES], axis=0)
    found = []
    for number, name in enumerate(recording.channels):
        link = fabric.link(name[:-1])
        rate = link.rate_bps * recording.rate_scale
        mean = 8e9 * float(sent[:, number].sum()) / float(widths.sum()) / rate
        most = float((8e9 * sent[whole, number] / widths[whole]).max()) / rate if case.measure.links else None
        found.append(Utilisation(link.name, link.kind, name[-1] == ">", rate, mean, most))
    return found


def rows(name: str, links: list[Utilisation]) -> Iterator[tuple[object, ...]]:
    """Rows of `HEAD` of a case."""
    for one in links:
        most = "" if one.most is None else f"{one.most:.6f}"
        yield name, one.link, one.direction, round(one.rate_bps), f"{one.mean:.6f}", most


def table(links: list[Utilisation]) -> dict[str, object] | None:
    """For the page: a row for each class and direction of links, with the busiest of it; None where nothing passed."""
    groups: dict[tuple[LinkKind, bool], list[Utilisation]] = defaultdict(list)
    for one in links:
        groups[one.kind, one.up].append(one)
    if not any(one.mean for one in links):
        return None
    return {
        "head": ("links", "direction", "number", "mean", "least mean", "highest mean", "of", "highest in a bin", "of"),
        "numbers": (2, 3, 4, 5, 7),
        "rows": [_row(kind, found) for (kind, _), found in groups.items()],
    }


def _row(kind: LinkKind, found: list[Utilisation]) -> tuple[str, ...]:
    means = [one.mean for one in found]
    busiest, peak = max(found, key=lambda one: one.mean), max(found, key=lambda one: one.most or 0.0)
    return (
        kind.value,
        busiest.direction,
        str(len(found)),
        _percent(sum(means) / len(means)),
        _percent(min(means)),
        _percent(busiest.mean),
        busiest.link,
        "not recorded" if peak.most is None else _percent(peak.most),
        "" if peak.most is None else peak.link,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
