"""The fault engine driven by hand: what is wanted when, without a backend."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.seeds import SEED
from tests.topologies.faults.spells import LossyPathSpells, LossySpells, SlowSpells
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError, FaultLimitError
from topologies.fabric import LinkEnd
from topologies.fault_entries import fault_entries
from topologies.faults import Fault, FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.controller_down import ControllerDown
from topologies.faults.delay import Delay
from topologies.faults.effect import Effect, PortShaping, combined_shapes
from topologies.faults.engine import FaultChange, FaultEngine, Wanted
from topologies.faults.flap import Flap
from topologies.faults.kind import BackendKind
from topologies.faults.limits import FaultLimits
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.rate import Rate
from topologies.faults.record import FaultRecord
from topologies.faults.reordering import Reordering

FABRIC = multi_plane_clos("engine", planes=2, t0=2, t1=2, hosts=4)
LIMITS = FaultLimits(BackendKind.SIMULATION, shortest_phase_ns=1)
H1, H2, H3 = "h1@p0", "h2@p0", "h3@p0"


def made(engine: FaultEngine, fault: Fault, now: int = 0, lasts: int | None = None) -> str:
    """The id of a fault that has just begun."""
    record = engine.add(fault, now, duration_ns=lasts)
    return engine.begin(record.id, now).id


def run(engine: FaultEngine, until: int) -> list[tuple[int, FaultChange, str]]:
    """Let the engine do all that is due, each at its time; what is over is cleared. Returns what was done when."""
    done = []
    while (due := engine.wakeup()) is not None and due <= until:
        step = engine.tick(due)
        assert step is not None, "it asked to be woken for nothing"
        done.append((due, *step))
        if step[0] is FaultChange.END:
            engine.clear([step[1]], due)
    return done


def test_a_fault_begins_and_ends_when_its_time_has_come() -> None:
    engine = FaultEngine(FABRIC, LIMITS)
    record = engine.add(LinkDown(H1), 10, start_at_ns=20, duration_ns=5)
    assert (record.state, record.starts_at_ns, record.ends_at_ns) == (FaultState.PENDING, 20, 25)
    assert (engine.wakeup(), engine.tick(19), engine.wanted().down) == (20, None, frozenset())
    assert engine.tick(20) == (FaultChange.BEGIN, "f1")
    assert engine.wanted().down == {H1}
    assert engine.registry.get("f1").began_at_ns == 20
    assert engine.tick(26) == (FaultChange.END, "f1")
    assert (engine.wanted().down, engine.wakeup()) == ({H1}, None), "it is left to the caller, and said once"
    (gone,) = engine.clear(["f1"], 26)
    assert (gone.state, gone.cleared_at_ns, engine.wanted()) == (FaultState.CLEARED, 26, Wanted())


def test_a_link_comes_up_when_its_last_fault_is_cleared() -> None:
    engine = FaultEngine(FABRIC, LIMITS)
    first, second = made(engine, LinkDown("h[1,2]@p0")), made(engine, LinkDown("h[2,3]@p0"))
    assert engine.wanted().down == {H1, H2, H3}
    assert engine.wanted(without=[first]).down == {H2, H3}
    assert engine.wanted(off={H2}).down == {H1, H3}
    assert engine.wanted().down == {H1, H2, H3}, "it was only asked"
    engine.clear([first, first], 1)
    assert engine.wanted().down == {H2, H3}
    engine.clear([second], 1)
    assert engine.wanted().down == frozenset()


def test_a_flap_in_its_up_phase_does_not_override_other_faults() -> None:
    engine = FaultEngine(FABRIC, LIMITS)
    made(engine, Flap("h[1,2]@p0", 10, 20))
    cut = made(engine, LinkDown(H2))
    assert run(engine, 10) == [(10, FaultChange.TOGGLE, "f1")]
    assert engine.wanted().down == {H2}
    engine.clear([cut], 11)
    assert engine.wanted().down == frozenset()
    run(engine, 30)
    assert engine.wanted().down == {H1, H2}


@pytest.mark.parametrize(
    "fault",
    [LossySpells("h[1,2]@p0", 10, 20), LossyPathSpells(1, 10, 20), SlowSpells(H1, 10, 20)],
    ids=lambda fault: fault.kind.name,
)
def test_any_effect_comes_and_goes(fault: Fault) -> None:
    alone, engine = FaultEngine(FABRIC, LIMITS), FaultEngine(FABRIC, LIMITS)
    others = Loss(H1, 0.5, "h1"), Rate(H2, 10**6)
    for other in others:
        made(alone, other)
        made(engine, other)
    effect = fault.effect(FABRIC)
    tables = [one for one in (*(other.effect(FABRIC).tables for other in others), effect.tables) if one is not None]
    on = Wanted(
        frozenset(effect.down),
        fault_entries(tables),
        combined_shapes([others[1].effect(FABRIC), effect]),
    )
    number = made(engine, fault)
    assert engine.wanted() == on != alone.wanted()
    for start in (0, 30, 60):
        run(engine, start + 9)
        assert engine.wanted() == on
        assert run(engine, start + 10) == [(start + 10, FaultChange.TOGGLE, number)]
        assert engine.wanted() == alone.wanted()
        assert run(engine, start + 30) == [(start + 30, FaultChange.TOGGLE, number)]
    assert engine.wanted() == on
    run(engine, 100)
    assert engine.wanted() == alone.wanted()
    engine.clear([number], 101)
    assert (engine.wanted(), engine.wakeup()) == (alone.wanted(), None)
    assert engine.wanted(without=[made(engine, fault, 200)]) == alone.wanted()


def test_links_lose_at_random_each_in_its_own_time() -> None:
    """Wherever a flap with the same times and seed takes a carrier, and nowhere else."""
    spells, flaps = FaultEngine(FABRIC, LIMITS), FaultEngine(FABRIC, LIMITS)
    made(spells, LossySpells("h*@p0", 100, 300, True, 3))
    made(flaps, Flap("h*@p0", 100, 300, True, 3))
    seen = set()
    for now in range(0, 20_000, 10):
        assert run(spells, now) == run(flaps, now)
        if now == 10_000:
            for engine in (spells, flaps):
                engine.repair({H1}, now)
        down = flaps.wanted().down
        tables = (Loss(link.name, 1.0).effect(FABRIC).tables for link in FABRIC.links if link.name in down)
        assert spells.wanted().entries == fault_entries(one for one in tables if one is not None)
        assert not spells.wanted().down
        seen.add(down)
    assert len(seen) > 10


def test_a_fault_that_is_off_keeps_its_room_in_tables() -> None:
    """Else it could not come back."""
    engine = FaultEngine(multi_plane_clos("large", planes=1, t0=2, t1=2, hosts=80), LIMITS)
    spells = made(engine, LossyPathSpells(0, 10, 10, "h[1-11]"))
    run(engine, 10)
    assert engine.wanted() == Wanted()
    second = engine.add(PathLoss(1, 0.5, "h[1-11]"), 11)
    engine.begin(second.id, 11)
    with pytest.raises(FabricError, match="name fewer source and destination hosts"):
        engine.wanted()
    engine.clear([spells], 12)
    assert engine.wanted().entries


def test_a_late_change_moves_the_next_one_only_if_that_would_be_over() -> None:
    engine = FaultEngine(FABRIC, LIMITS)
    made(engine, Flap(H1, 10, 10))
    assert engine.tick(13) == (FaultChange.TOGGLE, "f1")
    assert engine.wakeup() == 20
    assert engine.tick(55) == (FaultChange.TOGGLE, "f1")
    assert (engine.wakeup(), engine.wanted().down) == (55, {H1}), "no change is skipped"
    engine.tick(55)
    assert (engine.wakeup(), engine.wanted().down) == (65, frozenset())


@pytest.mark.parametrize("at_random", [False, True])
def test_repaired_links_of_a_flap_stay_up_and_the_others_go_on(at_random: bool) -> None:
    flap = Flap("h[1,2]@p0", 100, 300, at_random, 3)
    alone, repaired = FaultEngine(FABRIC, LIMITS), FaultEngine(FABRIC, LIMITS)
    made(alone, flap)
    made(repaired, flap)
    for now in range(0, 20_000, 10):
        run(alone, now)
        run(repaired, now)
        if now == 1000:
            gone, left = repaired.repair({H1}, now)
            assert (gone, [record.links for record in left]) == ((), [(H2,)])
        down = repaired.wanted().down
        assert down == (alone.wanted().down if now < 1000 else alone.wanted().down - {H1}), now
    assert [record.id for record in repaired.repair({H2}, 20_000)[0]] == ["f1"]
    assert (repaired.wakeup(), repaired.wanted()) == (None, Wanted())


def test_random_flaps_follow_both_seeds() -> None:
    def changes(seed: str, own: int) -> list[int]:
        engine = FaultEngine(FABRIC, LIMITS, seed=seed)
        made(engine, Flap(H1, 100, 300, True, own))
        return [now for now, *_ in run(engine, 100_000)]

    assert changes("", 7) == changes("", 7)
    assert len({tuple(changes(seed, own)) for seed in ("", "1 ") for own in (7, 8)}) == 4


def test_entries_and_shapes_of_several_faults_combine() -> None:
    engine = FaultEngine(FABRIC, LIMITS)
    faults = [Loss(H1, 0.5), Loss("h*@p0", 0.5, "t0-*"), Blackhole("t1-0@p0"), PathLoss(1, 0.5)]
    for fault in (*faults, Rate(H1, 2_000_000), Rate(H1, 1_000_000, "h1"), Delay(H1, 5, "h1"), Delay(H1, 6, "h1")):
        made(engine, fault)
    made(engine, Reordering(H1, 0.5, 7, "h1"))
    made(engine, Reordering(H1, 0.5, 3, "h1"))
    wanted = engine.wanted()
    assert wanted.entries == fault_entries(tables for fault in faults if (tables := fault.effect(FABRIC).tables))
    assert wanted.shapes == {
        LinkEnd("h1", 0): PortShaping(2_000_000),
        LinkEnd("t0-0@p0", 1): PortShaping(1_000_000, 11, 0.75, 7),
    }
    assert not wanted.controller_down
    made(engine, ControllerDown())
    assert engine.wanted().controller_down


def test_what_is_wanted_follows_every_change() -> None:
    engine = FaultEngine(FABRIC, LIMITS)
    loss, rate = made(engine, Loss(H1, 0.5)), engine.add(Rate(H1, 10**6), 0)
    assert (len(engine.wanted().entries or ()), len(engine.wanted().shapes)) == (1, 0)
    engine.begin(rate.id, 0)
    assert (len(engine.wanted().entries or ()), len(engine.wanted().shapes)) == (1, 2)
    assert (len(engine.wanted(without=[loss]).entries or ()), len(engine.wanted().entries or ())) == (0, 1)
    engine.clear([loss], 9)
    assert (len(engine.wanted().entries or ()), len(engine.wanted().shapes)) == (0, 2)
    made(engine, Rate(H2, 10**6))
    assert len(engine.wanted().shapes) == 4
    assert len(engine.wanted(off={H2}).shapes) == 2
    engine.repair({H2}, 9)
    assert len(engine.wanted().shapes) == 2


def test_links_that_flap_cost_no_new_entries() -> None:
    engine = FaultEngine(FABRIC, LIMITS)
    made(engine, Loss("*", 0.5))
    made(engine, Flap(H1, 10, 10))
    before = engine.wanted()
    run(engine, 100)
    after = engine.wanted()
    assert after.entries is before.entries
    assert after.shapes is before.shapes


def test_a_fault_that_fills_a_table_can_be_cleared_again() -> None:
    large = multi_plane_clos("full", planes=1, t0=2, t1=2, hosts=64)
    engine = FaultEngine(large, LIMITS)
    made(engine, PathLoss(0))
    before = engine.wanted()
    second = made(engine, PathLoss(1))
    with pytest.raises(FabricError, match="name fewer source and destination hosts"):
        engine.wanted()
    assert engine.wanted(without=[second]) == before
    engine.clear([second], 1)
    assert engine.wanted() == before


@pytest.mark.parametrize("later_first", [False, True])
def test_a_fault_may_begin_when_another_ends_that_it_has_no_room_beside(later_first: bool) -> None:
    engine = FaultEngine(multi_plane_clos("large", planes=1, t0=2, t1=2, hosts=80), LIMITS)
    times = [(0, 1_000), (1, 2_000)]
    for ev, start in reversed(times) if later_first else times:
        engine.add(PathLoss(ev, 0.5, "h[1-11]"), 0, start_at_ns=start, duration_ns=1_000)
    begun = []
    while (due := engine.wakeup()) is not None:
        change, fault_id = engine.tick(due) or pytest.fail("nothing was due")
        if change is FaultChange.END:
            engine.clear([fault_id], due)
        begun.append((due, change))
        engine.wanted()
    begin, end = FaultChange.BEGIN, FaultChange.END
    assert begun == [(1_000, begin), (2_000, end), (2_000, begin), (3_000, end)]


def test_the_number_of_faults_is_bounded() -> None:
    engine = FaultEngine(FABRIC, replace(LIMITS, max_faults=2))
    made(engine, LinkDown(H1))
    made(engine, LinkDown(H1))
    with pytest.raises(FaultLimitError, match="2 faults already"):
        engine.add(LinkDown(H1), 0)
    assert len(engine.registry) == 2


def test_an_engine_goes_on_with_the_faults_of_another() -> None:
    engine = FaultEngine(FABRIC, LIMITS)
    for record in (
        FaultRecord("f3", LinkDown("h[1,2]@p0"), (H2,)),
        FaultRecord("f4", LinkDown(H3), (H3,), state=FaultState.PENDING, starts_at_ns=5, ends_at_ns=40),
        FaultRecord("f5", Flap(H1, 10, 10), (H1,), ends_at_ns=95),
    ):
        engine.readmit(record, 50)
    assert engine.wanted().down == {H1, H2}
    with pytest.raises(FabricError, match="f6 is on no link that this fabric has"):
        engine.readmit(FaultRecord("f6", LinkDown(H1), ("h9@p0",)), 50)
    assert [engine.tick(50) for _ in range(3)] == [(FaultChange.BEGIN, "f4"), (FaultChange.END, "f4"), None]
    assert engine.tick(60) == (FaultChange.TOGGLE, "f5")


# ---- at random

KINDS: tuple[Fault, ...] = (
    LinkDown("h*@p0"), LinkDown(H1), LinkDown("h[2,3]@p*", "h*"), Flap("h*@p*", 7, 5), Flap("h[1,2]@p0", 4, 9, True, 2),
    LossySpells("h[1,2]@p*", 6, 3), LossyPathSpells(1, 5, 5), SlowSpells("h[1-3]@p0", 3, 8),
    Loss("h*@p0", 0.5), Loss(H1, 0.25, "h1"), Rate("h[1,3]@p*", 10**6), Delay(H2, 9), Blackhole("t1-0@p0"), PathLoss(1),
    ControllerDown(),
)  # fmt: skip


class Model:
    """The same in a few slow lines: each fault's effect now, and everything combined anew whenever it is asked for."""

    def __init__(self) -> None:
        self.effects: dict[str, Effect] = {}
        self.active: set[str] = set()
        self.off: set[str] = set()  # faults that come and go, and are off just now

    def wanted(self) -> Wanted:
        active = {name: effect for name, effect in self.effects.items() if name in self.active - self.off}
        down = {link for effect in active.values() for link in effect.down}
        tables = [effect.tables for effect in active.values() if effect.tables is not None]
        away = any(effect.controller_down for effect in active.values())
        return Wanted(frozenset(down), fault_entries(tables), combined_shapes(active.values()), away)


