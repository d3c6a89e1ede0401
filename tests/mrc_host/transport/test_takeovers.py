"""One plane works at a time, and which one changes at once, while all others are known to have failed."""

import random

import pytest

from mrc_host.values import CompletionStatus, QpAttributes
from tests.mrc_host.nic_world import MS, US, World, connect

CALM = 2 * MS  # the shortest time between two changes: many of the longest ACK timeout below


@pytest.mark.either_transport
@pytest.mark.parametrize("seed", range(40))
def test_writes_complete_whatever_plane_takes_over(seed: int) -> None:
    """Silently, in both directions or one, under way or idle: what is known of every plane is wrong each time."""
    rng = random.Random(seed)
    planes = rng.choice((2, 2, 3, 4))
    world = World(planes=planes, uplinks=rng.choice((1, 2, 4)), seed=seed)
    a, b = connect(world, attributes=QpAttributes(timeout=rng.choice((6, 8)), retry_count=7))
    lost_from = rng.choice(((0, 1), (0,), (1,)))
    calm, size, both = rng.choice((CALM, 15 * CALM)), rng.choice((100, 20_000, 400_000)), rng.random() < 0.5
    works: set[int] = set(range(planes))

    def take_over() -> None:
        works.clear()
        works.add(rng.randrange(planes))
        world.at(world.now + rng.randrange(calm, 3 * calm), take_over)

    world.tap = lambda nic, port, to, frame, now: None if nic in lost_from and port not in works else frame
    world.at(world.now + calm, take_over)
    for _ in range(20):
        a.write(b, size)
        if both:
            b.write(a, size)
        assert world.run(2_000 * MS, until=lambda: bool(a.poll()))
        world.run(rng.choice((0, 100 * US, calm, 3 * calm)))
        b.poll()
    assert {done.status for done in (*a.done, *b.done)} == {CompletionStatus.SUCCESS}, f"seed {seed}"
