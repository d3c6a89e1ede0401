"""Runs of experiments as recordings of the live view: the same records, made from a result folder of either backend.

Nothing extra is recorded while an experiment runs, so a run is the same with a recording and without. Links and
flows come from the tables in time bins (``result_series``), faults from the file as run (``result_faults``), paths from
the changes of their states: a path that never changed was good. Times count from the beginning of the run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mrc_host.verbs_types import PathEvent, PathReason, PathState
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.fault_draws import draw_faults
from mrc_lab.experiments.files.loader import load_file
from mrc_lab.experiments.files.model import Case, case_label, joined
from mrc_lab.fabric.live_view import TrainingState
from mrc_lab.reports.perfetto.json_lines import naming_line
from mrc_lab.reports.read_table import rows
from mrc_lab.reports.result_folder import read_summary
from mrc_lab.web.path_events import OUT, STATE_LETTERS, summarize
from mrc_lab.web.recording import NamedRecording
from mrc_lab.web.records import (
    Changes,
    FabricLayout,
    Happening,
    LinkView,
    PairRoutes,
    PairState,
    QueueState,
    Route,
    RunTime,
    SignalState,
    StateSection,
    Value,
    event_record,
    layout_record,
    state_record,
)
from mrc_lab.web.result_faults import FaultInResult, carrier_changes, faults_of
from mrc_lab.web.result_series import TimeBin, has_signals, read_series
from topologies import addressing
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.up_down import nodes

MAX_BYTES = 48 << 20  # of one recording
MAX_TOGETHER = 4  # recordings of a page of that size; more are coarser and end earlier
MAX_PAIRS = 100
MAX_PATHS = 512  # of a pair
MAX_PATH_CHANGES = 200_000
_MOMENTS = 2000  # into which changes of paths are put together
_MANY = 8  # links whose changes at one time are one event
_WHERE_FOLDER = "Give a folder that 'mrc run' has created."


def result_recordings(folder: Path, prefix: str = "") -> list[NamedRecording]:
    """The recordings of all variants in a result folder; ExperimentError if it is not one of 'mrc run'."""
    summary = read_summary(folder)
    file = folder / "experiment.yaml"
    if not file.is_file():
        raise ExperimentError(f"{folder} has no experiment.yaml", _WHERE_FOLDER)
    experiment = draw_faults(load_file(file), int(summary.get("seed", 1)))
    title = str(summary.get("name", experiment.name))
    # what an axis has is too much to play
    cases = [case for case in experiment.cases if case.name in summary["cases"] and not case.point]
    if not cases:
        raise ExperimentError(f"{folder} has nothing to play", "The points of an axis are drawn in its report.")
    share = min(1.0, MAX_TOGETHER / len(cases))
    found = []
    for case in cases:
        label = case_label(case.name) or title
        records = tuple(case_records(case, folder / case.name, summary["cases"][case.name], title, share))
        found.append(NamedRecording(joined(prefix, label), records))
    return found


def case_records(case: Case, folder: Path, summary: Mapping[str, Any], title: str, share: float = 1.0) -> Iterator[str]:
    """The records of one case, of at most a `share` of what a recording may take.

    Raises ExperimentError for tables that are not those of a run.
    """
    try:
        rate_scale, time_scale = float(summary["rate_scale"]), float(summary["time_scale"])
    except (KeyError, TypeError, ValueError):
        raise ExperimentError(f"{folder}: the summary does not give the scales of the run", _WHERE_FOLDER) from None
    fabric = build_fabric(case.fabric)
    links = tuple(replace(link, rate_bps=round(link.rate_bps * rate_scale)) for link in fabric.links)
    fabric = replace(fabric, links=links)
    bins = read_series(folder, len(links), _end_of(summary), links_measured=case.measure.links, share=share)
    return _Player(case, fabric, folder, bins, time_scale, title).records(round(MAX_BYTES * share))


def _end_of(summary: Mapping[str, Any]) -> int:
    """When a run was over (ns); 0 where its summary does not say it."""
    end = summary.get("end_ns", 0)
    return end if isinstance(end, int) else 0


class _Player:
    """Goes once through a run, and says what a viewer would have been sent."""

    def __init__(
        self, case: Case, fabric: Fabric, folder: Path, bins: list[TimeBin], time_scale: float, title: str
    ) -> None:
        self._case, self._fabric, self._folder, self._bins = case, fabric, folder, bins
        self._end = bins[-1].end
        self._time_scale, self._title = time_scale, title
        self._faults = list(faults_of(case, fabric, time_scale, self._end))
        self._up = {link.name: True for link in fabric.links}
        self._rates = {link.name: (0, 0) for link in fabric.links}
        self._drops: Counter[str] = Counter()
        self._busy: dict[StateSection, set[str]] = defaultdict(set)  # links that are named in a section now
        self._totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # of pairs: sent, lost, retransmitted
        self._received: Counter[str] = Counter()
        self._ports_down: set[tuple[str, int]] = set()
        self._routes = dict(self._pairs())
        self._letters = {name: ["G"] * len(routes) for name, routes in self._routes.items()}
        self._place = {name: {route.ev: n for n, route in enumerate(routes)} for name, routes in self._routes.items()}

    def records(self, left: int) -> Iterator[str]:
        """All records, in order, until there are more bytes of them than are `left`."""
        signals = self._case.measure.links and has_signals(self._folder)
        run = RunTime(self._end / 1e6, self._time_scale, signals)
        title = joined(self._title, case_label(self._case.name))
        yield layout_record(FabricLayout(self._fabric, title, run), 0)
        whole: Changes = {section: {} for section in StateSection}
        whole[StateSection.LINKS] = {name: LinkView(True) for name in self._up}
        whole[StateSection.ROUTES] = {name: PairRoutes(routes) for name, routes in self._routes.items()}
        whole[StateSection.PAIRS] = {name: self._pair(name) for name in self._routes}
        yield state_record(whole, 0, whole=True)
        if not self._case.measure.links:
            text = "the file says measure: {links: no}, so nothing is known of what links carried"
            yield event_record(Happening(0, "not measured", "", text))
        for time, record in sorted(self._all(), key=lambda one: one[0]):
            left -= len(record)
            if left < 0:
                yield event_record(Happening(time / 1e6, "too large", "", "the recording has become too large"))
                return
            yield record
        yield state_record({}, self._end / 1e6)

    def _all(self) -> Iterator[tuple[int, str]]:
        """Records with their times (ns). States are computed here in order of time, with what they depend on."""
        steps: list[tuple[int, int, Any]] = [(one.begin, 2, one) for one in self._bins]
        steps += [(time, 1, change) for time, *change in carrier_changes(self._faults)]
        steps += [(time, 3, some) for time, some in self._path_changes()]
        steps += [(time, 4, (host, plane, up)) for time, host, plane, up, own in self._port_changes() if own]
        steps.sort(key=lambda step: step[:2])
        for time, order, what in steps:
            if order == 1:
                yield time, self._carrier(time, *what)
            elif order == 2:
                yield from self._bin(what)
            elif order == 3:
                yield time, self._changed_paths(time, what)
            else:
                yield time, self._changed_port(time, *what)
        yield from self._fault_records()
        yield from self._link_events()
        yield from self._path_news()
        yield from self._port_news()
        yield from self._operations()

    # ---- links --------------------------------------------------------------------------------------------------

    def _carrier(self, time: int, link: str, up: bool) -> str:
        self._up[link] = up
        return state_record({StateSection.LINKS: {link: LinkView(up, *self._rates[link])}}, time / 1e6)

    def _bin(self, one: TimeBin) -> Iterator[tuple[int, str]]:
        span = max(1, one.end - one.begin)
        changes: Changes = {StateSection.LINKS: dict(self._carried(one, span))}
        queues = {
            name: QueueState(link.upward_queue // span, link.downward_queue // span)
            for name, link in one.links.items()
            if link.upward_queue or link.downward_queue
        }
        signals = dict(self._signals(one, span))
        changes[StateSection.QUEUES] = self._with_ended(StateSection.QUEUES, queues)
        changes[StateSection.SIGNALS] = self._with_ended(StateSection.SIGNALS, signals)
        pairs = list(self._moved(one, span))
        changes[StateSection.PAIRS] = {name: self._pair(name) for name in pairs}
        yield one.begin, state_record(changes, one.begin / 1e6)
        for name, flow in one.flows.items():
            if flow.timeouts:
                text = f"{flow.timeouts} of {name}: no acknowledgment came in time"
                yield one.end, event_record(Happening(one.end / 1e6, "timeouts", "", text))

    def _carried(self, one: TimeBin, span: int) -> Iterator[tuple[str, Value]]:
        """Links whose rates are others than in the bin before."""
        for name, before in self._rates.items():
            link = one.links.get(name)
            now = (0, 0) if link is None else (link.upward_bytes * 8 * 10**9, link.downward_bytes * 8 * 10**9)
            rates = now[0] // span, now[1] // span
            if rates != before:
                self._rates[name] = rates
                yield name, LinkView(self._up[name], *rates)

    def _signals(self, one: TimeBin, span: int) -> Iterator[tuple[str, SignalState]]:
        def rate(count: float) -> int:
            return round(count * 1e9 / span)

        for name, link in one.links.items():
            if link.lost or link.marked or link.trimmed:
                self._drops[name] += link.lost
                lost = {"lost on the link": self._drops[name]} if self._drops[name] else {}
                yield name, SignalState(rate(link.marked), rate(link.trimmed), rate(link.lost), lost)

    def _with_ended(self, section: StateSection, values: Mapping[str, Value]) -> dict[str, Value | None]:
        """What a section has now, and what it has no more."""
        gone: dict[str, Value | None] = dict.fromkeys(sorted(self._busy[section] - values.keys()))
        self._busy[section] = set(values)
        return {**gone, **values}

    def _link_events(self) -> Iterator[tuple[int, str]]:
        together: dict[tuple[int, bool], list[str]] = defaultdict(list)
        for time, link, up in carrier_changes(self._faults):
            together[time, up].append(link)
        for (time, up), links in together.items():
            kind = f"link {'up' if up else 'down'}"
            if len(links) > _MANY:
                yield time, event_record(Happening(time / 1e6, kind, "", f"{len(links)} links, {links[0]} the first"))
            else:
                yield from ((time, event_record(Happening(time / 1e6, kind, link, link))) for link in links)

    # ---- faults -------------------------------------------------------------------------------------------------

    def _fault_records(self) -> Iterator[tuple[int, str]]:
        for fault in self._faults:
            yield from self._fault(fault, fault.begin, active=True)
            if fault.end is not None and fault.end <= self._end:
                yield from self._fault(fault, fault.end, active=False)

    def _fault(self, fault: FaultInResult, time: int, *, active: bool) -> Iterator[tuple[int, str]]:
        kind = "fault active" if active else "fault cleared"
        yield time, state_record({StateSection.FAULTS: {fault.id: fault.view if active else None}}, time / 1e6)
        yield time, event_record(Happening(time / 1e6, kind, "", fault.view.text))

    # ---- paths --------------------------------------------------------------------------------------------------

    def _pairs(self) -> Iterator[tuple[str, tuple[Route, ...]]]:
        """Pairs of hosts that flows connect; those of RC have no paths to choose from."""
        mrc = {tenant.name for tenant in self._case.tenants if tenant.transport.kind.source_routed}
        names = dict.fromkeys(name for one in self._bins for name in one.flows)
        found: dict[str, tuple[Route, ...]] = {}
        for name in names:
            pair, tenant = _pair_of(name), name.rpartition("/")[0]
            source, _, target = pair.partition(">")
            try:
                near, far = self._fabric.nic(source), self._fabric.nic(target)
            except FabricError:  # a flow that is not named after two hosts
                continue
            if len(found) < MAX_PAIRS and not found.get(pair):
                paths = self._fabric.paths(near, far)[:MAX_PATHS] if tenant in mrc else ()
                found[pair] = tuple(
                    Route(addressing.path_ev(path), path.plane, nodes(self._fabric, near, far, path)) for path in paths
                )
        yield from found.items()

    def _pair(self, name: str) -> PairState:
        sent, lost, again = self._totals[name]
        dead = {plane for host in name.split(">") for of, plane in self._ports_down if of == host}
        letters = (
            letter.lower() if route.plane in dead else letter
            for letter, route in zip(self._letters[name], self._routes[name], strict=True)
        )
        return PairState("".join(letters), (), (), sent, lost, again, self._received[name])

    def _moved(self, one: TimeBin, span: int) -> Iterator[str]:
        """Pairs that sent or received in a bin, or did in the one before."""
        received: Counter[str] = Counter()
        sent = set()
        for name, flow in one.flows.items():
            pair = _pair_of(name)
            if pair in self._routes:
                received[pair] += round(flow.bits * 1e9 / span)
                for place, count in enumerate((flow.sent, flow.lost, flow.retransmitted)):
                    self._totals[pair][place] += count
                sent.update([pair] if flow.sent or flow.lost else [])
        changed = sent | {pair for pair in self._routes if received[pair] != self._received[pair]}
        self._received = received
        yield from sorted(changed)

    def _path_changes(self) -> Iterator[tuple[int, list[tuple[str, PathEvent]]]]:
        """Changes of states, put together by time where there are many."""
        step = max(1, self._end // _MOMENTS)
        together: dict[int, list[tuple[str, PathEvent]]] = defaultdict(list)
        for pair, event in self._path_events():
            together[event.time - event.time % step if event.time >= step else event.time].append((pair, event))
        for some in together.values():
            yield some[0][1].time, some

    def _changed_paths(self, time: int, some: Iterable[tuple[str, PathEvent]]) -> str:
        changed: dict[str, Value | None] = {}
        for pair, event in some:
            place = self._place.get(pair, {}).get(event.ev)
            if place is not None:
                letter = STATE_LETTERS[event.new]
                self._letters[pair][place] = letter if event.new in OUT else letter.upper()
                changed[pair] = None
        return state_record({StateSection.PAIRS: {pair: self._pair(pair) for pair in changed}}, time / 1e6)

    def _path_news(self) -> Iterator[tuple[int, str]]:
        """The changes in words, those that follow each other closely in one line."""
        window = max(1, self._end // 100)
        together: dict[tuple[str, str], list[PathEvent]] = {}
        for pair, event in self._path_events():
            source, _, target = pair.partition(">")
            some = together.setdefault((source, target), [])
            if some and event.time - some[0].time > window:
                yield from _news(source, target, some)
                some.clear()
            some.append(event)
        for (source, target), some in together.items():
            yield from _news(source, target, some)

    # ---- ports --------------------------------------------------------------------------------------------------

    def _port_news(self) -> Iterator[tuple[int, str]]:
        for time, host, plane, up, own in self._port_changes():
            whose = f"{host}@p{plane}" if own else f"{host} learns: a peer's p{plane}"
            text = f"{whose} is {'up' if up else 'down'}"
            yield time, event_record(Happening(time / 1e6, "port", host, text))

    def _port_changes(self) -> Iterator[tuple[int, str, int, bool, bool]]:
        """What NICs learned of ports: when, who, plane, whether it is up, whether it is their own or a peer's."""
        for path, number, row in rows(self._folder / "events.csv", ("time_ns", "event", "host", "plane", "new")):
            if row["event"] in ("port", "peer port"):
                with naming_line(path, number, "a change of a port"):
                    time, plane = int(row["time_ns"]), int(row["plane"])
                yield time, row["host"], plane, row["new"] == "up", row["event"] == "port"

    def _changed_port(self, time: int, host: str, plane: int, up: bool) -> str:
        """Paths to and from a port that is down are not in use."""
        (self._ports_down.discard if up else self._ports_down.add)((host, plane))
        pairs = [pair for pair in self._routes if host in pair.split(">")]
        return state_record({StateSection.PAIRS: {pair: self._pair(pair) for pair in pairs}}, time / 1e6)

    def _path_events(self) -> Iterator[tuple[str, PathEvent]]:
        """Changes of paths as the table has them, in order of time, each with its pair of hosts."""
        columns = ("time_ns", "event", "flow", "qpn", "ev", "plane", "old", "new", "reason", "first_loss_ns")
        left = MAX_PATH_CHANGES
        for path, number, row in rows(self._folder / "events.csv", columns):
            if row["event"] != "path" or left == 0:
                continue
            with naming_line(path, number, "a change of a path"):
                left -= 1
                first = int(row["first_loss_ns"]) if row["first_loss_ns"] else None
                states = PathState(row["old"]), PathState(row["new"]), PathReason(row["reason"])
                where = int(row["qpn"]), int(row["ev"]), int(row["plane"])
                event = PathEvent(int(row["time_ns"]), *where, *states, first)
            yield _pair_of(row["flow"]), event

    # ---- collectives --------------------------------------------------------------------------------------------

    def _operations(self) -> Iterator[tuple[int, str]]:
        """Collectives and steps of training as they are done, by tenant, or by workload if there is only one."""
        done: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for path, number, row in rows(self._folder / "completions.csv", ("flow", "began_ns", "ended_ns")):
            if ">" not in row["flow"]:
                with naming_line(path, number, "a completion"):
                    done[row["flow"]].append((int(row["began_ns"]), int(row["ended_ns"])))
        alone = self._case.tenants[0].workload.name if len(self._case.tenants) == 1 else ""
        for tenant, some in done.items():
            name = alone or tenant
            for count, (began, ended) in enumerate(some, 1):
                state = TrainingState(count, len(some), None, (ended - began) / 1e6)
                yield ended, state_record({StateSection.TRAINING: {name: state}}, ended / 1e6)


def _pair_of(flow: str) -> str:
    """The hosts that a flow connects, as in ``h1>h3``; a tenant's flow has its name in front."""
    return flow.rpartition("/")[2]


def _news(source: str, target: str, events: list[PathEvent]) -> Iterator[tuple[int, str]]:
    remotes = dict.fromkeys((event.qpn for event in events), target)
    for news in summarize(source, events, remotes):
        yield news.at_ns, event_record(Happening(news.at_ns / 1e6, news.kind, source, news.text))
