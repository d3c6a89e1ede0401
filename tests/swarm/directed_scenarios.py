"""Plans that ask one question, in a world made for it where nothing else goes wrong.

* Two queue pairs of one NIC with MTUs far apart and windows that never shut: do they get equal bytes?
* One queue pair over many paths that all lose alike: does the active set keep its floor?
* One queue pair under load when a quarter of its paths is cut at once: is there a timeout?
* Many queue pairs between two NICs, of which some are silent at one end: do the others wait for them?
* Many queue pairs between two NICs, each on one plane, of which some go dark: do the others wait for these?
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mrc_host.verbs_types import QpAttributes, QpType
from simulation.transport_timers import timing
from simulation.world import default_queues
from tests.swarm.application_faults import Mute
from tests.swarm.scenario import FOREVER, HORIZON, PlannedPair, PlannedWrite, Scenario, ScenarioFault
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.power_off import PowerOff
from topologies.queues import QueueProfile

_GIGA: Final = 1_000_000_000
_DELAY: Final = 1_000


def _world(plan: Scenario, fabric: Fabric, pairs: tuple[PlannedPair, ...]) -> Scenario:
    queues = default_queues(fabric)
    fit = timing(fabric, _DELAY, queues.max_packets)
    fitted = tuple(replace(pair, attributes=fit.attributes(pair.attributes)) for pair in pairs)
    return Scenario(plan.seed, fabric, _DELAY, queues, fit, fitted, (), ())


def _profile(trimming: bool = True) -> QueueProfile:
    return QueueProfile(base_rtt_ns=12_000, least_frames=32, trimming=trimming, ecn=True)


def contest(rng: random.Random, plan: Scenario) -> Scenario:
    """Two or three flows out of one NIC, to NICs of their own, of different MTUs."""
    fabric = multi_plane_clos(
        "swarm", planes=rng.choice((1, 2)), t0=1, t1=0, hosts=4, rate_bps=25 * _GIGA, queues=_profile()
    )
    mtus = rng.sample((256, 512, 1024, 4096, 4096), rng.choice((2, 2, 3)))
    attributes = QpAttributes(mpr=255, mpr_dest=255, congestion_window=1 << 20)
    pairs = tuple(
        PlannedPair("h1", f"h{number + 2}", QpType.MRC, replace(attributes, path_mtu=mtu))
        for number, mtu in enumerate(mtus)
    )
    plan = _world(plan, fabric, pairs)
    writes = tuple(PlannedWrite(number, False, 0, 100_000, False) for _ in range(6) for number in range(len(pairs)))
    return replace(plan, writes=writes, contest=tuple(range(len(pairs))))


def uniform_loss(rng: random.Random, plan: Scenario) -> Scenario:
    """Every link loses some per cent; the floor of the active set is half of the paths."""
    planes, t1 = rng.choice(((4, 4), (8, 4), (2, 8)))
    fabric = multi_plane_clos("swarm", planes=planes, t0=2, t1=t1, hosts=2, rate_bps=100 * _GIGA, queues=_profile())
    transport = replace(fabric.settings.transport, ev_min_active=planes * t1 // 2)
    fabric = replace(fabric, settings=replace(fabric.settings, transport=transport))
    attributes = QpAttributes(mpr=64, mpr_dest=64, congestion_window=1 << 19)
    plan = _world(plan, fabric, (PlannedPair("h1", "h2", QpType.MRC, attributes),))
    writes = tuple(PlannedWrite(0, False, 0, 400_000, False) for _ in range(16))
    loss = ScenarioFault(Loss("*", rng.choice((0.005, 0.02, 0.05))), 0, 20_000_000)
    return replace(plan, writes=writes, faults=(loss,))


def quarter_cut(rng: random.Random, plan: Scenario) -> Scenario:
    """A quarter of the paths goes at one moment under load, seen by those next to it or by nobody."""
    fabric = multi_plane_clos(
        "swarm", planes=rng.choice((2, 4, 8)), t0=2, t1=4, hosts=2, rate_bps=100 * _GIGA, queues=_profile()
    )
    plan = _world(plan, fabric, (PlannedPair("h1", "h2", QpType.MRC, QpAttributes()),))
    count = rng.choice((1, 8, 64))
    length = 4_000_000 // count
    writes = tuple(PlannedWrite(0, False, 0, length, rng.random() < 0.2) for _ in range(count))
    gone = rng.randrange(4)
    fault = rng.choice((PowerOff(f"t1-{gone}@p*"), LinkDown(f"t0-*:t1-{gone}@p*"), LinkDown(f"t0-*:t1-{gone}@p*", "*")))
    start = rng.randrange(5_000, 60_000)
    return replace(plan, writes=writes, faults=(ScenarioFault(fault, start, start + 2_000_000),))


def silent_mates(rng: random.Random, plan: Scenario) -> Scenario:
    """Queue pairs that share a NIC's window, some of which get no answers: for good, or for a while."""
    fabric = multi_plane_clos(
        "swarm",
        planes=rng.choice((1, 2, 4)),
        t0=2,
        t1=rng.choice((1, 4)),
        hosts=2,
        rate_bps=100 * _GIGA,
        queues=_profile(),
    )
    count = rng.choice((2, 3, 5, 12))
    attributes = QpAttributes(
        path_mtu=rng.choice((1024, 4096)),
        retry_count=rng.choice((3, 10, 32)),
        congestion_window=rng.choice((None, None, None, 65536)),
    )
    plan = _world(plan, fabric, (PlannedPair("h1", "h2", QpType.MRC, attributes),) * count)
    writes = [
        PlannedWrite(number, back, rng.randrange(HORIZON), rng.choice((1, 5_000, 20_000, 100_000)), rng.random() < 0.3)
        for number in range(count)
        for back in (False, True)
        for _ in range(rng.choice((0, 1, 4, 16)))
    ]
    faults = [
        ScenarioFault(
            Mute(number, rng.random() < 0.5), start, rng.choice((FOREVER, FOREVER, start + rng.randrange(1, HORIZON)))
        )
        for number in rng.sample(range(count), rng.randint(1, count - 1))
        for start in (rng.choice((0, rng.randrange(HORIZON))),)
    ]
    writes.sort(key=lambda write: write.time)
    return replace(plan, writes=tuple(writes), faults=tuple(sorted(faults, key=lambda fault: fault.start)))


