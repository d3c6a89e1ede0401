"""The collector with real agents on fake NICs, faults given: who probes, who is denied what, and until when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.errors import ControllerError
from controller.path_map import collector
from controller.path_map.collector import Collector
from controller.path_map.denylist_policy import paths_to_deny
from controller.path_map.mapper import PathMap
from controller.path_map.values import Direction, ElementKind, MapState, SlowPort, SuspectedFault
from mrc_host.agent.server import AgentServer
from mrc_host.back_to_back import nic_config
from mrc_host.driver.loop import Loop
from mrc_host.path_probes import ProbeReport
from tests.mrc_host.fake_nic import FakeNic, Wire
from tests.waiting import until_async
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError

FABRIC = multi_plane_clos("collect", planes=2, t0=1, t1=1, hosts=2)
BROKEN = SuspectedFault(ElementKind.NIC_T0, "h2@p1", 1, Direction.BOTH, 1.0, 1.0, 0)
TIMEOUT_S = 20.0


class Hosts:
    """An agent for each host, in one thread; their NICs may only be touched through `call`."""

    def __init__(self, folder: Path) -> None:
        self.sockets = str(folder / "{name}.sock")
        self.loop = Loop()
        self.call = self.loop.call
        wire = Wire()
        self.nics = {name: FakeNic(nic_config(number), wire) for number, name in enumerate(FABRIC.nic_names)}
        self.servers: dict[str, AgentServer] = {}
        for name in self.nics:
            self._serve(name)
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        self._thread.start()

    def _serve(self, name: str) -> None:
        self.servers[name] = AgentServer(self.nics[name], self.loop, self.sockets.format(name=name))
        self.servers[name].start()

    def kill(self, name: str) -> None:
        self.call(self.servers.pop(name).close, 10)

    def start_again(self, name: str) -> None:
        self.call(lambda: self._serve(name), 10)

    def probing(self) -> set[str]:
        return self.call(lambda: {name for name, nic in self.nics.items() if nic.control.plan is not None}, 10)

    def round_ns(self) -> set[int]:
        """How long a round of probes takes, in ns, by the plans that hosts have."""
        plans = self.call(lambda: [nic.control.plan for nic in self.nics.values()], 10)
        return {plan.round_ns for plan in plans if plan is not None}

    def denied(self) -> set[tuple[str, int]]:
        return self.call(
            lambda: {(name, path.ev) for name, nic in self.nics.items() for path in nic.control.denied_paths()}, 10
        )

    def stop(self) -> None:
        for name in tuple(self.servers):
            self.kill(name)
        self.loop.stop()
        self._thread.join(10)
        self.loop.close()


class ScriptedMap(PathMap):
    """A map that finds what a test wants, and remembers who has reported."""

    found: tuple[SuspectedFault, ...] = ()
    polls: dict[str, int]

    def absorb(self, host: str, report: ProbeReport, now: int, asked: int | None = None) -> None:
        ScriptedMap.polls[host] = ScriptedMap.polls.get(host, 0) + 1
        super().absorb(host, report, now, asked)

    def update(self, now: int) -> tuple[SuspectedFault, ...]:
        super().update(now)
        return ScriptedMap.found


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    monkeypatch.setattr(collector, "PathMap", ScriptedMap)
    monkeypatch.setattr(collector, "POLL_S", 0.005)
    monkeypatch.setattr(ScriptedMap, "found", ())
    monkeypatch.setattr(ScriptedMap, "polls", {}, raising=False)
    found = Hosts(tmp_path)
    yield found
    found.stop()


def find(*suspected: SuspectedFault) -> None:
    ScriptedMap.found = suspected


def expected(*suspected: SuspectedFault) -> set[tuple[str, int]]:
    return {(host, ev) for host, _, ev in paths_to_deny(FABRIC, suspected)}


async def until(holds: Callable[[], bool]) -> None:
    await until_async(lambda: asyncio.to_thread(holds))


def play(hosts: Hosts, scene: Callable[[Collector], Coroutine[Any, Any, None]]) -> None:
    """Let a scene go by with a collector, which is stopped afterwards."""

    async def whole() -> None:
        one = Collector(FABRIC, hosts.sockets)
        try:
            await scene(one)
        finally:
            await one.stop()

    asyncio.run(whole())


def test_hosts_probe_only_while_the_map_runs(hosts: Hosts) -> None:
    async def scene(one: Collector) -> None:
        assert one.state() == MapState(running=False)
        await one.start()
        await until(lambda: set(ScriptedMap.polls) == set(FABRIC.nic_names))
        assert hosts.probing() == set(FABRIC.nic_names)
        state = one.state()
        assert (state.running, state.feeding, state.unreachable) == (True, False, ())
        assert {link.name for link in state.links} == {link.name for link in FABRIC.links}
        await one.stop()
        await until(lambda: not hosts.probing())
        assert one.state() == MapState(running=False)

    play(hosts, scene)


def test_slow_ports_are_named_while_the_agent_answers(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_SLOW_EVERY", 1)
    hosts.nics["h2"].slow_ports = {1}

    async def scene(one: Collector) -> None:
        await one.start()
        await until(lambda: one.state().slow_ports == (SlowPort("h2@p1", True, 0),))
        hosts.kill("h2")
        await until(lambda: one.state().slow_ports == ())

    play(hosts, scene)


def test_changing_the_rate_replaces_the_probe_plan(hosts: Hosts) -> None:
    async def scene(one: Collector) -> None:
        await one.start(10.0)
        await until(lambda: len(hosts.probing()) == 2)
        slow = hosts.round_ns()
        assert len(slow) == 1
        age = one.state().seconds
        await one.start(10.0)
        assert one.state().seconds >= age  # the same map goes on
        assert hosts.round_ns() == slow
        await one.start(40.0)  # a host may notice only later that whoever gave it the plan before has left
        await until(lambda: len(hosts.probing()) == 2 and hosts.round_ns() == {slow_ns // 4 for slow_ns in slow})
        with pytest.raises(FabricError):
            await one.start(-1.0)

    play(hosts, scene)


def test_suspected_faults_are_denied_only_with_feed_and_allowed_again_once_cleared(hosts: Hosts) -> None:
    wanted = expected(BROKEN)
    assert wanted

    async def scene(one: Collector) -> None:
        find(BROKEN)
        await one.start(feed=False)
        ScriptedMap.polls.clear()
        await until(lambda: min(ScriptedMap.polls.get(name, 0) for name in FABRIC.nic_names) > 3)
        assert hosts.denied() == set()
        await one.start(feed=True)
        await until(lambda: hosts.denied() == wanted)
        await until(lambda: one.state().denied == len(wanted))
        find()
        await until(lambda: hosts.denied() == set())
        find(BROKEN)
        await until(lambda: hosts.denied() == wanted)
        await one.start(feed=False)
        await until(lambda: hosts.denied() == set())

    play(hosts, scene)


def test_paths_denied_by_others_stay_denied(hosts: Hosts) -> None:
    host, ev = min(expected(BROKEN))
    peer = addressing.nic_address(FABRIC, FABRIC.nic(next(n for n in FABRIC.nic_names if n != host))).packed
    hosts.call(lambda: hosts.nics[host].control.set_path_denied(peer, ev, True, 0), 10)

    async def scene(one: Collector) -> None:
        find(BROKEN)
        await one.start(feed=True)
        await until(lambda: hosts.denied() == expected(BROKEN))

    play(hosts, scene)
    asyncio.run(until(lambda: hosts.denied() == {(host, ev)}))


def test_denials_end_when_the_collector_stops_or_is_killed(hosts: Hosts) -> None:
    async def scene(one: Collector) -> None:
        find(BROKEN)
        await one.start(feed=True)
        await until(lambda: hosts.denied() == expected(BROKEN))
        # As when its process is killed: the connections are gone, and nobody says goodbye.
        for server in hosts.servers.values():
            hosts.call(lambda server=server: [session.close("") for session in server.sessions], 10)  # type: ignore[misc]
        await until(lambda: hosts.denied() == expected(BROKEN))  # it lives, and has connected again

    play(hosts, scene)
    asyncio.run(until(lambda: not hosts.denied() and not hosts.probing()))


def test_a_restarted_agent_probes_and_denies_again_and_delays_no_other_agent(hosts: Hosts) -> None:
    async def scene(one: Collector) -> None:
        find(BROKEN)
        await one.start(feed=True)
        await until(lambda: hosts.denied() == expected(BROKEN))
        await asyncio.to_thread(hosts.kill, "h1")
        assert not any(host == "h1" for host, _ in hosts.denied())
        before = ScriptedMap.polls["h2"]
        await until(lambda: ScriptedMap.polls["h2"] > before + 3)
        await asyncio.to_thread(hosts.start_again, "h1")
        await until(lambda: hosts.denied() == expected(BROKEN) and hosts.probing() == {"h1", "h2"})

    play(hosts, scene)


def test_starting_without_agents_is_refused() -> None:
    with pytest.raises(ControllerError, match="--agents"):
        asyncio.run(Collector(FABRIC, "").start())
