"""Keeps the map of a running fabric: asks all agents again and again, thinks, and feeds the denylists on request.

Agents are asked in threads, because their connections block; everything else happens in the caller's asyncio loop. An
agent that is slow or gone delays nobody else. Probes and denials are leased from the agents: on stopping, and when this
process is killed, probes end and what was denied here is allowed again. An agent that comes back gets both again.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from controller.errors import NoAgentsError
from controller.path_map.agent_client import ProbingAgent
from controller.path_map.denylist_policy import DeniedEv, paths_to_deny
from controller.path_map.mapper import SECOND, PathMap
from controller.path_map.values import LinkHealth, MapState, SlowPort
from mrc_host.errors import MrcError
from topologies import addressing
from topologies.fabric import Fabric
from topologies.probe_plan import DEFAULT_RATE, FabricProbePlan, probe_plan

T = TypeVar("T")
POLL_S = 0.2
_SLOW_EVERY = 10  # polls of an agent from one question for slow ports to the next
_RECENT = 10 * SECOND  # for the health of links
_MAX_THREADS = 32


class Collector:
    """Maps `fabric`. `sockets` is the path of an agent's UNIX socket with ``{name}`` for its host."""

    def __init__(self, fabric: Fabric, sockets: str) -> None:
        self._fabric = fabric
        self._sockets = sockets
        self._session: _Session | None = None
        self._changing = asyncio.Lock()

    async def start(self, rate: float = DEFAULT_RATE, *, feed: bool = False) -> None:
        """Map from now on; if that is so already with this rate, only `feed` changes. FabricError, ControllerError."""
        if not self._sockets:
            raise NoAgentsError
        async with self._changing:
            if self._session is not None and self._session.plan.rate != rate:
                await self._session.stop()
                self._session = None
            if self._session is None:
                self._session = _Session(self._fabric, self._sockets, probe_plan(self._fabric, rate=rate))
            self._session.feeding = feed

    async def stop(self) -> None:
        """Map no more; what was forbidden is allowed again. Does nothing when there is no map."""
        async with self._changing:
            if self._session is not None:
                await self._session.stop()
                self._session = None

    def state(self) -> MapState:
        """The map as it is now."""
        return MapState(running=False) if self._session is None else self._session.state()


class _Session:
    """Mapping with one plan, from its making until :meth:`stop`."""

    def __init__(self, fabric: Fabric, sockets: str, plan: FabricProbePlan) -> None:
        self.plan = plan
        self.feeding = False
        self._fabric = fabric
        self._map = PathMap(plan)
        self._began = time.monotonic_ns()
        first = secrets.randbits(16) << 16  # rounds of a map before this one are distinguished
        self._agents = {host: ProbingAgent(sockets.format(name=host), plan.of(host, first)) for host in plan.routes}
        self._addresses = {nic.name: addressing.nic_address(fabric, nic).packed for nic in fabric.nics}
        self._slow: dict[str, tuple[SlowPort, ...]] = {}  # by host
        self._pool = ThreadPoolExecutor(min(_MAX_THREADS, len(self._agents)), thread_name_prefix="path-map")
        self._wanted: frozenset[DeniedEv] = frozenset()
        self._tasks = [asyncio.create_task(self._follow(host)) for host in self._agents]
        self._tasks.append(asyncio.create_task(self._think()))

    async def stop(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for agent in self._agents.values():
            await self._blocking(agent.close)
        self._pool.shutdown(wait=False)

    def state(self) -> MapState:
        """The map as it is now; times count from its beginning."""
        now = time.monotonic_ns()
        counts = self._map.link_counts(now - _RECENT)
        suspected = tuple(replace(fault, since_ns=fault.since_ns - self._began) for fault in self._map.suspected)
        answers_due = now - self._began > self._map.settings.agent_timeout
        return MapState(
            running=True,
            rate=self.plan.rate,
            round_seconds=self.plan.round_ns / SECOND,
            seconds=(now - self._began) / SECOND,
            suspected=suspected,
            links=tuple(LinkHealth(name, count.sent, count.lost) for name, count in counts.items()),
            unreachable=self._map.unreachable_hosts(now) if answers_due else (),
            feeding=self.feeding,
            denied=sum(agent.denied for agent in self._agents.values()),
            slow_ports=tuple(port for host in self._agents for port in self._slow.get(host, ())),
        )

    async def _follow(self, host: str) -> None:
        """Fetch one agent's reports, forever."""
        agent = self._agents[host]
        for poll in itertools.count():
            try:
                asked = time.monotonic_ns()
                report = await self._blocking(agent.report)
                self._map.absorb(host, report, time.monotonic_ns(), asked)
                await self._feed(host)
                if not poll % _SLOW_EVERY:
                    self._slow[host] = await self._blocking(functools.partial(agent.slow_ports, host))
            except MrcError:
                self._slow.pop(host, None)
            await asyncio.sleep(POLL_S)

    async def _think(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            suspected = self._map.update(time.monotonic_ns())
            self._wanted = paths_to_deny(self._fabric, suspected) if self.feeding else frozenset()

    async def _feed(self, host: str) -> None:
        """Bring a host's denylist up to what is wanted."""
        wanted = frozenset((self._addresses[peer], ev) for source, peer, ev in self._wanted if source == host)
        if wanted or self._agents[host].denied:
            await self._blocking(functools.partial(self._agents[host].deny, wanted))

    async def _blocking(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)
