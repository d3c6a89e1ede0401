"""One plane works at a time, all others are known to have failed, and which one it is changes at once."""

import random

import pytest

from mrc_host.verbs_types import CompletionStatus, QpAttributes
from tests.mrc_host.nic_world import MS, US, World, connect

CALM = 2 * MS  # the shortest time between two changes: many of the longest ACK timeout below


def run(seed: int, planes: int, one_way: bool) -> set[CompletionStatus]:
    """Twenty writes, or as many in each direction, while planes take over from each other; how they complete."""
    rng = random.Random(seed)
    world = World(planes=planes, uplinks=rng.choice((1, 2, 4)), seed=seed)
    a, b = connect(world, attributes=QpAttributes(timeout=rng.choice((6, 8)), retry_count=7))
    lost_from = rng.choice(((0, 1), (0,), (1,)))
    calm, size, both = rng.choice((CALM, 15 * CALM)), rng.choice((100, 20_000, 400_000)), rng.random() < 0.5
    works = [set(range(planes)), set(range(planes))]  # by NIC that sends

    def take_over() -> None:
        plane = rng.randrange(planes)
        works[:] = {plane}, {rng.randrange(planes) if one_way else plane}
        world.at(world.now + rng.randrange(calm, 3 * calm), take_over)

    world.tap = lambda nic, port, to, frame, now: None if nic in lost_from and port not in works[nic] else frame
    world.at(world.now + calm, take_over)
    for _ in range(20):
        a.write(b, size)
        if both:
            b.write(a, size)
        assert world.run(2_000 * MS, until=lambda: bool(a.poll()))
        world.run(rng.choice((0, 100 * US, calm, 3 * calm)))
        b.poll()
    return {done.status for done in (*a.done, *b.done)}


@pytest.mark.either_transport
@pytest.mark.parametrize("seed", range(40))
def test_writes_complete_whatever_plane_takes_over(seed: int) -> None:
    """Silently, in both directions or one, under way or idle: what is known of every plane is wrong each time."""
    assert run(seed, 2 + seed % 3, one_way=False) == {CompletionStatus.SUCCESS}


@pytest.mark.either_transport
@pytest.mark.parametrize("seed", range(40))
def test_writes_complete_where_each_direction_has_a_plane_of_its_own(seed: int) -> None:
    assert run(seed, 2, one_way=True) == {CompletionStatus.SUCCESS}


@pytest.mark.parametrize(("planes", "good"), [(2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_answers_find_the_one_plane_that_carries_them(planes: int, good: int, seed: int) -> None:
    """Data and probes arrive on all planes; the responder has given up the one where answers get through."""
    world = World(planes=planes, uplinks=2, seed=seed)
    a, b = connect(world, attributes=QpAttributes(timeout=8, retry_count=7))
    dead = {good}
    world.tap = lambda nic, port, to, frame, now: None if nic == 1 and port in dead else frame
    for _ in range(30):
        b.write(a, 64 << 10)
        assert world.run(500 * MS, until=lambda: bool(b.poll()))
    world.run(5 * MS)
    dead.symmetric_difference_update(range(planes))
    a.write(b, 20_000)
    assert world.run(2_000 * MS, until=lambda: bool(a.poll()))
    assert a.done[-1].status is CompletionStatus.SUCCESS