def dark_planes(rng: random.Random, plan: Scenario) -> Scenario:
    """Queue pairs of two NICs that keep to a plane each; some planes go dark. ACK timeouts are long beside all else."""
    planes = rng.choice((2, 3, 4))
    fabric = multi_plane_clos(
        "swarm", planes=planes, t0=2, t1=rng.choice((1, 4)), hosts=2, rate_bps=100 * _GIGA, queues=_profile()
    )
    attributes = QpAttributes(path_mtu=rng.choice((1024, 4096)), retry_count=rng.choice((3, 10)))
    masks = [1 << number % planes for number in range(rng.choice((planes, planes, 2 * planes)))]
    plan = _world(plan, fabric, tuple(PlannedPair("h1", "h2", QpType.MRC, attributes, planes=(m, m)) for m in masks))
    pairs = tuple(replace(pair, attributes=_patient(pair.attributes)) for pair in plan.pairs)
    start, towards = rng.choice((0, rng.randrange(200_000))), rng.choice((None, "*", "h2"))
    end = rng.choice((FOREVER, start + rng.randrange(1, 20_000_000)))
    faults = [
        ScenarioFault(LinkDown(f"*@p{plane}", towards), start, end)
        for plane in rng.sample(range(planes), rng.randint(1, planes - 1))
    ]
    writes = [
        PlannedWrite(number, back, rng.randrange(300_000), rng.choice((5_000, 100_000, 300_000)), rng.random() < 0.3)
        for number in range(len(pairs))
        for back in (False, True)
        for _ in range(rng.choice((1, 4)))
    ]
    writes.sort(key=lambda write: write.time)
    return replace(plan, pairs=pairs, writes=tuple(writes), faults=tuple(faults))


def _patient(attributes: QpAttributes) -> QpAttributes:
    return replace(attributes, timeout=attributes.timeout + 5)


STUDIES: Final[tuple[Callable[[random.Random, Scenario], Scenario], ...]] = (contest, uniform_loss, quarter_cut)
