"""Flaps in virtual time, and changes that are asked for at once."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Iterator
from dataclasses import replace

import pytest

from controller.errors import BusyError
from controller.fault_limits import EMULATION
from tests.controller.driven import MS, SECOND, Engine, engine
from tests.controller.injected import FABRIC, H1, H2, make, states
from topologies.faults import FaultState
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.rate import Rate


@pytest.fixture
def world() -> Iterator[Engine]:
    with engine(FABRIC) as one:
        yield one


def spans(world: Engine, link: str) -> list[int]:
    """Lengths of the times that a link was down and up, in turn."""
    times = [at for at, name, _ in world.links.changes if name == link]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def test_a_flap_toggles_all_its_links_together_with_its_period_and_duty(world: Engine) -> None:
    record = make(world, Flap("h[1,2]@p0", 500 * MS, 1500 * MS))
    world.seconds(100)
    for link in (H1, H2):
        assert spans(world, link)[:98] == [500 * MS, 1500 * MS] * 49
    changes = [change for change in world.links.changes if change[1] == H1]
    assert [up for *_, up in changes] == [bool(number % 2) for number in range(len(changes))]
    assert [at for at, *_ in changes] == [at for at, name, _ in world.links.changes if name == H2]
    world.run(world.injector.clear([record]))
    count = len(world.links.changes)
    world.seconds(10)
    assert len(world.links.changes) == count
    assert world.links.down == set()


def test_a_flap_does_not_drift_when_changes_take_time(world: Engine) -> None:
    world.links.slow_s = 0.003
    make(world, Flap(H1, 100 * MS, 100 * MS))
    world.seconds(60)
    downs = [at for at, _, up in world.links.changes if not up]
    assert downs == [3 * MS + number * 200 * MS for number in range(301)]


def flaps(seed: int, links: str = "h*@p0", seconds: float = 200) -> dict[str, list[int]]:
    with engine(FABRIC) as world:
        make(world, Flap(links, 100 * MS, 300 * MS, True, seed))
        world.seconds(seconds)
        return {link: spans(world, link) for link in sorted({name for _, name, _ in world.links.changes})}


def test_random_flaps_follow_their_seed_independently_on_each_link() -> None:
    found = flaps(7)
    assert found == flaps(7)
    assert flaps(7, H1)[H1] == found[H1], "other links change what one of them does"
    assert found[H1] != found[H2]
    assert found[H1] != flaps(8)[H1]


def test_random_flaps_have_the_requested_mean_times() -> None:
    for times in flaps(7).values():
        down, up = statistics.fmean(times[0::2]), statistics.fmean(times[1::2])
        assert down == pytest.approx(100 * MS, rel=0.2)  # some 500 draws: four standard errors
        assert up == pytest.approx(300 * MS, rel=0.2)
        assert statistics.pstdev(times[0::2]) == pytest.approx(100 * MS, rel=0.3)


def test_a_flap_with_a_duration_ends_with_its_links_up(world: Engine) -> None:
    make(world, Flap(H1, 500 * MS, 500 * MS), duration_ns=2_200 * MS)
    world.seconds(10)
    assert world.links.down == set()
    assert states(world) == [("f1", FaultState.CLEARED)]
    assert world.links.changes[-1] == (2_200 * MS, H1, True)


def test_a_scheduled_flap_begins_at_its_start_time(world: Engine) -> None:
    make(world, Flap(H1, 500 * MS, 500 * MS), start_at_ns=3 * SECOND)
    world.seconds(3.6)
    assert world.links.changes == [(3 * SECOND, H1, False), (3_500 * MS, H1, True)]


def test_a_flap_does_not_bring_up_a_link_that_another_fault_holds_down(world: Engine) -> None:
    make(world, Flap(H1, 100 * MS, 100 * MS))
    cut = make(world, LinkDown(H1))
    world.seconds(1.05)
    assert world.links.changes == [(0, H1, False)]
    world.run(world.injector.clear([cut]))
    world.seconds(1)
    assert len(world.links.changes) > 8


def test_an_error_of_our_own_stops_no_other_fault(world: Engine, caplog: pytest.LogCaptureFixture) -> None:
    make(world, Rate(H1, 10**6), start_at_ns=SECOND)
    make(world, LinkDown(H2), start_at_ns=2 * SECOND, duration_ns=SECOND)

    async def fails(_shapes: object) -> None:
        raise ZeroDivisionError

    world.injector._links.shape = fails  # type: ignore[method-assign, assignment]
    world.seconds(1.5)
    del world.injector._links.shape
    assert "a fault could not be changed; others go on" in caplog.text
    world.seconds(1)
    assert world.links.down == {H2}
    world.seconds(1)
    assert world.links.down == set()


def test_a_flap_that_fails_to_change_a_link_reports_it_and_continues(world: Engine) -> None:
    make(world, Flap(H1, 100 * MS, 100 * MS))
    world.links.broken = H1
    world.seconds(0.5)
    assert "does not exist" in world.registry.get("f1").problem
    world.links.broken = ""
    world.seconds(0.5)
    assert world.registry.get("f1").problem == ""
    assert len(world.links.changes) > 3


def test_a_hundred_concurrent_changes_end_in_the_state_of_the_registry(world: Engine) -> None:
    world.links.slow_s = 0.01

    async def all_at_once() -> None:
        made = await asyncio.gather(*(world.injector.add(LinkDown(f"h{1 + n % 4}@p0")) for n in range(100)))
        await asyncio.gather(*(world.injector.clear([record]) for record in made if record.links != (H1,)))

    world.run(all_at_once())
    assert world.links.down == {H1}
    assert len(list(world.registry)) == 25


def test_a_cancelled_request_leaves_nothing_half_applied(world: Engine) -> None:
    world.links.slow_s = 1

    async def given_up() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(world.injector.add(LinkDown(H1), duration_ns=5 * SECOND), 0.5)

    world.run(given_up())
    world.seconds(2)
    assert world.links.down == {H1}, "it had been asked for, and is listed"
    assert states(world) == [("f1", FaultState.ACTIVE)]
    world.seconds(10)
    assert states(world) == [("f1", FaultState.CLEARED)]
    assert world.links.down == set()


def test_too_many_faults_are_refused() -> None:
    with engine(FABRIC, replace(EMULATION, max_faults=3)) as world:
        for _ in range(3):
            make(world, LinkDown(H1))
        with pytest.raises(BusyError, match="There are 3 faults already: clear some first"):
            make(world, LinkDown(H1))
