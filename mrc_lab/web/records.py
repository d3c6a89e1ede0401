"""Records of the page: a stream, each with its time, whether a server sends them or a file holds them.

Times are milliseconds, since the epoch, or since the beginning of a recorded run (:class:`RunTime`).

The first record is a :class:`FabricLayout`, which never changes. Then come states and events. A state is a tree of two
levels: sections, and in each the values by name (of a link, a pair of hosts, a fault). Only what has changed is sent:
a state record replaces the values it names, and removes those it names as None. So records can be left out between
two others as long as their changes are merged (:func:`merge`), and a reader who has them all from some full state on
knows everything. Steps of a training job are also sent one by one, and a live viewer gets what was before it came, for
the page's curves (``history``).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mrc_common import strict_json
from mrc_lab.fabric.live_view import TrainingState
from topologies.fabric import Fabric


class StateSection(enum.Enum):
    """The first level of a state; :data:`Value` says what is in which."""

    LINKS = "links"
    QUEUES = "queues"
    SIGNALS = "signals"
    FAULTS = "faults"
    ROUTES = "routes"
    PAIRS = "pairs"
    SWITCHES = "switches"
    HOSTS = "hosts"
    JOBS = "jobs"
    TRAINING = "training"


@dataclass(frozen=True, slots=True)
class LinkView:
    """By link: whether both ends are up, and what it carries away from the NICs and towards them, in bit/s."""

    up: bool
    upward_bps: int = 0
    downward_bps: int = 0


@dataclass(frozen=True, slots=True)
class QueueState:
    """By link: bytes that wait at its ends, on average since the last sample; 0 where a NIC sends."""

    upward_bytes: int = 0
    downward_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SignalState:
    """By link: packets a second that were marked, trimmed and dropped at its ends, and all drops so far by reason."""

    marked_pps: int = 0
    trimmed_pps: int = 0
    dropped_pps: int = 0
    drops: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FaultView:
    """By fault id: what it is in words, where, and in which state; `kind` is the keyword of ``mrc fault``."""

    kind: str
    text: str
    links: tuple[str, ...]
    switches: tuple[str, ...]
    state: str


@dataclass(frozen=True, slots=True)
class Route:
    """One path of a pair: entropy value, plane, and the switches on it."""

    ev: int
    plane: int
    over: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PairRoutes:
    """By pair of hosts (``h1>h3``): its paths, in the order of :class:`PairState`."""

    paths: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class PairState:
    """By pair of hosts: each path's state, packets lost on it and round-trip time in us, and packets over all paths.

    `states` has a letter for each path: g good, s skip, b assumed bad, d denied; a capital letter is one in use. There
    is none for RC, which has one path. `lost` and `rtt_us` are empty, and `received_bps` is None, where nobody knows.
    """

    states: str
    lost: tuple[int, ...]
    rtt_us: tuple[int, ...]
    packets_sent: int
    packets_lost: int
    retransmitted: int
    received_bps: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """By switch or host: why it cannot be read, or is not as it should be."""

    text: str


@dataclass(frozen=True, slots=True)
class JobState:
    """By job: a transfer started from the page; `share` is how much of it is done, 0 to 1, None where nobody knows."""

    text: str
    running: bool
    result: str = ""
    share: float | None = None


Value = LinkView | QueueState | SignalState | FaultView | PairRoutes | PairState | Problem | JobState | TrainingState
State = dict[StateSection, dict[str, Value]]
Changes = dict[StateSection, dict[str, Value | None]]


@dataclass(frozen=True, slots=True)
class Happening:
    """An event for the feed of the page: when (ms), what sort, about which node or link, in words."""

    at_ms: float
    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RunTime:
    """Of a recorded run: how long it took (ms), its times over those in its file, and whether it has marks and trims.

    They are not known where they were not measured over time.
    """

    end_ms: float
    time_scale: float
    signals: bool = False


@dataclass(frozen=True, slots=True)
class FabricLayout:
    """What the fabric consists of, as it was built.

    `title` is what the page is called, if not like the fabric. With a `run`, times are those since its beginning (ms,
    with fractions), and else since the epoch.
    """

    fabric: Fabric
    title: str = ""
    run: RunTime | None = None

    def as_json(self) -> dict[str, Any]:
        """The first record."""
        fabric = self.fabric
        return {
            "fabric": self.title or fabric.name,
            "run": None if self.run is None else _fields(self.run),
            "planes": fabric.planes,
            "switches": [[s.name, int(s.tier), s.plane, s.index, s.pod] for s in fabric.switches],
            "hosts": [[nic.name, nic.t0] for nic in fabric.nics],
            "links": [
                [link.name, link.plane, link.kind.value, link.lower.node, link.upper.node, link.rate_bps]
                for link in fabric.links
            ],
        }


def difference(old: Mapping[str, Value], new: Mapping[str, Value]) -> dict[str, Value | None]:
    """What to change of a section to get from `old` to `new`."""
    changes: dict[str, Value | None] = {name: value for name, value in new.items() if old.get(name) != value}
    changes.update((name, None) for name in old.keys() - new.keys())
    return changes


def merge(into: Changes, more: Changes) -> None:
    """Make `into` the changes of both, `more` being the later ones."""
    for section, values in more.items():
        into.setdefault(section, {}).update(values)


def layout_record(layout: FabricLayout, at_ms: float) -> str:
    """The first record as one line of JSON."""
    return _line({"at": at_ms, "layout": layout.as_json()})


def state_record(changes: Changes, at_ms: float, *, whole: bool = False) -> str:
    """A state record; with `whole`, what it does not name does not exist."""
    sections = {
        section.value: {name: None if value is None else _fields(value) for name, value in values.items()}
        for section, values in changes.items()
        if values or whole
    }
    return _line({"at": at_ms, "whole" if whole else "state": sections})


def event_record(happening: Happening) -> str:
    """An event record."""
    return _line({"at": happening.at_ms, "event": [happening.kind, happening.name, happening.text]})


def _fields(value: Any) -> Any:
    """A value as the list of its fields, in their order, and so on inside it."""
    if dataclasses.is_dataclass(value):
        return [_fields(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [_fields(item) for item in value]
    return value


def _line(record: Mapping[str, Any]) -> str:
    return strict_json.dumps(record)
