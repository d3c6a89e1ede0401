"""Paths of hosts' queue pairs, put together by pair of hosts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from controller.values import MachineClock
from mrc_host.verbs.remote.agent_verbs import QueuePairInfo
from mrc_host.verbs_types import PathEvent, PathInfo, PathReason, PathState, QpCounters, QpState, QpType
from mrc_lab.web.feed import Feed
from mrc_lab.web.path_sampler import PathSampler, QueuePairPaths, read_host
from mrc_lab.web.records import FabricLayout, PairRoutes, PairState, Problem, StateSection
from topologies import addressing
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=2, planes=2, t0=2, t1=2, rate_bps=10**9)
EVS = [addressing.path_ev(path) for path in FABRIC.paths(FABRIC.nic("h1"), FABRIC.nic("h2"))]
GOOD, SKIP, BAD, DENIED = PathState.GOOD, PathState.SKIP, PathState.ASSUMED_BAD, PathState.DENIED


class World:
    def __init__(self) -> None:
        self.feed = Feed(FabricLayout(FABRIC))
        clock = MachineClock(0, 5_000_000_000)
        self.sampler = PathSampler(FABRIC, self.feed, str, ThreadPoolExecutor(1), clock)

    def pair(self) -> PairState:
        value = self.feed.section(StateSection.PAIRS)["h1>h2"]
        assert isinstance(value, PairState)
        return value


def queue_pair(qpn: int, states: list[PathState], *, active: bool = True, lost: int = 0) -> QueuePairPaths:
    counters = QpCounters(**{**dict.fromkeys(QpCounters.__dataclass_fields__, 0), "data_sent": 100, "lost": lost})
    info = QueuePairInfo(qpn, "test", QpType.MRC, f"h2:{qpn}", QpState.RTS, counters)
    paths = [
        PathInfo(ev, addressing.plane_of(ev), state, active, lost=lost, rtt=2000 * qpn)
        for ev, state in zip(EVS, states, strict=True)
    ]
    return QueuePairPaths("h2", info, tuple(paths))


def test_each_state_has_its_letter_in_the_order_of_the_routes() -> None:
    world = World()
    world.sampler.publish("h1", [queue_pair(1, [GOOD, SKIP, BAD, DENIED])], ())
    assert world.pair() == PairState("GSBD", (0, 0, 0, 0), (2, 2, 2, 2), 100, 0, 0)
    routes = world.feed.section(StateSection.ROUTES)["h1>h2"]
    assert isinstance(routes, PairRoutes)
    assert [(route.ev, route.plane) for route in routes.paths] == [(ev, addressing.plane_of(ev)) for ev in EVS]
    assert routes.paths[1].over == ("t0-0@p0", "t1-1@p0", "t0-1@p0")


def test_several_queue_pairs_show_the_worst_state_and_sums() -> None:
    world = World()
    first = queue_pair(1, [GOOD, GOOD, SKIP, GOOD], active=False, lost=1)
    second = queue_pair(3, [GOOD, BAD, GOOD, DENIED], lost=2)
    world.sampler.publish("h1", [first, second], ())
    assert world.pair() == PairState("GBSD", (3, 3, 3, 3), (6, 6, 6, 6), 200, 3, 0)


def test_backup_has_a_small_letter() -> None:
    world = World()
    world.sampler.publish("h1", [queue_pair(1, [GOOD] * 4, active=False)], ())
    assert world.pair().states == "gggg"


def test_pair_whose_queue_pairs_are_gone_is_removed() -> None:
    world = World()
    world.sampler.publish("h1", [queue_pair(1, [GOOD] * 4)], ())
    world.sampler.publish("h1", [], ())
    assert world.feed.section(StateSection.PAIRS) == {}
    assert world.feed.section(StateSection.ROUTES) == {}


def test_events_come_with_the_time_of_day() -> None:
    world = World()
    event = PathEvent(2_000_000, 1, EVS[0], 0, GOOD, BAD, PathReason.LOSS, 1_000_000)
    outbox = world.feed.join()
    outbox.records(0)
    world.sampler.publish("h1", [queue_pair(1, [BAD, GOOD, GOOD, GOOD])], [event])
    (last,) = [record for record in outbox.records(0) if '"event"' in record]
    assert last.startswith('{"at":5002,"event":["paths","h1","1 path h1 to h2 in plane 0 out of use')


def test_host_whose_agent_does_not_answer_is_shown_with_the_reason_and_without_paths(tmp_path: Path) -> None:
    world = World()
    world.sampler.publish("h1", [queue_pair(1, [GOOD] * 4)], ())
    found = read_host(str(tmp_path / "h1.sock"), None)
    assert "No agent answers" in found.problem
    world.sampler.publish_problem("h1", found.problem)
    assert world.feed.section(StateSection.HOSTS) == {"h1": Problem(found.problem)}
    assert world.feed.section(StateSection.PAIRS) == {}
    world.sampler.publish("h1", [], ())
    assert world.feed.section(StateSection.HOSTS) == {}
