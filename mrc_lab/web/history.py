"""Points of the page's curves so far, for browsers that come later or are reloaded.

Steps of training are kept from the beginning, since what a fault did to the first run is what the second is compared
with. Of throughput and of what switches did, the last two minutes are kept, as the page shows them, while anybody
watches. Both are bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mrc_common import strict_json
from mrc_lab.fabric.live_view import TrainingState
from mrc_lab.web.records import LinkView, SignalState, StateSection, Value
from topologies.fabric import Fabric, LinkKind

MAX_STEPS = 4000
MAX_POINTS = 240  # two minutes


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A step of a training job that was done at `at_ms`; `name` is its transport."""

    at_ms: int
    name: str
    state: TrainingState

    def as_json(self) -> list[Any]:
        """As the page is sent it."""
        one = self.state
        return [self.at_ms, self.name, [one.step, one.planned, one.loss, one.step_ms]]


class History:
    """The past of one fabric; times are ms since the epoch."""

    def __init__(self, fabric: Fabric) -> None:
        self._planes = {link.name: link.plane for link in fabric.links if link.kind is LinkKind.NIC_T0}
        self._count = fabric.planes
        self._steps: deque[TrainingStep] = deque(maxlen=MAX_STEPS)
        self._points: deque[tuple[int, list[int], list[int]]] = deque(maxlen=MAX_POINTS)

    def step(self, step: TrainingStep) -> None:
        """A step of a training job that is done."""
        self._steps.append(step)

    def point(self, at_ms: int, state: Mapping[StateSection, Mapping[str, Value]]) -> None:
        """What hosts receive now, by plane, and packets a second that were marked, trimmed and dropped."""
        received, signals = [0] * self._count, [0, 0, 0]
        links = state[StateSection.LINKS]
        for name, plane in self._planes.items():
            link = links.get(name)
            if isinstance(link, LinkView):
                received[plane] += link.downward_bps
        for signal in state[StateSection.SIGNALS].values():
            if isinstance(signal, SignalState):
                for place, rate in enumerate((signal.marked_pps, signal.trimmed_pps, signal.dropped_pps)):
                    signals[place] += rate
        self._points.append((at_ms, received, signals))

    def record(self, at_ms: int) -> str | None:
        """All of it as a record; None if there is nothing."""
        if not self._steps and not self._points:
            return None
        steps = [step.as_json() for step in self._steps]
        points = [[at, *received, *signals] for at, received, signals in self._points]
        return _line({"at": at_ms, "history": {"steps": steps, "points": points}})


def steps_record(steps: Iterable[TrainingStep], at_ms: int) -> str:
    """Steps that are new, in order."""
    return _line({"at": at_ms, "steps": [step.as_json() for step in steps]})


def _line(record: Mapping[str, Any]) -> str:
    return strict_json.dumps(record)