def test_random_changes_leave_what_a_slow_model_wants() -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    for _ in range(30):
        engine, model, now = FaultEngine(FABRIC, LIMITS), Model(), 0
        for _ in range(60):
            draw, ids = chance.random(), list(model.effects)
            if draw < 0.35:
                fault = chance.choice([kind for kind in KINDS if not getattr(kind, "random", False)])
                at, lasts = (
                    chance.choice((None, now + chance.randrange(20))),
                    chance.choice((None, chance.randrange(1, 40))),
                )
                record = engine.add(fault, now, start_at_ns=at, duration_ns=lasts)
                model.effects[record.id] = fault.effect(FABRIC)
                if record.starts_at_ns == now:
                    engine.begin(record.id, now)
                    model.active.add(record.id)
            elif draw < 0.5 and ids:
                gone = chance.sample(ids, min(len(ids), 2))
                expected = engine.wanted(without=gone)
                engine.clear(gone, now)
                for name in gone:
                    del model.effects[name]
                assert engine.wanted() == expected
            elif draw < 0.6:
                links = set(chance.sample([link.name for link in FABRIC.links], 3))
                expected = engine.wanted(off=links)
                engine.repair(links, now)
                for name, effect in list(model.effects.items()):
                    if links & set(effect.links):
                        model.effects[name] = effect.part(FABRIC, set(effect.links) - links)
                        if not model.effects[name].links:
                            del model.effects[name]
                assert engine.wanted() == expected
            now += chance.randrange(15)
            while (due := engine.wakeup()) is not None and due <= now:
                step = engine.tick(due)
                assert step is not None
                change, name = step
                if change is FaultChange.BEGIN:
                    model.active.add(name)
                elif change is FaultChange.END:
                    engine.clear([name], due)
                    del model.effects[name]
                else:
                    model.off ^= {name}
            assert {record.id for record in engine.registry} == set(model.effects)
            assert engine.wanted() == model.wanted()
        engine.clear([record.id for record in engine.registry], now)
        assert (engine.wanted(), engine.wakeup()) == (Wanted(), None)


def test_a_record_without_links_is_readmitted_with_those_of_its_fault() -> None:
    """As in a file of a controller that somebody has edited."""
    engine = FaultEngine(FABRIC, LIMITS)
    engine.readmit(FaultRecord("f1", Flap("h[1,2]@p0", 10, 10)), 0)
    engine.readmit(FaultRecord("f2", Flap("h3@p*", 10, 10, True)), 0)
    assert [record.links for record in engine.registry] == [(H1, H2), (H3, "h3@p1")]
    assert {name for _, _, name in run(engine, 1000)} == {"f1", "f2"}
