"""A scenario by its seed: fabric, workload, transport, a fault and its times, as an experiment file.

What docs/scale.md says is left out is not drawn: uplinks that are full or just enough, ports with few packets in a
round trip, flows that wait for their messages, random losses, collectives whose segments take less time than a chunk
needs to the next rank or that their slots limit, faults in the middle of a collective operation, planes that lose more
than half of their paths at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from topologies.addressing import path_ev
from topologies.fabric_checks import MAX_RATE_BPS
from topologies.parts import Tier
from topologies.up_down import FabricPath

RATE: Final = 0.02
_MEETING: Final = 0.03  # of an all-to-all, whose streams meet at ports: up to 2.8 % slower with packets (docs/scale.md)
_FEW_PLANES: Final = 2  # of more one port that is slow trims packets, which take other planes then (docs/scale.md)
_WARM: Final = 100  # us, in which windows and queues find their size
_DIP: Final = 150  # us after a change, which rates between changes leave out
_STEADY: Final = 100  # us of every span in which rates are compared
_BIN: Final = 10  # us
_ALONE: Final = 0.10
_QUEUES: Final = 0.20  # where all hosts send, whose queues lengthen the round trip (docs/scale.md)
_PORTS: Final = ((2, 50), (2, 100), (2, 200), (4, 50), (4, 100), (8, 50))  # planes, and Gb/s of a port
_MIN_UPLINK: Final = 50  # Gb/s: less has too few packets in a round trip
_MAX_UPLINK: Final = MAX_RATE_BPS // 10**9
_THREE_TIERS: Final = 3  # one in so many
_SUBSETS: Final = 4  # one in so many of flows of mrc
_FEW_PATHS: Final = 16  # of a plane, each of which every flow takes soon


@dataclass(frozen=True, slots=True)
class Scenario:
    """An experiment file and what of it is compared.

    `steady` are spans (ns) in which rates are. `dead` are the entropy values of paths over uplinks that lose
    everything, of which all that use them must know at the end. `losses` is by which share packets lost may differ; 0:
    they are not compared. `steps` is by which share steps may differ. With `subsets` queue pairs use half of their
    paths, other ones in each backend.
    """

    seed: int
    text: str
    steady: tuple[tuple[int, int], ...] = ()
    dead: frozenset[int] = frozenset()
    losses: float = 0.0
    steps: float = RATE
    subsets: bool = False


@dataclass(frozen=True, slots=True)
class _Fabric:
    """Two tiers, or three with `group` T2s above a T1; `racks` are those of all pods, `t1s` those of one."""

    hosts: int
    planes: int
    racks: int
    t1s: int
    rate: int  # Gb/s
    uplink: int
    pods: int = 1
    group: int = 0
    above: int = 0  # Gb/s of a T1's uplink

    def text(self) -> str:
        tiers = ""
        if self.group:
            tiers = f"pods: {self.pods}, t2: {self.t1s * self.group}, links: {{t1-t2: {{rate: {self.above}G}}}}, "
        return (
            f"fabric: {{hosts: {self.hosts}, planes: {self.planes}, t0: {self.racks // self.pods}, t1: {self.t1s}, "
            f"{tiers}rate: {self.rate}G, uplink_rate: {self.uplink}G}}\n"
        )

    @property
    def slots(self) -> int:
        """Of a collective, so many that they do not limit it, however long the way."""
        return 64 if self.group else 16

    def evs(self, plane: int, t1: int, t2: int | None = None) -> list[int]:
        """The entropy values of paths over T1s of that number, all or those over one T2 (by number above a T1)."""
        over = [FabricPath(plane, Tier.T2, t1, t1 * self.group + number, t1) for number in range(self.group)]
        if t2 is not None:
            return [path_ev(over[t2])]
        return [path_ev(path) for path in (FabricPath(plane, Tier.T1, t1), *over)]


def draw(seed: int, hosts: int | None = None) -> Scenario:
    """The scenario of a seed, with so many hosts or, if not given, 16 to 64."""
    chance = random.Random(f"scale comparison {seed}")
    size = chance.choice((16, 32, 48, 64))
    fabric = _fabric(chance, hosts or size)
    tiers = random.Random(f"scale comparison, tiers {seed}")
    if not tiers.randrange(_THREE_TIERS):
        fabric = _with_pods(tiers, fabric)
    kind = chance.choice((_flows, _flows, _flows, _collective, _training, _single_paths))
    return kind(chance, seed, fabric)


def _fabric(chance: random.Random, hosts: int) -> _Fabric:
    while True:
        racks = chance.choice([count for count in (4, 8, 16) if hosts // count >= 2])
        t1s, (planes, rate) = chance.choice((4, 8, 16)), chance.choice(_PORTS)
        most = hosts // racks * rate
        uplink = chance.choice((2, 3)) * most // t1s
        if _MIN_UPLINK <= uplink <= _MAX_UPLINK:
            return _Fabric(hosts, planes, racks, t1s, rate, uplink)


def _with_pods(chance: random.Random, fabric: _Fabric) -> _Fabric:
    """The same hosts and racks in pods below T2s, with few paths if links can carry that."""
    found = []
    for pods, t1s, group, spare in product((2, 4), (4, 8, 16), (1, 2, 4), (2, 3)):
        uplink = spare * fabric.hosts // fabric.racks * fabric.rate // t1s
        above = spare * fabric.hosts // pods * fabric.rate // (t1s * group)
        if fabric.racks // pods >= 2 and all(_MIN_UPLINK <= rate <= _MAX_UPLINK for rate in (uplink, above)):
            found.append(replace(fabric, t1s=t1s, uplink=uplink, pods=pods, group=group, above=above))
    few = [one for one in found if one.t1s * one.group <= _FEW_PATHS]
    return chance.choice(few or found or [fabric])


def _flows(chance: random.Random, seed: int, fabric: _Fabric) -> Scenario:
    """Flows between pairs of hosts, with a fault in the middle of which they may know."""
    pairs = chance.choice(("permutation", "permutation", "some"))
    if pairs == "permutation":
        work = "kind: permutation"
    else:
        names = [f"h{number + 1}" for number in chance.sample(range(fabric.hosts), 2 * chance.randint(2, 6))]
        listed = ", ".join(f"{near}>{far}" for near, far in zip(names[::2], names[1::2], strict=True))
        work = f"kind: write_bw, pairs: [{listed}]"
    qps = chance.choice((1, 1, 2, 4))
    subsets = not random.Random(f"scale comparison, paths {seed}").randrange(_SUBSETS)
    half = f", paths: {fabric.planes * fabric.t1s * max(1, fabric.group) // 2}" if subsets else ""
    transport = f"transport: {{qps: {qps}{half}}}\n"
    fault, dead, until = _fault(chance, fabric)
    at = _WARM + _STEADY
    spans = [(_WARM, at)]
    ends = at + _DIP + _STEADY
    timing = f", at: {at}us" if fault else ""
    if until:
        timing += f", until: {ends}us"
    spans.append((at + _DIP, ends))
    text = (
        f"{fabric.text()}{transport}workload: {{{work}, message: 256K, outstanding: {32 // qps}}}\n"
        f"duration: {ends}us\nmeasure: {{bin: {_BIN}us, links: no}}\n"
    )
    if fault:
        text += f"faults: [{{{fault}{timing}}}]\n"
    return Scenario(
        seed,
        text,
        tuple((begin * 1000, end * 1000) for begin, end in (spans if fault else [(_WARM, ends)])),
        frozenset(dead),
        0.0 if not dead else _QUEUES if subsets or pairs == "permutation" else _ALONE,
        subsets=subsets,
    )


def _fault(chance: random.Random, fabric: _Fabric) -> tuple[str, list[int], bool]:
    """A fault without its times, the entropy values that are dead, and whether it ends with the run."""
    plane, t1 = chance.randrange(fabric.planes), chance.randrange(fabric.t1s)
    kind = chance.choice(("none", "cut", "cuts", "silent", "power", "port", "rate"))
    if kind == "rate" and fabric.planes > _FEW_PLANES:
        kind = "port"
    if fabric.group and kind in ("cut", "cuts", "silent", "power") and chance.random() < 0.5:
        return _fault_above(chance, fabric, kind, plane, t1)
    if kind == "cut":
        rack = chance.randrange(fabric.racks)
        return f"kind: link_down, link: 't0-{rack}:t1-{_t1(fabric, rack, t1)}@p{plane}'", fabric.evs(plane, t1), False
    if kind == "cuts":
        t1s = sorted(chance.sample(range(fabric.t1s), 2))
        racks = chance.randint(1, fabric.racks // fabric.pods - 1)
        links = f"t0-[0-{racks}]:t1-[{t1s[0]},{t1s[1]}]@p{plane}"
        return f"kind: link_down, link: '{links}'", [ev for t1 in t1s for ev in fabric.evs(plane, t1)], False
    if kind in ("silent", "power"):
        name = "blackhole" if kind == "silent" else "power_off"
        pod = chance.randrange(fabric.pods) if fabric.group else 0
        return f"kind: {name}, switch: 't1-{pod * fabric.t1s + t1}@p{plane}'", fabric.evs(plane, t1), False
    if kind == "port":
        return f"kind: link_down, link: 'h{chance.randint(1, fabric.hosts)}@p{plane}'", [], True
    if kind == "rate":
        link = f"h{chance.randint(1, fabric.hosts)}@p{plane}"
        return f"kind: rate, link: '{link}', rate: {fabric.rate // 2}G", [], True
    return "", [], False


def _t1(fabric: _Fabric, rack: int, t1: int) -> int:
    """The T1 of that number in the pod of a rack."""
    return rack * fabric.pods // fabric.racks * fabric.t1s + t1


def _fault_above(chance: random.Random, fabric: _Fabric, kind: str, plane: int, t1: int) -> tuple[str, list[int], bool]:
    """The same between T1s and T2s."""
    number = chance.randrange(fabric.group)
    t2, below = t1 * fabric.group + number, chance.randrange(fabric.pods) * fabric.t1s + t1
    if kind in ("silent", "power"):
        name = "blackhole" if kind == "silent" else "power_off"
        return f"kind: {name}, switch: 't2-{t2}@p{plane}'", fabric.evs(plane, t1, number), False
    links = f"t1-{below if kind == 'cut' else '*'}:t2-{t2}@p{plane}"
    return f"kind: link_down, link: '{links}'", fabric.evs(plane, t1, number), False


def _ranks(chance: random.Random, fabric: _Fabric) -> tuple[list[int], str]:
    """Numbers of hosts in a row that are ranks, and their pattern."""
    count = chance.choice([count for count in (4, 8, 16) if count <= fabric.hosts // 2])
    first = chance.randint(1, fabric.hosts - count + 1)
    return list(range(first, first + count)), f"h[{first}-{first + count - 1}]"


def _dead_at_start(chance: random.Random, fabric: _Fabric) -> tuple[int, str]:
    """How many operations it takes until all ranks know of a fault, and the fault, if any."""
    if chance.random() < 0.5:
        return 0, ""
    plane, t1 = chance.randrange(fabric.planes), chance.randrange(fabric.t1s)
    switch = f"t2-{t1 * fabric.group}" if fabric.group and chance.random() < 0.5 else f"t1-{t1}"
    return 3, f"faults: [{{kind: blackhole, switch: '{switch}@p{plane}', at: 0ns}}]\n"


def _collective(chance: random.Random, seed: int, fabric: _Fabric) -> Scenario:
    """Operations whose segments take long enough that chunks do not wait."""
    ranks, hosts = _ranks(chance, fabric)
    operation = chance.choice(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
    size = len(ranks) * fabric.planes * fabric.rate * chance.choice((2, 3)) // 400  # MB
    warmup, faults = _dead_at_start(chance, fabric)
    text = (
        f"{fabric.text()}workload: {{kind: collective, operation: {operation}, bytes: {size}M, hosts: ['{hosts}'], "
        f"slots: {fabric.slots}, warmup: {warmup}}}\nduration: 20ms\nmeasure: {{links: no}}\n{faults}"
    )
    return Scenario(seed, text, steps=_MEETING if operation == "all_to_all" else RATE)


def _training(chance: random.Random, seed: int, fabric: _Fabric) -> Scenario:
    """Steps of computing and all-reduce, with a straggler."""
    ranks, hosts = _ranks(chance, fabric)
    size = max(1, len(ranks) * fabric.planes * fabric.rate // (300 if fabric.group else 600))  # MB
    warmup, faults = _dead_at_start(chance, fabric)
    late = f"stragglers: [{{hosts: h{chance.choice(ranks)}, slowdown: {chance.choice((1, 1.5, 2))}}}]"
    text = (
        f"{fabric.text()}workload: {{kind: training, gradients: [{size}M, {size}M], steps: 1, warmup: {warmup}, "
        f"compute: {chance.choice((100, 200, 400))}us, jitter: {chance.choice((0, 10))}%, "
        f"hosts: ['{hosts}'], {late}, slots: {fabric.slots}, overlap: {chance.choice(('yes', 'no'))}}}\n"
        f"duration: 20ms\nmeasure: {{links: no}}\n{faults}"
    )
    return Scenario(seed, text)


def _single_paths(chance: random.Random, seed: int, fabric: _Fabric) -> Scenario:
    """Flows of RC, each with an uplink of its own in its rack, to the hosts of the next rack.

    The uplinks of acknowledgements are drawn otherwise in either backend, so that only ports of NICs fail.
    """
    in_rack = fabric.hosts // fabric.racks
    both = 2 * fabric.rate  # for data and acknowledgements
    above = both * -(-in_rack // fabric.t1s) * (fabric.racks // fabric.pods)  # whichever T2s the hash chooses
    fabric = replace(fabric, planes=1, uplink=max(fabric.uplink, both), above=min(_MAX_UPLINK, above))
    uplinks = [[number % in_rack % fabric.t1s] for number in range(fabric.hosts)]
    at, ends = _WARM + _STEADY, _WARM + 2 * _STEADY + _DIP
    port = chance.random() < 0.5
    text = (
        f"{fabric.text()}transport: {{type: rc}}\n"
        f"workload: {{kind: permutation, shift: {in_rack}, message: 256K, outstanding: 8, uplinks: {uplinks}}}\n"
        f"duration: {ends}us\nmeasure: {{bin: {_BIN}us, links: no}}\n"
    )
    if port:
        text += f"faults: [{{kind: link_down, link: 'h{chance.randint(1, fabric.hosts)}@p0', at: {at}us}}]\n"
    return Scenario(seed, text, ((_WARM * 1000, at * 1000), ((at + _DIP) * 1000, ends * 1000)))
