"""Paths between hosts, asked of the hosts' agents: the state of every path of every queue pair, and why it changed.

Each host is asked by itself, in a thread, so that an agent that is stopped delays none but its own host, which is
shown with the reason. Queue pairs of one pair of hosts are put together: a path has the worst of its states.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from controller.values import MachineClock
from mrc_host.errors import MrcError, NotFoundError
from mrc_host.verbs.remote.agent_verbs import QueuePairInfo
from mrc_host.verbs.remote.connection import AgentConnection, event_from_json
from mrc_host.verbs_types import AsyncEvent, PathInfo, PathState
from mrc_lab.web.feed import Feed
from mrc_lab.web.path_events import STATE_LETTERS, summarize
from mrc_lab.web.records import PairRoutes, PairState, Problem, Route, StateSection, Value
from topologies import addressing
from topologies.fabric import Fabric
from topologies.up_down import nodes

PERIOD_S = 0.5
RETRY_S = 3.0  # after an agent did not answer
TIMEOUT_S = 2.0
MAX_QUEUE_PAIRS = 256  # of a host; what has more is shown in part
_WORST_FIRST = (PathState.DENIED, PathState.ASSUMED_BAD, PathState.SKIP, PathState.GOOD)


@dataclass(frozen=True, slots=True)
class QueuePairPaths:
    """A queue pair towards the host `remote`, with its paths."""

    remote: str
    info: QueuePairInfo
    paths: tuple[PathInfo, ...]


@dataclass(frozen=True, slots=True)
class HostReading:
    """What an agent has said: its queue pairs, new events in order and the last one's number; or the `problem`."""

    pairs: tuple[QueuePairPaths, ...] = ()
    events: tuple[AsyncEvent, ...] = ()
    last_event: int = 0
    problem: str = ""


class PathSampler:
    """Publishes paths; `socket` gives the path of a host's agent, `clock` is this machine's."""

    def __init__(
        self,
        fabric: Fabric,
        feed: Feed,
        socket: Callable[[str], str],
        executor: Executor,
        clock: MachineClock,
    ) -> None:
        self._fabric = fabric
        self._feed = feed
        self._socket = socket
        self._executor = executor
        self._clock = clock
        self._nics = {addressing.nic_address(fabric, nic).packed: nic.name for nic in fabric.nics}
        self._known: dict[str, Mapping[str, Value]] = {}  # pairs by the host they begin at
        self._routes: dict[str, Mapping[str, Value]] = {}

    async def run(self) -> None:
        """Sample every host while somebody watches; does not return."""
        await asyncio.gather(*(self._follow(nic.name) for nic in self._fabric.nics))

    async def _follow(self, host: str) -> None:
        since: int | None = None
        while True:
            await self._feed.watched()
            socket = self._socket(host)
            found = await asyncio.get_running_loop().run_in_executor(self._executor, read_host, socket, since)
            if found.problem:
                since = None
                self.publish_problem(host, found.problem)
            else:
                self.publish(host, found.pairs, found.events if since is not None else ())
                since = found.last_event
            await asyncio.sleep(RETRY_S if found.problem else PERIOD_S)

    def publish_problem(self, host: str, problem: str) -> None:
        """A host whose agent does not answer."""
        self._feed.put(StateSection.HOSTS, host, Problem(problem))
        self._set(host, {}, {})

    def publish(self, host: str, pairs: Iterable[QueuePairPaths], events: Iterable[AsyncEvent]) -> None:
        """The paths of a host's queue pairs, and what has happened to them."""
        self._feed.put(StateSection.HOSTS, host, None)
        by_remote: dict[str, list[QueuePairPaths]] = {}
        for pair in pairs:
            by_remote.setdefault(pair.remote, []).append(pair)
        states: dict[str, Value] = {}
        routes: dict[str, Value] = {}
        for remote, some in by_remote.items():
            name = f"{host}>{remote}"
            by_ev = _by_ev(some)
            routes[name] = self._route(host, remote, by_ev)
            states[name] = _state(some, by_ev)
        self._set(host, states, routes)
        remotes = {pair.info.qpn: pair.remote for pair in pairs}
        for news in summarize(host, events, remotes, self._nics):
            self._feed.event(news.kind, host, news.text, self._clock.epoch_of(news.at_ns) // 1_000_000)

    def _set(self, host: str, states: Mapping[str, Value], routes: Mapping[str, Value]) -> None:
        for section, known, now in (
            (StateSection.ROUTES, self._routes, routes),
            (StateSection.PAIRS, self._known, states),
        ):
            for name in known.get(host, {}).keys() - now.keys():
                self._feed.put(section, name, None)
            for name, value in now.items():
                self._feed.put(section, name, value)
            known[host] = now

    def _route(self, host: str, remote: str, by_ev: Mapping[int, Any]) -> PairRoutes:
        source, target = self._fabric.nic(host), self._fabric.nic(remote)
        over = {
            addressing.path_ev(path): nodes(self._fabric, source, target, path)
            for path in self._fabric.paths(source, target)
        }
        return PairRoutes(tuple(Route(ev, addressing.plane_of(ev), over.get(ev, ())) for ev in by_ev))


def read_host(socket: str, since: int | None) -> HostReading:
    """Ask the agent at `socket`; of its events those above `since`, and only the last one's number if that is None."""
    try:
        with closing(AgentConnection(socket, client="live view", timeout_s=TIMEOUT_S)) as agent:
            pairs = []
            for qp in agent.qps()[:MAX_QUEUE_PAIRS]:
                remote = qp.remote.rpartition(":")[0]
                if qp.type.source_routed and remote:
                    try:
                        pairs.append(QueuePairPaths(remote, qp, agent.qp_paths(qp.qpn)))
                    except NotFoundError:  # destroyed since
                        continue
            raw = agent.events(since or 0)
    except (MrcError, OSError) as error:
        return HostReading(problem=str(error))
    last = max((int(event["number"]) for event in raw), default=since or 0)
    return HostReading(tuple(pairs), tuple(map(event_from_json, map(dict, raw))), last)


def _by_ev(pairs: Iterable[QueuePairPaths]) -> dict[int, list[PathInfo]]:
    found: dict[int, list[PathInfo]] = {}
    for pair in pairs:
        for path in pair.paths:
            found.setdefault(path.ev, []).append(path)
    return dict(sorted(found.items(), key=lambda item: (item[1][0].plane, item[0])))


def _state(pairs: Iterable[QueuePairPaths], by_ev: Mapping[int, list[PathInfo]]) -> PairState:
    letters = []
    for paths in by_ev.values():
        worst = min((path.state for path in paths), key=_WORST_FIRST.index)
        letter = STATE_LETTERS[worst]
        letters.append(letter.upper() if any(path.active for path in paths) else letter)
    counters = [pair.info.counters for pair in pairs]
    return PairState(
        "".join(letters),
        tuple(sum(path.lost for path in paths) for paths in by_ev.values()),
        tuple(max(path.rtt for path in paths) // 1000 for paths in by_ev.values()),
        sum(one.data_sent for one in counters),
        sum(one.lost for one in counters),
        sum(one.retransmitted for one in counters),
    )
