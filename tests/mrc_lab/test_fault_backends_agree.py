"""The same fault on the same fabric, made by both backends: what becomes of packets must be the same.

What emulation would do to switches, carriers and ports (`controller.injector`) is done here to a simulated world:
its embedded switches get the table entries, its channels the shapes. The other world has the same faults by
`world.faults`. Through both go the same frames on every path of every pair of hosts, to every switch and back, and
without source routes; what arrives where, when and whether it is intact is compared. Which places a kind is tried at
follows from its declaration, so a new kind is tried without a line more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from controller.fault_limits import EMULATION
from mrc_common.declared.field_types import Integer, Quantity
from mrc_common.declared.sections import SectionKey
from simulation.errors import FaultError
from simulation.fault_limits import SIMULATION
from simulation.trace import Trace
from simulation.world import SimulatedWorld
from simulation.write_entries import write_entries
from tests.controller.driven import MS, SECOND, engine
from tests.p4src.packets import Ip6, Packet
from tests.topologies.faults.spells import LossyPathSpells, LossySpells, SlowSpells
from topologies import addressing, paths
from topologies.clos import multi_plane_clos
from topologies.entries import SwitchEntries
from topologies.errors import FabricError
from topologies.fabric import LinkEnd, Tier
from topologies.faults import KINDS, BackendKind, Fault, FaultKind
from topologies.faults.corruption import Corruption
from topologies.faults.engine import FaultEngine
from topologies.faults.flap import Flap
from topologies.faults.kind import Intermittent
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.parameters import FaultPlace, place_of
from topologies.faults.path_loss import PathLoss
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff

FABRIC = multi_plane_clos("agree", planes=2, t0=2, t1=3, hosts=4, rate_bps=1_000_000_000)
STEP = 4_000_000_000  # ns from one frame to the next: longer than any of them takes, and a multiple of a flap's period
_PLACES: dict[FaultPlace, tuple[Any, ...]] = {
    FaultPlace.LINK: ("h1@p0", "t0-0:t1-2@p1", "h[3,4]@p*", "t0-*:t1-0@p0"),
    FaultPlace.SWITCH: ("t0-1@p0", "t1-2@p1", "t1-*@p0"),
    FaultPlace.NODE: ("h2", "t0-0@p1", "t1-0@p0"),
    FaultPlace.HOST: ("*", "h1", "h[2,3]"),
    FaultPlace.TOWARDS: (None, "h[1,3]", "t0-*", "t1-*"),
}
_QUANTITIES = {"share": 1.0, "time": 400_000_000, "rate": 2_000_000}


@dataclass(frozen=True)
class Sent:
    """A frame that leaves a host, and what it is."""

    what: str
    end: LinkEnd
    frame: bytes


def _sent(what: str, nic: str, plane: int, destination: int, inner: int | None) -> Sent:
    source = int(addressing.nic_address(FABRIC, FABRIC.nic(nic)))
    packet = Packet(Ip6(destination, source), None if inner is None else Ip6(inner, source), body=bytes(900))
    return Sent(f"{nic} {what}", LinkEnd(nic, plane), packet.pack())


def _every_way() -> Iterator[Sent]:
    for nic in FABRIC.nics:
        own = int(addressing.nic_address(FABRIC, nic))
        for peer in (peer for peer in FABRIC.nics if peer != nic):
            known, inner = paths.destination(FABRIC, nic, peer), int(addressing.nic_address(FABRIC, peer))
            for ev in known.evs:
                address = int.from_bytes(known.template.address(ev), "big")
                yield _sent(f"to {peer.name} by {ev:#x}", nic.name, known.template.plane(ev), address, inner)
            for plane in range(FABRIC.planes):
                yield _sent(f"to {peer.name} routed in plane {plane}", nic.name, plane, inner, None)
        for to_t1 in (False, True):
            template = paths.probe_template(FABRIC, nic, Tier.T1 if to_t1 else Tier.T0)
            for plane, uplink in itertools.product(range(FABRIC.planes), range(FABRIC.t1_count if to_t1 else 1)):
                address = int.from_bytes(template.address(addressing.entropy_value(plane, uplink)), "big")
                where = f"to t1-{uplink}@p{plane}" if to_t1 else f"to its T0 in plane {plane}"
                yield _sent(f"{where} and back", nic.name, plane, address, own)


WAYS = tuple(_every_way())
Outcome = tuple[tuple[str, int, str] | None, ...]
"""What became of each frame: the port it arrived at, after how many ns, and a digest of it; None if it did not."""


def outcome(prepare: Callable[[SimulatedWorld], None], ways: Sequence[Sent] = WAYS) -> Outcome:
    """What becomes of the frames, one after the other, in a world that was prepared."""
    trace = Trace(keep=True)
    with SimulatedWorld(FABRIC, seed=1, trace=trace) as world:
        prepare(world)
        for number, sent in enumerate(ways):
            world.run(number * STEP)
            world.channel(sent.end).send(sent.frame, world.now)
        world.run(len(ways) * STEP)
        found: list[tuple[str, int, str] | None] = [None] * len(ways)
        for record in trace.records():
            if record.device in FABRIC.nic_names:
                number, offset = divmod(record.time, STEP)
                found[number] = (f"{record.device} port {record.port}", offset, record.digest.hex())
    return tuple(found)


def _with_faults(active: Iterable[Fault]) -> Callable[[SimulatedWorld], None]:
    def prepare(world: SimulatedWorld) -> None:
        for fault in active:
            world.faults.add(fault)

    return prepare


def _as_emulation_would(active: Iterable[Fault]) -> Callable[[SimulatedWorld], None]:
    def prepare(world: SimulatedWorld) -> None:
        engine = FaultEngine(FABRIC, EMULATION)
        for fault in active:
            engine.begin(engine.add(fault, 0).id, 0)
        wanted = engine.wanted()
        assert wanted.entries is not None
        for name, entries in wanted.entries.items():
            write_entries(world.switch(name), SwitchEntries(name, (), (), entries))
        for end, shape in wanted.shapes.items():
            world.shape(end, shape)
        for link in (link for link in FABRIC.links if link.name in wanted.down):
            for end in (link.lower, link.upper):
                world.channel(end).set_up(False)
                world.node(end.node).port_changed(end.port, False)

    return prepare


HEALTHY = outcome(_with_faults(()))


def seen(prepare: Callable[[SimulatedWorld], None], copies: int = 1) -> dict[str, str]:
    """What becomes of a frame on each way, in words; of `copies`, what becomes of the unluckiest.

    A frame that arrives damaged is as good as lost to a NIC, which checks it.
    """
    found: dict[str, str] = {}
    for number, arrived in enumerate(outcome(prepare, WAYS * copies)):
        plain = HEALTHY[number % len(WAYS)]
        assert plain is not None, "without faults everything arrives"
        intact = arrived is not None and arrived[2] == plain[2]
        words = f"arrives at {arrived[0]} after {arrived[1]} ns" if arrived is not None and intact else "is lost"
        way = WAYS[number % len(WAYS)].what
        found[way] = words if found.get(way, words) == words else "is lost"
    return found


UNTOUCHED = seen(_with_faults(()))


def differences(simulated: dict[str, str], emulated: dict[str, str]) -> list[str]:
    """Where the backends make something else of a frame."""
    return [
        f"{way} {words} in simulation, {emulated[way]} in emulation"
        for way, words in simulated.items()
        if words != emulated[way]
    ]


# ---- every kind at every sort of place


BOTH = [kind for kind in KINDS.values() if kind.backends == frozenset(BackendKind)]


def _values(parameter: SectionKey) -> tuple[Any, ...]:
    declared = parameter.type
    if isinstance(declared, Integer):
        return tuple({declared.low, 1, int(parameter.examples[0], 0)})
    if isinstance(declared, Quantity):
        return (_QUANTITIES[declared.unit.name],)
    place = place_of(declared)
    return _PLACES[place] if place else (False,)


def everywhere(kind: FaultKind) -> Iterator[Fault]:
    for values in itertools.product(*map(_values, kind.parameters)):
        yield kind.fault(*values)


def test_without_faults_every_packet_arrives() -> None:
    assert None not in HEALTHY
    assert len(set(HEALTHY)) > len(WAYS) // 2


@pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.name)
def test_both_backends_affect_packets_alike(kind: FaultKind) -> None:
    copies = 4 if kind is Corruption.kind else 1  # a bit that is flipped twice harms nobody
    made = 0
    for fault in everywhere(kind):
        try:
            EMULATION.effect_of(FABRIC, fault)
        except FabricError:
            with pytest.raises((FaultError, FabricError)):
                outcome(_with_faults([fault]), ())
            continue
        made += 1
        simulated = seen(_with_faults([fault]), copies)
        assert simulated != UNTOUCHED, f"{fault} does nothing"
        assert differences(simulated, seen(_as_emulation_would([fault]), copies)) == [], fault
    assert made > 2


@pytest.mark.parametrize(
    "kind", [k for k in KINDS.values() if k.backends == {BackendKind.SIMULATION}], ids=lambda kind: kind.name
)
def test_kinds_of_simulation_alone_affect_packets_or_the_controller(kind: FaultKind) -> None:
    made = 0
    for fault in everywhere(kind):
        try:
            SIMULATION.effect_of(FABRIC, fault)
        except FabricError:
            continue
        made += 1
        with SimulatedWorld(FABRIC, seed=1) as world:
            world.faults.add(fault)
            harmed = not world.faults.controller_present
        assert harmed or seen(_with_faults([fault])) != UNTOUCHED, f"{fault} does nothing"
    assert made


# ---- several at once, some of them cleared


def _any_fault(rng: Random) -> Fault:
    while True:
        kind = rng.choice(BOTH)
        fault = kind.fault(*(rng.choice(_values(parameter)) for parameter in kind.parameters))
        with suppress(FabricError):
            EMULATION.effect_of(FABRIC, fault)
            return fault


@pytest.mark.parametrize("seed", range(12))
def test_clearing_some_of_several_faults_leaves_the_same_state_in_both(seed: int) -> None:
    rng = Random(seed)
    added = [_any_fault(rng) for _ in range(rng.randint(2, 5))]
    added.append(rng.choice(added))  # one of them twice
    cleared = rng.sample(range(len(added)), rng.randint(1, len(added) - 1))
    left = [fault for number, fault in enumerate(added) if number not in cleared]

    def add_and_clear(world: SimulatedWorld) -> None:
        numbers = [world.faults.add(fault) for fault in added]
        for number in cleared:
            world.faults.clear(numbers[number])

    copies = 4 if any(isinstance(fault, Corruption) for fault in left) else 1
    simulated, emulated = seen(add_and_clear, copies), seen(_as_emulation_would(left), copies)
    assert differences(simulated, emulated) == [], (added, cleared)


def test_clearing_all_faults_restores_the_initial_state() -> None:
    every = [fault for kind in BOTH for fault in list(_makeable(kind))[:3]]

    def add_and_clear(world: SimulatedWorld) -> None:
        for fault in every:
            world.faults.add(fault)
        world.faults.clear_all()

    assert outcome(add_and_clear) == HEALTHY


def _makeable(kind: FaultKind) -> Iterator[Fault]:
    for fault in everywhere(kind):
        with suppress(FabricError):
            EMULATION.effect_of(FABRIC, fault)
            yield fault


_UPWARD = next(sent for sent in WAYS if sent.what == "h1 to h3 by 0x402")


@pytest.mark.parametrize(
    ("faults", "arriving"),
    [
        ([Loss("h1@p1", 0.5, "t0-*")], 0.5),
        ([Loss("h1@p1", 0.5, "t0-*"), Loss("h*@p1", 0.5)], 0.125),  # towards h3 as well
        ([Loss("t0-0:t1-2@p1", 0.5), PathLoss(0x402, 0.5)], 0.25),
        ([PathLoss(0x402, 0.5), PathLoss(0x402, 0.5, "h1", "h3"), PathLoss(0x402, 0.5, "h2")], 0.25),
        ([LinkDown("h3@p1", "h3"), Loss("h1@p1", 0.1)], 0.0),
    ],
)
def test_loss_probabilities_combine_alike(faults: list[Fault], arriving: float) -> None:
    count = 1500
    spread = 6 * (count * arriving * (1 - arriving)) ** 0.5  # six standard deviations
    for prepare in (_with_faults(faults), _as_emulation_would(faults)):
        found = sum(one is not None for one in outcome(prepare, [_UPWARD] * count))
        assert abs(found - count * arriving) <= spread, prepare.__qualname__


# ---- over time


def _carrier_fault(rng: Random) -> Fault:
    link, few = rng.choice(("h1@p0", "h*@p0", "t0-0:t1-*@p0", "*@p1")), rng.choice(("h1@p0", "h[1,2]@p0"))
    return rng.choice(
        (
            Flap(few, rng.randint(10, 40) * MS, rng.randint(10, 40) * MS),
            Flap(few, rng.randint(10, 40) * MS, rng.randint(10, 40) * MS),
            LinkDown(link),
            PortDown("h1", 0),
            PowerOff("t0-0@p0"),
        )
    )


@pytest.mark.parametrize("seed", range(12))
def test_carrier_changes_happen_at_the_same_times(seed: int) -> None:
    """Faults that overlap, begin and end by themselves, flap, and are cleared at any moment, while up or down."""
    rng = Random(seed)
    adding = [(rng.randint(0, 400), rng.choice((None, rng.randint(1, 300))), _carrier_fault(rng)) for _ in range(6)]
    clearing = {rng.randint(1, 600): number for number in rng.sample(range(6), 4)}
    names = [link.name for link in FABRIC.links]
    with SimulatedWorld(FABRIC, seed=seed) as world, engine(FABRIC) as controller:
        numbers, records = [], []
        for start, lasts, fault in adding:
            until = None if lasts is None else (start + lasts) * MS
            numbers.append(world.faults.add(fault, at=start * MS, until=until))
            duration = None if lasts is None else lasts * MS
            records.append(controller.run(controller.injector.add(fault, start_at_ns=start * MS, duration_ns=duration)))
        for now in range(650):
            world.run(now * MS + MS // 2)
            controller.seconds((world.now - controller.clock.now) / SECOND)
            down = {name for name in names if not world.faults.has_carrier(name)}
            assert controller.links.down == down, f"after {now} ms of {adding}"
            if (number := clearing.get(now)) is not None:
                with suppress(FaultError):
                    world.faults.clear(numbers[number])
                controller.run(controller.injector.clear([records[number]]))
        world.faults.clear_all()
        controller.run(controller.injector.clear(controller.registry))
        assert controller.links.down == set()
        assert all(map(world.faults.has_carrier, names))


@pytest.mark.parametrize(
    "fault",
    [
        LossySpells("h1@p1", 10 * MS, 30 * MS, towards="t0-*"),
        LossyPathSpells(0x402, 10 * MS, 30 * MS),
        SlowSpells("h1@p1", 10 * MS, 30 * MS),
    ],
    ids=lambda fault: fault.kind.name,
)
def test_any_effect_that_comes_and_goes_does_so_at_the_same_times(fault: Intermittent) -> None:
    """A frame each millisecond, from 50 to 200 of which the fault is added: in each 40 it is harmed in the first 10."""
    trace, made = Trace(keep=True), set()
    with SimulatedWorld(FABRIC, seed=1, trace=trace) as world, engine(FABRIC) as controller:
        world.faults.add(fault, at=50 * MS, until=200 * MS)
        controller.run(controller.injector.add(fault, start_at_ns=50 * MS, duration_ns=150 * MS))
        for now in range(250):
            world.run(now * MS + MS // 10)
            world.channel(_UPWARD.end).send(_UPWARD.frame, world.now)
            controller.seconds((world.now - controller.clock.now) / SECOND)
            if controller.switches.entries or controller.links.shapes:
                made.add(now)
        world.run(300 * MS)
    usual = HEALTHY[WAYS.index(_UPWARD)]
    assert usual is not None
    times = (record.time - MS // 10 for record in trace.records() if record.device == "h3")
    unharmed = {time // MS for time in times if time % MS == usual[1]}
    assert set(range(250)) - unharmed == {now for now in range(50, 200) if (now - 50) % 40 < 10}
    assert made == set(range(250)) - unharmed
