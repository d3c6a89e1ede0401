"""A plane goes silent in the middle of a write, without a carrier that would show it, while another one works."""

from __future__ import annotations

import contextlib
import random

import pytest

from mrc_host.verbs_types import CompletionStatus
from simulation.world import SimulatedWorld
from tests.fuzz.fuzz_silence import MAX_ROUND_TRIPS, Silence, longest_gap
from tests.seeds import SEED
from tests.simulation.worlds import GIGA, Pair
from topologies.clos import multi_plane_clos


@pytest.mark.parametrize("cut", [2_000, 8_000, 14_000, 20_000])
def test_a_write_goes_on_after_ten_round_trips(cut: int) -> None:
    """Also where the plane's own round trip was never measured, and with what had left soon after the first packet."""
    for seed in range(SEED, SEED + 4):
        fabric = multi_plane_clos(planes=2, t0=2, t1=4, hosts=2)
        with SimulatedWorld(fabric, seed=seed, rate=100 * GIGA) as world:
            alone = 2 * 300_000 * 8 // 100  # ns that the plane that is left takes for all, if all is sent twice
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
                assert world.now - cut < (MAX_ROUND_TRIPS + 1) * world.timing.round_trip + alone, f"seed {seed}"


@pytest.mark.parametrize("planes", [2, 4, 8])
@pytest.mark.parametrize("place", ["nic", "links", "t0"])
def test_a_flow_goes_on_when_as_many_packets_make_a_sack_as_there_are_planes(planes: int, place: str) -> None:
    """The packets that the peer answers unasked are all of the same plane then, and the others are not measured."""
    silence = Silence(
        planes=planes, t1=4, gigabits=100, trimming=True, mtu=4096, threshold=4096 * planes, message=1 << 18, depth=16,
        warm=20, between=0, gone=(0,), place=place, end=1, way="forward",
    )  # fmt: skip
    for seed in range(SEED, SEED + 2):
        assert longest_gap(silence, seed) <= MAX_ROUND_TRIPS, f"seed {seed}"


@pytest.mark.parametrize("case", range(8))
def test_a_flow_goes_on_in_random_worlds(case: int) -> None:
    """All planes but one may be gone; `make soak` tries for longer."""
    print(f"seed {SEED}/{case}")
    chance = random.Random(f"{SEED}/{case}")
    silence = Silence.random(chance)
    assert longest_gap(silence, chance.getrandbits(32)) <= MAX_ROUND_TRIPS, silence
