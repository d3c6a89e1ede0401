"""Ranks of a simulated fabric watch each other: who is lost is named by all, and nobody else is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from mrc_host.verbs import Context
from mrc_host.verbs_types import WorkRequest, WrOpcode
from mrc_lab.workloads.collectives import LocalMeeting
from mrc_lab.workloads.liveness import (
    LivenessSettings,
    LossReason,
    PeerEvent,
    PeerFailed,
    PeerLeft,
    PeerLost,
    PeerMonitor,
)
from mrc_lab.workloads.liveness.peer_events import LOSSES, Notice, loss_notice, parse_notice
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos

MS = 1_000_000
SETTINGS = LivenessSettings()
SOON = 2 * SETTINGS.period(3)  # until all have learned of what the NICs know


@dataclass
class Group:
    """All ranks of a world; `events` by rank, with when they came."""

    world: SimulatedWorld
    contexts: list[Context]
    monitors: list[PeerMonitor] = field(default_factory=list)
    events: list[list[tuple[int, PeerEvent]]] = field(default_factory=list)
    isolated: set[int] = field(default_factory=set)

    @classmethod
    async def join(cls, world: SimulatedWorld) -> Group:
        names = [nic.name for nic in world.fabric.nics]
        group = cls(world, [world.open(name) for name in names], events=[[] for _ in names])
        meeting = LocalMeeting(len(names))
        group.monitors = await asyncio.gather(*(group._join(meeting, rank) for rank in range(len(names))))
        return group

    async def _join(self, meeting: LocalMeeting, rank: int) -> PeerMonitor:
        take = lambda event: self.events[rank].append((self.world.now, event))  # noqa: E731
        isolated = lambda: rank in self.isolated  # noqa: E731
        return await PeerMonitor.join(self.contexts[rank], meeting.rank(rank), SETTINGS, take, isolated=isolated)

    def losses(self, rank: int) -> list[tuple[int, LossReason]]:
        """Ranks that a rank found lost, and why."""
        return [(event.rank, event.reason) for _, event in self.events[rank] if isinstance(event, PeerLost)]

    async def close(self) -> None:
        for monitor in self.monitors:
            await monitor.close()


def run(scenario: Callable[[Group], Coroutine[Any, Any, None]], *, hosts: int = 4, planes: int = 2) -> None:
    fabric = multi_plane_clos(planes=planes, t0=2, t1=2, hosts=hosts)
    with SimulatedWorld(fabric, seed=7, rate=100_000_000_000) as world:

        async def whole() -> None:
            group = await Group.join(world)
            await scenario(group)
            await group.close()

        world.run(whole())


async def after(ns: int) -> None:
    await asyncio.sleep(ns / 1_000_000_000)


def test_a_process_that_ends_is_named_by_all_others_with_host_and_reason() -> None:
    async def scenario(group: Group) -> None:
        await after(500 * MS)
        died = group.world.now
        group.contexts[2].close()
        await after(SOON)
        for rank in (0, 1, 3):
            ((when, event),) = group.events[rank]
            assert isinstance(event, PeerLost)
            assert (event.rank, event.host, event.reason) == (2, "h3", LossReason.GONE)
            assert when - died <= SETTINGS.period(3) + MS
            assert group.monitors[rank].lost == (event,)
        assert "rank 2 (h3) is lost: its process has ended" in str(group.monitors[0].lost[0])

    run(scenario)


def test_a_host_that_is_off_is_named_by_all_others_after_the_timeout() -> None:
    async def scenario(group: Group) -> None:
        await after(100 * MS)
        off = group.world.now
        for plane in range(2):
            group.world.faults.port_down("h2", plane)
        await after(SETTINGS.timeout - SETTINGS.interval)
        assert not any(group.events)
        await after(2 * SETTINGS.interval + SOON)
        for rank in (0, 2, 3):
            assert group.losses(rank) == [(1, LossReason.SILENT)]
            assert group.events[rank][0][0] - off <= SETTINGS.timeout + SOON < 1000 * MS

    run(scenario)


def test_a_rank_without_any_link_names_itself() -> None:
    async def scenario(group: Group) -> None:
        for plane in range(2):
            group.world.faults.port_down("h2", plane)
        group.isolated.add(1)
        await after(SETTINGS.timeout + SOON)
        assert group.losses(1) == [(1, LossReason.ISOLATED)]
        assert group.losses(0) == [(1, LossReason.SILENT)]

    run(scenario)


def test_a_host_whose_links_come_back_calls_nobody_else_lost() -> None:
    """Its heartbeats were unanswered for longer than the timeout, but that was its own links."""

    async def scenario(group: Group) -> None:
        faults = [group.world.faults.port_down("h2", plane) for plane in range(2)]
        group.isolated.add(1)
        await after(3 * SETTINGS.timeout - SETTINGS.interval)
        for fault in faults:
            group.world.faults.clear(fault)
        group.isolated.clear()
        await after(2 * SETTINGS.timeout)
        assert group.losses(1) == [(1, LossReason.ISOLATED)]
        assert group.losses(0) == [(1, LossReason.SILENT)]

    run(scenario)


def test_two_losses_at_once_are_both_found() -> None:
    async def scenario(group: Group) -> None:
        await after(100 * MS)
        group.contexts[3].close()
        for plane in range(2):
            group.world.faults.port_down("h1", plane)
        await after(SETTINGS.timeout + SOON)
        for rank in (1, 2):
            assert group.losses(rank) == [(3, LossReason.GONE), (0, LossReason.SILENT)]

    run(scenario)


@pytest.mark.parametrize(
    "fault",
    [
        lambda faults: faults.loss("*", 0.01),
        lambda faults: faults.loss("*", 0.1),
        lambda faults: faults.blackhole("t0-*@p1"),
        lambda faults: faults.power_off("t0-*@p0"),
        lambda faults: faults.blackhole("t1-0@p*"),
        lambda faults: faults.flap("h1@p0", 200 * MS, 200 * MS),
        lambda faults: faults.flap("h*@p0", 30 * MS, 30 * MS, random=True),
        lambda faults: faults.port_down("h3", 1),
    ],
    ids=["loss of 1 %", "loss of 10 %", "silent plane", "dark plane", "silent T1s", "flap", "random flaps", "port"],
)
def test_what_costs_packets_or_paths_loses_no_rank(fault: Callable[[Any], int]) -> None:
    async def scenario(group: Group) -> None:
        number = fault(group.world.faults)
        await after(5_000 * MS)
        assert not any(group.events)
        group.world.faults.clear(number)

    run(scenario)


def test_all_links_down_for_less_than_the_timeout_loses_no_rank() -> None:
    async def scenario(group: Group) -> None:
        for _ in range(3):
            number = group.world.faults.link_down("h*@p*")
            await after(SETTINGS.timeout - 150 * MS)
            group.world.faults.clear(number)
            await after(300 * MS)
        assert not any(group.events)

    run(scenario)


def test_a_rank_that_leaves_is_not_lost_and_says_how_many_operations_it_has_done() -> None:
    async def scenario(group: Group) -> None:
        await group.monitors[0].say_goodbye(17, 0.2)
        await group.monitors[0].close()
        await after(3 * SETTINGS.timeout)
        for rank in (1, 2, 3):
            ((_, event),) = group.events[rank]
            assert event == PeerLeft(0, "h1", 17)
            assert (event.before(17), event.before(18)) == (False, True)
        await group.monitors[0].close()
        await group.monitors[0].say_goodbye(17, 0.2)

    run(scenario)


def test_a_rank_that_gives_up_is_not_lost() -> None:
    async def scenario(group: Group) -> None:
        group.monitors[3].report_failure()
        await after(3 * SETTINGS.timeout)
        assert [event for _, event in group.events[0]] == [PeerFailed(3, "h4")]
        assert group.monitors[0].lost == ()

    run(scenario)


def test_a_verdict_does_not_wait_for_the_next_heartbeat() -> None:
    async def scenario(group: Group) -> None:
        assert await group.monitors[0].verdict(0.001) is None
        group.contexts[1].close()
        found = await group.monitors[0].verdict(0.001)
        assert found is not None
        assert found.rank == 1
        assert await group.monitors[0].verdict(0) == found

    run(scenario)


def test_leaving_does_not_wait_for_a_peer_that_is_gone_longer_than_it_may() -> None:
    async def scenario(group: Group) -> None:
        for plane in range(2):
            group.world.faults.port_down("h2", plane)
        began = group.world.now
        await group.monitors[0].say_goodbye(0, 0.1)
        assert group.world.now - began <= 102 * MS

    run(scenario)


def test_unknown_notices_and_reports_of_unknown_ranks_are_ignored() -> None:
    async def scenario(group: Group) -> None:
        (pair,) = [peer.pair for peer in group.monitors[1]._peers.values() if peer.rank == 0]
        for imm in (0, 0xFF000000, 0xFFFFFFFF, Notice.GONE.pack(4), Notice.SILENT.pack(0xFFFFFF)):
            pair.post_send([WorkRequest(0, WrOpcode.WRITE_WITH_IMM, 0, 0, 0, 0, 0, imm)])
        await after(SOON)
        assert not any(group.events)

    run(scenario)


def test_late_packets_of_an_old_group_do_not_reach_a_new_one_on_the_same_nics() -> None:
    async def scenario(group: Group) -> None:
        for rank in (0, 1):
            group.world.faults.delay(f"h{rank + 1}@p*", 15 * MS)
        await after(200 * MS)
        for _ in range(5):
            await after(SETTINGS.interval + 10 * MS)  # heartbeats of the old group are under way
            for monitor in group.monitors:
                await monitor.close()  # without a word, as a process that is killed
            again = await Group.join(group.world)
            await after(SETTINGS.timeout)
            assert not any(again.events)
            group.monitors = again.monitors

    run(scenario)


def test_nothing_stays_on_the_nic() -> None:
    async def scenario(group: Group) -> None:
        assert group.contexts[0].hw_counters()["queue_pairs"] == 3
        await group.close()
        assert group.contexts[0].hw_counters()["queue_pairs"] == 0

    run(scenario)


def test_a_join_that_is_cancelled_leaves_nothing_on_the_nic() -> None:
    with SimulatedWorld(multi_plane_clos(planes=2, t0=2, t1=2, hosts=2), seed=7, rate=100_000_000_000) as world:

        async def alone() -> None:
            context = world.open("h1")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(
                    PeerMonitor.join(context, LocalMeeting(2).rank(0), SETTINGS, lambda event: None), 1
                )
            assert context.hw_counters()["queue_pairs"] == 0

        world.run(alone())


def test_notices_have_their_reasons_and_ranks() -> None:
    for kind, reason in LOSSES.items():
        assert parse_notice(loss_notice(PeerLost(5, "h6", reason, 0))) == (kind, 5)
    assert parse_notice(0) is None


def test_operations_are_compared_across_the_wrap_of_24_bits() -> None:
    left = PeerLeft(0, "h1", 0xFFFFFE)
    assert [left.before(number) for number in (0xFFFFFE, 0xFFFFFF, 0x1000002)] == [False, True, True]
