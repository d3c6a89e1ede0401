"""From a seed to a plan: a fabric, queue pairs, writes with their times, and a schedule of faults.

`plain` draws what fails in a network, `generate` adds what applications, hosts and hostile circumstances do to it
(``extra_faults``), and has some queue pairs keep to some planes (``plane_masks``). Nothing is drawn later than here: a
plan without some of its faults or writes is the same plan otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from mrc_host.verbs_types import QpAttributes, QpType
from simulation.seeds import generator
from simulation.transport_timers import FabricTiming, retry_budget, timing
from simulation.world import default_queues, with_headroom
from tests.swarm.channel_faults import BitFlips
from tests.swarm.denylists import Denied, Route, addresses
from tests.swarm.extra_faults import troubled
from tests.swarm.plane_masks import with_masks
from tests.swarm.scenario import HORIZON, PlannedPair, PlannedWrite, Scenario, ScenarioFault
from topologies.addressing import entropy_value, path_ev
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric, T2Wiring
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.controller_down import ControllerDown
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate
from topologies.faults.reordering import Reordering
from topologies.link_rules import LinkRule
from topologies.queues import QueueProfile

_GIGA = 1_000_000_000


def generate(seed: int) -> Scenario:
    """The plan of a seed; the fabrics of negative seeds have three tiers."""
    return with_masks(troubled(plain(seed)))


def plain(seed: int) -> Scenario:
    """The plan of a seed with faults of the network alone."""
    rng = generator(seed, "scenario")
    t0 = rng.choice((1, 1, 2, 2, 2, 3))
    fabric = multi_plane_clos(
        "swarm",
        planes=rng.choice((1, 2, 2, 3, 4, 8)),
        t0=t0,
        t1=rng.randint(0 if t0 == 1 else 1, 4),
        hosts=t0 * rng.randint(2 if t0 == 1 else 1, 3),
        rate_bps=rng.choice((10, 25, 100, 100, 400)) * _GIGA,
        queues=QueueProfile(
            base_rtt_ns=rng.choice((2_000, 12_000, 12_000)),
            least_frames=rng.choice((4, 16, 32)),
            trimming=rng.random() < 0.7,
            ecn=rng.random() < 0.7,
        ),
    )
    if seed < 0:
        fabric = _three_tiers(generator(seed, "tiers"), fabric)
    delay = rng.choice((200, 1000, 1000, 5000))
    queues = default_queues(fabric)
    if rng.random() < 0.3:
        queues = replace(queues, max_packets=rng.choice((8, 32, 128)))
    if generator(seed, "pfc").random() < 0.1:
        fabric = replace(fabric, queues=replace(fabric.queues, pfc=True))
        queues = default_queues(with_headroom(fabric, delay))
    if generator(seed, "one class").random() < 0.2:
        fabric = replace(fabric, queues=replace(fabric.queues, retransmissions_first=False))
    remap = generator(seed, "port remap")
    if remap.random() < 0.08:
        transport = replace(fabric.settings.transport, port_remap=remap.choice((20_000, 300_000, 3_000_000)))
        fabric = replace(fabric, settings=replace(fabric.settings, transport=transport))
    fabric = replace(fabric, reroute_ns=_reroute(generator(seed, "reroute")))
    fit = timing(fabric, delay, queues.max_packets)
    pairs = tuple(_pair(rng, fabric, fit) for _ in range(rng.choice((1, 2, 3, 5, 12))))
    busy = rng.choice((5, 30, 30, 120))
    writes = tuple(sorted((_write(rng, len(pairs)) for _ in range(rng.randint(1, busy))), key=lambda w: w.time))
    faults = [_fault(rng, fabric) for _ in range(rng.randint(0, rng.choice((0, 3, 8))))]
    if rng.random() < 0.1:
        pair = rng.choice(pairs)
        budget = retry_budget(pair.attributes, fit.transport(fabric.settings.transport))
        faults.append(_outage(rng, fabric, pair, budget))
    faults = [_anywhere(seed, fault) for fault in faults]
    faults += _denials(generator(seed, "denials"), fabric, pairs)
    faults.sort(key=lambda fault: fault.start)
    return Scenario(seed, fabric, delay, queues, fit, pairs, writes, tuple(faults))


def _reroute(rng: random.Random) -> int | None:
    return rng.choice((10_000, 50_000, 500_000)) if rng.random() < 0.4 else None


def _three_tiers(rng: random.Random, like: Fabric) -> Fabric:
    """Pods of uneven racks below T2s, with the planes, rate and queues of another fabric; perhaps uneven links."""
    wiring, t1 = rng.choice(tuple(T2Wiring)), rng.choice((1, 2, 2, 3))
    rate = like.links[0].rate_bps
    rules = [LinkRule("t1-t2", delay_ns=rng.choice((2_000, 20_000)))] if rng.random() < 0.3 else []
    if rng.random() < 0.3:
        rules.append(LinkRule(f"t0-*:t1-*@p{rng.randrange(like.planes)}", rate_bps=rate // rng.choice((2, 4))))
    return multi_plane_clos(
        "swarm",
        planes=like.planes,
        t1=t1,
        t2=t1 * rng.choice((1, 2)) if wiring is T2Wiring.GROUPS else rng.choice((1, 2, 3)),
        t2_wiring=wiring,
        racks=[[rng.choice((1, 1, 2)) for _ in range(rng.choice((1, 2)))] for _ in range(rng.choice((2, 2, 3)))],
        rate_bps=rate,
        links=rules,
        queues=like.queues,
    )


def _pair(rng: random.Random, fabric: Fabric, fit: FabricTiming) -> PlannedPair:
    first, second = rng.sample([nic.name for nic in fabric.nics], 2)
    kind = _kind(rng.random())
    mpr = rng.choice((1, 2, 8, 8))
    wimm = rng.choice((1, 4, 128))
    attributes = QpAttributes(
        path_mtu=rng.choice((1024, 4096, 4096)),
        mpr=mpr,
        mpr_dest=mpr,
        max_wimm=wimm,
        max_wimm_dest=wimm,
        retry_count=rng.choice((10, 32)),
        congestion_window=rng.choice((None, None, 4096, 65536)),
        active_paths=rng.choice((None, None, 1, 4)),
        send_psn=0xFFFFF0 if rng.random() < 0.2 else None,
        receive_psn=None,
    )
    if attributes.send_psn is not None:
        attributes = replace(attributes, receive_psn=attributes.send_psn)
    return PlannedPair(first, second, kind, fit.attributes(attributes))


def _kind(drawn: float) -> QpType:
    """The type of a queue pair for a number from 0 to 1: mostly MRC."""
    baselines = QpType.RC, QpType.RC_SR, QpType.RC_AR
    if drawn < 0.15:
        return baselines[int(drawn * 20)]
    return QpType.UET if drawn > 0.95 else QpType.MRC


def _write(rng: random.Random, pairs: int) -> PlannedWrite:
    length = rng.choice((1, 3, 4095, 4096, 4097, rng.randint(1, 20_000), rng.randint(1, 300_000)))
    return PlannedWrite(
        rng.randrange(pairs), rng.random() < 0.3, rng.randrange(HORIZON), length, imm=rng.random() < 0.4
    )


def _fault(rng: random.Random, fabric: Fabric) -> ScenarioFault:
    make: tuple[Callable[[random.Random, Fabric], Fault], ...] = (
        lambda r, f: LinkDown(_link(r, f)),
        lambda r, f: LinkDown(_link(r, f), towards=_end(r, f)),
        lambda r, f: PortDown(*_nic_end(r, f)),
        lambda r, f: PowerOff(r.choice(f.switches).name),
        lambda r, f: Blackhole(r.choice(f.switches).name),
        lambda r, f: Loss(_link(r, f), r.choice((0.001, 0.01, 0.1, 0.3))),
        lambda r, f: Loss("*", r.choice((0.0001, 0.001, 0.01))),
        lambda r, f: Corruption(_link(r, f), r.choice((0.001, 0.01, 0.1))),
        lambda r, f: Reordering("*", r.choice((0.01, 0.3)), r.choice((500, 5_000, 50_000))),
        lambda r, f: PathLoss(_ev(r, f), r.choice((0.2, 1.0))),
        lambda r, f: Flap(_link(r, f), r.randint(5_000, 200_000), r.randint(5_000, 200_000), r.random() < 0.5),
        lambda r, f: Rate(_link(r, f), r.choice((1, 5, 20)) * _GIGA),
        lambda r, f: Delay(_link(r, f), r.choice((500, 10_000, 100_000))),
        lambda r, f: ControllerDown(),
    )
    fault = rng.choice(make)(rng, fabric)
    if isinstance(fault, LinkDown) and fault.towards is not None:
        link = fabric.link(fault.link)
        fault = replace(fault, towards=rng.choice((link.lower.node, link.upper.node)))
    if isinstance(fault, PathLoss) and not _has_path(fabric, fault.ev):
        fault = Loss("*", 0.01)
    start = rng.randrange(HORIZON)
    return ScenarioFault(fault, start, start + round(10 ** rng.uniform(4.0, 6.3)))


def _anywhere(seed: int, planned: ScenarioFault) -> ScenarioFault:
    """For half of the seeds corruption may hit headers, too."""
    fault = planned.fault
    if isinstance(fault, Corruption) and generator(seed, "bits").random() < 0.5:
        return replace(planned, fault=BitFlips(fault.link, fault.probability))
    return planned


def _outage(rng: random.Random, fabric: Fabric, pair: PlannedPair, budget: int) -> ScenarioFault:
    """All ports of a NIC of `pair` are down, or silently cut, for a little less than its retry budget, or for more."""
    nic = rng.choice((pair.first, pair.second))
    start = rng.randrange(HORIZON)
    length = round(budget * rng.choice((rng.uniform(0.2, 0.98), rng.uniform(1.0, 8.0))))
    return ScenarioFault(LinkDown(f"{nic}@*", rng.choice((None, None, nic, "t0-*"))), start, start + length)


def _denials(rng: random.Random, fabric: Fabric, pairs: tuple[PlannedPair, ...]) -> list[ScenarioFault]:
    """What a controller denies during traffic: paths between two NICs (rarely all of them), or all on a plane's T1."""
    found = []
    for _ in range(rng.choice((0, 0, 1, 2, 5))):
        pair = rng.choice(pairs)
        if rng.random() < 0.5:
            ends = rng.choice(((pair.first, pair.second), (pair.second, pair.first)))
            routes = _routes(fabric, *ends)
            chosen = rng.sample(routes, rng.choice((1, -(-len(routes) // 2), max(1, len(routes) - 1), len(routes))))
        else:
            ev = _ev(rng, fabric)
            every = {(p.first, p.second) for p in pairs} | {(p.second, p.first) for p in pairs}
            chosen = [route for ends in sorted(every) for route in _routes(fabric, *ends) if route[2] == ev]
        if chosen:
            start = rng.randrange(HORIZON)
            found.append(ScenarioFault(Denied(tuple(chosen)), start, start + round(10 ** rng.uniform(4.0, 6.3))))
    return found


def _routes(fabric: Fabric, source: str, target: str) -> list[Route]:
    return [route for route in addresses(fabric, source).values() if route[1] == target]


def _link(rng: random.Random, fabric: Fabric) -> str:
    return rng.choice(fabric.links).name


def _end(rng: random.Random, fabric: Fabric) -> str:
    return rng.choice(fabric.switches).name  # replaced by an end of the link


def _nic_end(rng: random.Random, fabric: Fabric) -> tuple[str, int]:
    return rng.choice(fabric.nics).name, rng.randrange(fabric.planes)


def _ev(rng: random.Random, fabric: Fabric) -> int:
    if fabric.t2_count:
        return path_ev(rng.choice(fabric.paths(*rng.sample(fabric.nics, 2))))
    return entropy_value(rng.randrange(fabric.planes), rng.randrange(max(1, fabric.t1_count)))


def _has_path(fabric: Fabric, ev: int) -> bool:
    return bool(fabric.t2_count) or fabric.t0_count > 1 or ev & 1023 == 0
