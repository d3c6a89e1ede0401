"""A plane goes silent in the middle of a write, without a carrier that would show it, while another one works."""

from __future__ import annotations

import contextlib
import random

import pytest

from mrc_host.values import CompletionStatus
from simulation.world import SimulatedWorld
from tests.seeds import SEED
from tests.simulation.worlds import GIGA, Pair
from topologies.clos import multi_plane_clos


@pytest.mark.parametrize("cut", [2_000, 8_000, 14_000, 20_000])
def test_a_write_goes_on_after_one_ack_timeout(cut: int) -> None:
    """What had left soon after the first lost packet is not waited for any longer than that."""
    for seed in range(SEED, SEED + 4):
        fabric = multi_plane_clos(planes=2, t0=2, t1=4, hosts=2)
        with SimulatedWorld(fabric, seed=seed, rate=100 * GIGA) as world:
            timeout = 1024 << world.timing.timeout
            with contextlib.closing(Pair(world, "h1", "h2", length=300_000)) as pair:
                pair.region.buffer[:] = random.Random(seed).randbytes(300_000)
                pair.write()
                for switch in fabric.switches:
                    if switch.plane == 0:
                        world.faults.blackhole(switch.name, at=cut)
                done = world.run(pair.cq.next())
                assert done is not None
                assert done.status is CompletionStatus.SUCCESS
                assert pair.region.buffer == pair.region_far.buffer
                assert world.now - cut < 1.2 * timeout, f"seed {seed}"
