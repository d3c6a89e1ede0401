"""Random worlds that ask one question of path selection each; ``tests.fuzz paths`` asks them for hours."""

from __future__ import annotations

import random
from dataclasses import replace

from mrc_host.verbs_types import PathEvent, PathState
from simulation.hardware_timing import PUBLISHED_TESTBED
from simulation.world import SimulatedWorld, switch_drops
from tests.simulation.worlds import GIGA, US, Pair
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric

LEAST_SHARE = 0.99  # of what oblivious spraying carries: reacting may not cost anything where nothing is wrong
_RATE = 100 * GIGA
_MESSAGE = 256 << 10
_STARTING = 8  # round trips


def goodput(fabric: Fabric, pairs: list[tuple[str, str]], seed: int, spraying: str, warm: int, time: int) -> float:
    """Data packets received in `time` ns after `warm`, while every pair writes without end."""
    with SimulatedWorld(fabric, seed=seed, rate=_RATE) as world:
        fitted = world.fabric.settings.transport
    with SimulatedWorld(fabric, seed=seed, rate=_RATE, transport=replace(fitted, spraying=spraying)) as world:
        flows = [Pair(world, *pair, length=_MESSAGE) for pair in pairs]
        for flow in flows:
            world.spawn(flow.write_without_end(8))
        world.run(warm)
        before = sum(flow.qp_far.counters().data_received for flow in flows)
        world.run(warm + time)
        return sum(flow.qp_far.counters().data_received for flow in flows) - before


def reacting_costs_nothing(chance: random.Random) -> None:
    """A healthy fabric whose uplinks are all full: reactive spraying carries as much as oblivious."""
    planes, uplinks = chance.choice([(1, 4), (1, 8), (1, 12), (2, 4), (2, 6), (2, 8), (3, 5), (4, 8)])
    racks = chance.choice((2, 2, 3))
    hosts = racks * uplinks
    fabric = multi_plane_clos("healthy", planes=planes, t0=racks, t1=uplinks, hosts=hosts)
    order = chance.sample(range(uplinks), uplinks)  # each host of a rack to one of the next
    targets = [(n // uplinks * uplinks + uplinks + order[n % uplinks]) % hosts for n in range(hosts)]
    pairs = [(f"h{n + 1}", f"h{target + 1}") for n, target in enumerate(targets)]
    seed = chance.randrange(1 << 16)
    reactive, oblivious = (goodput(fabric, pairs, seed, way, 40 * US, 80 * US) for way in ("reactive", "oblivious"))
    assert reactive >= LEAST_SHARE * oblivious, (
        f"{planes} planes of {uplinks} T1s, {racks} racks, seed {seed}: reactive spraying carried {reactive} packets,"
        f" oblivious {oblivious}"
    )


def no_working_path_is_retired(chance: random.Random) -> None:
    """T1s of a full fabric die: what is left trims, and answers are lost, but no path that works is retired.

    They lose what the senders' T0 sends them, all but one perhaps, and what the receivers' T0 does, or both. Or they
    lose power. At most half lose answers: where more do, so many NACKs are lost that trims look like losses.
    """
    uplinks = chance.choice((3, 4, 4, 5, 6))
    fabric = multi_plane_clos("back", planes=1, t0=2, t1=uplinks, hosts=2 * uplinks)
    there, back = (chance.sample(range(uplinks), chance.randint(1, uplinks - 1)) for _ in range(2))
    back = back[: uplinks // 2]
    ways = chance.choice(("power", "there", "back", "different"))
    there, back = {"power": (there[: uplinks // 2], []), "there": (there, []), "back": ([], back)}.get(
        ways, (there, back)
    )
    seed = chance.randrange(1 << 16)
    with SimulatedWorld(fabric, seed=seed, rate=4 * _RATE, hardware=PUBLISHED_TESTBED) as world:
        flows = [Pair(world, f"h{n}", f"h{n + uplinks}", length=_MESSAGE) for n in range(1, uplinks + 1)]
        for flow in flows:
            world.spawn(flow.write_without_end(8))
        world.run(200 * US)
        for flow in flows:
            _retired(flow)
        for t0, dead in enumerate((there, back)):
            for t1 in dead:
                if ways == "power":
                    world.faults.power_off(f"t1-{t1}@p0")
                else:
                    world.faults.loss(f"t0-{t0}:t1-{t1}@p0", 1.0, towards=f"t1-{t1}@p0")
        world.run(600 * US)
        for flow in flows:
            retired = {event.ev for event in _retired(flow)}
            assert retired <= set(there), (
                f"{uplinks} T1s, {ways}: {there} dead there, {back} back, seed {seed}: {retired} retired"
            )


def nothing_is_lost_at_a_synchronised_start(chance: random.Random) -> None:
    """A healthy fabric where all NICs begin at line rate together: queues grow, but no packet is lost, and no path."""
    planes, racks, uplinks = chance.choice((1, 2, 4, 8)), chance.randint(2, 4), chance.choice((1, 2, 4, 6, 8))
    hosts = racks * chance.randint(1, uplinks)
    rate, mtu = chance.choice((25, 100, 200, 400)) * GIGA, chance.choice((1024, 2048, 4096, 4096))
    fabric = multi_plane_clos("start", planes=planes, t0=racks, t1=uplinks, hosts=hosts, rate_bps=rate)
    order = chance.sample(range(1, hosts + 1), hosts)  # each host of the circle writes to the next one
    depth, seed = chance.choice((1, 4, 16)), chance.randrange(1 << 16)
    with SimulatedWorld(fabric, seed=seed, rate=rate) as world:
        attributes = replace(world.attributes(), path_mtu=mtu)
        pairs = zip(order, order[1:] + order[:1], strict=True)
        flows = [Pair(world, f"h{a}", f"h{b}", length=_MESSAGE, attributes=attributes) for a, b in pairs]
        for flow in flows:
            world.spawn(flow.write_without_end(depth))
        world.run(_STARTING * world.timing.round_trip)
        dropped = sum(switch_drops(world).values())
        counters = [flow.qp.counters() for flow in flows]
        nacks = sum(world.nic(f"h{n}").hw_counters(None, world.now)["rx_nacks"] for n in range(1, hosts + 1))
        lost = sum(c.lost for c in counters) - nacks
        late = sum(c.late + c.spurious_retransmitted for c in counters)
        retired = sum(len(_retired(flow)) for flow in flows)
    assert dropped or not (lost or late or retired), (
        f"{planes} planes of {uplinks} T1s, {racks} racks, {order}, {rate} b/s, MTU {mtu}, depth {depth}, seed {seed}:"
        f" {lost} lost, {late} of these not at all, {retired} paths retired, {nacks} NACKs, {dropped} dropped"
    )


def _retired(flow: Pair) -> list[PathEvent]:
    """Paths that went out of use at the sender."""
    events = []
    while (event := flow.contexts[0].poll_event()) is not None:
        if isinstance(event, PathEvent) and event.new is PathState.ASSUMED_BAD:
            events.append(event)
    return events


QUESTIONS = (reacting_costs_nothing, no_working_path_is_retired, nothing_is_lost_at_a_synchronised_start)
