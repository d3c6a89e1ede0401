"""What a plan is given besides faults of the network: new lives, crowded and unpolled completion queues, dead planes.

About a third of the plans stay as they are, a tenth become a study of one question, which needs a world of its own
(shares of two MTUs, uniform loss, a quarter of the paths cut under load, silent queue pairs beside others, dark planes
of queue pairs that keep to a plane), and the others get one or more troubles. In some, queue pairs fall silent besides,
or planes take over from each other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mrc_host.verbs_types import QpType
from simulation.seeds import generator
from simulation.transport_timers import retry_budget
from tests.swarm.application_faults import Manner, Mute, Reconnect, Restart, Revoke, SharedQueue, SlowPoller
from tests.swarm.channel_faults import ClassLoss, TrafficClass
from tests.swarm.denylists import Denied, Route, addresses
from tests.swarm.directed_scenarios import STUDIES, dark_planes, silent_mates
from tests.swarm.scenario import FOREVER, HORIZON, PlannedPair, PlannedWrite, Scenario, ScenarioFault
from topologies.fabric import LinkKind
from topologies.faults import Fault
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.reordering import Reordering

_LAST: Final = 4 * HORIZON  # ns, about when a plan is over
Trouble = Callable[[random.Random, Scenario], Scenario]


def troubled(plan: Scenario) -> Scenario:
    """The plan with its troubles, drawn from its own seed."""
    rng = generator(plan.seed, "troubles")
    silence = generator(plan.seed, "silences")  # its own, so that seeds without silence keep their plans
    drawn = silence.random()
    if drawn < 0.02:
        return silent_mates(silence, plan)
    plan = _mutes(silence, plan) if drawn < 0.05 else plan
    dark = generator(plan.seed, "dark planes")
    if dark.random() < 0.01:
        return dark_planes(dark, plan)
    takeover = generator(plan.seed, "takeovers")
    plan = _takeovers(takeover, plan) if takeover.random() < 0.03 else plan
    kind = rng.random()
    if kind < 0.35:
        return _in_order(plan)
    if kind < 0.45:
        return rng.choice(STUDIES)(rng, plan)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        plan = rng.choice(_TROUBLES)(rng, plan)
    return _in_order(plan)


def _in_order(plan: Scenario) -> Scenario:
    return replace(plan, faults=tuple(sorted(plan.faults, key=lambda fault: fault.start)))


def _more(plan: Scenario, *faults: ScenarioFault) -> Scenario:
    return replace(plan, faults=(*plan.faults, *faults))


def _renewed(pair: PlannedPair) -> PlannedPair:
    """A pair that may have several lives: in each it is given attributes anew, first PSNs too."""
    return replace(pair, attributes=replace(pair.attributes, send_psn=None, receive_psn=None), renewed=True)


def _once(plan: Scenario) -> int:
    return 1024 << plan.fit.timeout


def _budget(plan: Scenario, number: int) -> int:
    transport = plan.fit.transport(plan.fabric.settings.transport)
    return retry_budget(plan.pairs[number].attributes, transport)


def _moment(rng: random.Random, plan: Scenario, number: int) -> int:
    """A time at which the pair probably has packets on the way."""
    writes = [write for write in plan.writes if write.pair == number]
    if not writes:
        return rng.randrange(HORIZON)
    return rng.choice(writes).time + rng.randrange(1, 3 * plan.fit.round_trip)


def _span(rng: random.Random) -> int:
    return round(10 ** rng.uniform(4.0, 6.3))


# ---- new lives ------------------------------------------------------------------------------------------------------


def _burst(rng: random.Random, plan: Scenario, number: int, time: int) -> tuple[PlannedWrite, ...]:
    """Writes posted at once, in one direction or both."""
    backs = rng.choice(((False,), (True,), (False, True)))
    length = rng.choice((64, 5000, 5000, 20_000))
    count, imm = rng.randint(2, 24), rng.random() < 0.5
    return tuple(PlannedWrite(number, back, time, length, imm) for back in backs for _ in range(count))


def _join(plan: Scenario, *writes: PlannedWrite) -> Scenario:
    return replace(plan, writes=tuple(sorted((*plan.writes, *writes), key=lambda write: write.time)))


def _reconnects(rng: random.Random, plan: Scenario) -> Scenario:
    """New lives for some pairs, each in the midst of writes, and often with packets that take their time."""
    pairs = list(plan.pairs)
    if rng.random() < 0.5:
        slow: Fault = rng.choice((Delay("*", rng.choice((5_000, 20_000))), Reordering("*", 0.3, 50_000)))
        plan = _more(plan, ScenarioFault(slow, 0, 2 * HORIZON))
    for number in rng.sample(range(len(pairs)), min(len(pairs), rng.choice((1, 1, 2, 3)))):
        pairs[number] = _renewed(pairs[number])
        for _ in range(rng.choice((1, 1, 2, 4))):
            time = _moment(rng, plan, number)
            manner = rng.choice((Manner.TOGETHER, Manner.TOGETHER, Manner.BY_TURNS, Manner.BY_TURNS, Manner.ALONE))
            word = rng.choice((0, 1_000, 20_000, min(200_000, _budget(plan, number) // 8)))
            fault = Reconnect(number, rng.random() < 0.5, manner, rng.random() < 0.3, word)
            heal = rng.choice((FOREVER, time + _span(rng))) if manner is Manner.ALONE else time + 1 + 2 * word
            plan = _more(plan, ScenarioFault(fault, time, heal))
            if rng.random() < 0.7:
                plan = _join(plan, *_burst(rng, plan, number, max(0, time - rng.randrange(plan.fit.round_trip))))
            if rng.random() < 0.7:
                plan = _join(plan, *_burst(rng, plan, number, time + rng.randrange(plan.fit.round_trip)))
    return replace(plan, pairs=tuple(pairs))


def _restarts(rng: random.Random, plan: Scenario) -> Scenario:
    """NICs that restart while they are in use, and ports of theirs that go afterwards."""
    for _ in range(rng.choice((1, 1, 2))):
        number = rng.randrange(len(plan.pairs))
        pair = plan.pairs[number]
        nic = rng.choice((pair.first, pair.second))
        start = _moment(rng, plan, number)
        back = start + rng.choice((1_000, _span(rng), 5 * _once(plan)))
        plan = _more(plan, ScenarioFault(Restart(nic, rng.choice((0, 1_000, 50_000))), start, back))
        for _ in range(rng.choice((0, 1, 3))):
            port = f"{nic}@p{rng.randrange(plan.fabric.planes)}"
            begin = rng.randrange(start, start + HORIZON)
            plan = _more(plan, ScenarioFault(LinkDown(port), begin, begin + _span(rng)))
    return replace(plan, pairs=tuple(_renewed(pair) for pair in plan.pairs))


def _relapse(rng: random.Random, plan: Scenario) -> Scenario:
    """A pair is cut off for long, gets a new life, and at once meets a short cut that leaves nothing in flight."""
    number = rng.randrange(len(plan.pairs))
    pair = _renewed(plan.pairs[number])
    plan = replace(plan, pairs=(*plan.pairs[:number], pair, *plan.pairs[number + 1 :]))
    start, length = rng.randrange(HORIZON), round(_budget(plan, number) * rng.uniform(0.1, 0.8))
    link = f"{rng.choice((pair.first, pair.second))}@*"
    over = start + length
    word = rng.choice((0, 1_000))
    again = over + 4 * plan.fit.round_trip + 2 * word
    plan = _more(
        plan,
        ScenarioFault(LinkDown(link, "*"), start, over),
        ScenarioFault(
            Reconnect(number, False, rng.choice((Manner.TOGETHER, Manner.BY_TURNS)), False, word), over, over + 1
        ),
        ScenarioFault(LinkDown(link, "*"), again, again + 2 * plan.fit.round_trip),
    )
    return _join(
        plan,
        PlannedWrite(number, False, start, rng.choice((100, 5000)), False),
        PlannedWrite(number, False, again, rng.choice((100, 5000)), False),
    )


def _revoke(rng: random.Random, plan: Scenario) -> Scenario:
    """Memory is deregistered while it is written to."""
    number = rng.randrange(len(plan.pairs))
    time = _moment(rng, plan, number)
    return _more(plan, ScenarioFault(Revoke(number, rng.random() < 0.5), time, time + 1))


# ---- completion queues ----------------------------------------------------------------------------------------------


def _crowded(rng: random.Random, plan: Scenario) -> Scenario:
    """Ends of one or both NICs share a small queue, and post until it is full."""
    number = rng.randrange(len(plan.pairs))
    pair = plan.pairs[number]
    capacity = rng.choice((1, 2, 4, 16))
    nics = rng.choice(((pair.first,), (pair.second,), (pair.first, pair.second), (pair.first, pair.second)))
    plan = _more(plan, *(ScenarioFault(SharedQueue(nic, capacity), 0, _LAST) for nic in nics))
    time, count = rng.randrange(HORIZON), capacity + rng.randint(-1, 4)
    fills = (PlannedWrite(number, back, time, 64, True) for back in (False, True) for _ in range(max(1, count)))
    return _join(plan, *fills)


def _slow(rng: random.Random, plan: Scenario) -> Scenario:
    """Applications that poll slowly, or sleep for many ACK timeouts, with small queues so that it shows."""
    number = rng.randrange(len(plan.pairs))
    pair = plan.pairs[number]
    nic = rng.choice((pair.first, pair.second))
    start = rng.randrange(HORIZON)
    interval = rng.choice((1_000, 50_000, 10 * _once(plan), rng.randint(100, 400) * _once(plan)))
    end = start + max(_span(rng), interval)
    plan = _more(plan, ScenarioFault(SlowPoller(nic, interval), start, end))
    if rng.random() < 0.8:
        plan = _more(plan, ScenarioFault(SharedQueue(nic, rng.choice((1, 4, 16))), 0, _LAST))
    back = nic == pair.first
    writes = (PlannedWrite(number, back, start + 1, rng.choice((64, 9000)), True) for _ in range(rng.randint(2, 24)))
    return _join(plan, *writes)


def _mutes(rng: random.Random, plan: Scenario) -> Scenario:
    """Some pairs get no answers at one end: for a moment, for about their retry budget, or for good."""
    for number in rng.sample(range(len(plan.pairs)), rng.randint(1, min(3, len(plan.pairs)))):
        start = _moment(rng, plan, number)
        end = rng.choice((start + _span(rng), start + 2 * _budget(plan, number), FOREVER))
        plan = _more(plan, ScenarioFault(Mute(number, rng.random() < 0.5), start, end))
    return plan


# ---- the network ----------------------------------------------------------------------------------------------------


def _silent_plane(rng: random.Random, plan: Scenario) -> Scenario:
    """One plane, or all but one, swallow everything without losing a carrier: for a while, for long, or for good."""
    planes = plan.fabric.planes
    number = rng.randrange(len(plan.pairs))
    dead = [0] if rng.random() < 0.4 else rng.sample(range(planes), rng.choice((1, 1, max(1, planes - 1))))
    start = _moment(rng, plan, number) if rng.random() < 0.7 else 0
    end = rng.choice((start + _span(rng), start + 2 * _budget(plan, number), FOREVER))
    towards = rng.choice(("*", "*", "t0-*", plan.pairs[number].first, plan.pairs[number].second))
    return _more(plan, *(ScenarioFault(LinkDown(f"*@p{plane}", towards), start, end) for plane in dead))


def _takeovers(rng: random.Random, plan: Scenario) -> Scenario:
    """One plane works at a time: when it falls silent another one, which everybody has given up, works again."""
    planes = range(plan.fabric.planes)
    if len(planes) < 2:
        return plan
    number = rng.randrange(len(plan.pairs))
    towards = rng.choice(("*", "*", "t0-*", plan.pairs[number].first, plan.pairs[number].second))
    start, works = rng.randrange(HORIZON), -1
    for _ in range(rng.choice((2, 3, 5))):
        works = rng.choice([plane for plane in planes if plane != works])
        end = start + round(_budget(plan, number) * rng.uniform(0.2, 1.0))
        silent = (LinkDown(f"*@p{plane}", towards) for plane in planes if plane != works)
        plan = _more(plan, *(ScenarioFault(fault, start, end) for fault in silent))
        plan = _join(plan, *_burst(rng, plan, number, start - rng.randrange(plan.fit.round_trip)))
        start = end
    return plan


def _lost_class(rng: random.Random, plan: Scenario) -> Scenario:
    """Some links carry one class of traffic and lose the other, wholly or by chance."""
    traffic = rng.choice((TrafficClass.DATA, TrafficClass.DATA, TrafficClass.CONTROL))
    links = [link.name for link in plan.fabric.links if link.kind is not LinkKind.NIC_T0] or [plan.fabric.links[0].name]
    name = rng.choice((rng.choice(links), rng.choice(links), f"*@p{rng.randrange(plan.fabric.planes)}"))
    start = rng.randrange(HORIZON)
    end = start + rng.choice((_span(rng), 50 * plan.fit.round_trip * rng.randint(1, 20)))
    return _more(plan, ScenarioFault(ClassLoss(name, traffic, rng.choice((1.0, 1.0, 0.3))), start, end))


def _deny_all(rng: random.Random, plan: Scenario) -> Scenario:
    """Every path of a NIC to another, or between both, is denied: for a while or for good."""
    pair = rng.choice(plan.pairs)
    both = rng.random() < 0.4
    routes: list[Route] = [
        route
        for source, target in ((pair.first, pair.second), (pair.second, pair.first))[: 2 if both else 1]
        for route in addresses(plan.fabric, source).values()
        if route[1] == target
    ]
    start = rng.choice((0, rng.randrange(HORIZON)))
    end = FOREVER if rng.random() < 0.15 else start + _span(rng)
    return _more(plan, ScenarioFault(Denied(tuple(routes)), start, end))


def _flapping(rng: random.Random, plan: Scenario) -> Scenario:
    """Many links flap at once, each for itself."""
    pattern = rng.choice(("t0-*:t1-*", "*@p0", f"*@p{rng.randrange(plan.fabric.planes)}", "h*"))
    if not plan.fabric.t1_count:
        pattern = "h*"
    start = rng.randrange(HORIZON)
    flap = Flap(pattern, rng.randint(5_000, 200_000), rng.randint(20_000, 400_000), True)
    return _more(plan, ScenarioFault(flap, start, start + _span(rng)))


def _mixed(rng: random.Random, plan: Scenario) -> Scenario:
    """Path MTUs of all sizes side by side, and a little loss."""
    pairs = tuple(
        replace(pair, attributes=replace(pair.attributes, path_mtu=rng.choice((256, 512, 1024, 2048, 4096))))
        for pair in plan.pairs
    )
    writes = tuple(replace(write, length=min(write.length, 60_000)) for write in plan.writes)
    plan = replace(plan, pairs=pairs, writes=writes)
    return _more(plan, ScenarioFault(Loss("*", 0.001), 0, HORIZON)) if rng.random() < 0.5 else plan


def _lost_answers(rng: random.Random, plan: Scenario) -> Scenario:
    """Small writes of which answers are lost by chance while a plane is silent."""
    number = rng.randrange(len(plan.pairs))
    if plan.pairs[number].kind is not QpType.MRC:
        return _silent_plane(rng, plan)
    plan = _silent_plane(rng, plan)
    start = rng.randrange(HORIZON)
    plan = _more(plan, ScenarioFault(ClassLoss("*", TrafficClass.CONTROL, 0.3), start, start + _span(rng)))
    return _join(plan, *_burst(rng, plan, number, start))


_TROUBLES: Final[tuple[Trouble, ...]] = (
    _reconnects,
    _reconnects,
    _reconnects,
    _restarts,
    _restarts,
    _relapse,
    _revoke,
    _crowded,
    _crowded,
    _slow,
    _slow,
    _silent_plane,
    _silent_plane,
    _lost_class,
    _lost_class,
    _deny_all,
    _deny_all,
    _flapping,
    _mixed,
    _lost_answers,
)
