"""Round trips that NICs reckon with, by where paths turn, beside those that the packet simulation configures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_lab.scale.latency import example_pairs
from mrc_lab.scale.round_trips import TierRoundTrips
from simulation.transport_timers import FabricTiming, timing
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.parts import Tier

DELAY = 1_000
TWO = multi_plane_clos("two", planes=2, t0=2, t1=2, hosts=4, rate_bps=10**11)
THREE = multi_plane_clos("three", planes=2, pods=2, t0=2, t1=2, t2=4, hosts=8, rate_bps=10**11)


def fitted(fabric: Fabric, **given: int) -> tuple[Fabric, FabricTiming]:
    """A fabric with settings for it, and the timing that these are of."""
    found = timing(fabric, DELAY, 100)
    transport = replace(found.transport(TransportSettings()), **given)
    return fabric.with_settings(replace(fabric.settings, transport=transport)), found


@pytest.mark.parametrize("fabric", [TWO, THREE], ids=["two", "three"])
def test_they_are_those_of_the_nics_in_simulation(fabric: Fabric) -> None:
    with SimulatedWorld(fabric, seed=1, delay=DELAY) as world:
        trips = TierRoundTrips.of(world.fabric, world.timing, DELAY)
        transport = world.fabric.settings.transport
        for tier, pair in enumerate(example_pairs(fabric)):
            if pair is None:
                assert (fabric, tier) == (TWO, Tier.T2)
                continue
            near, far = pair
            destination = next(one for one in world.nic(near.name).config.destinations if one.name == far.name)
            assert trips.times[tier] == (destination.base_rtt or transport.base_rtt)
            assert trips.timers[tier].probe_interval == (destination.timers or transport.path_timers).probe_interval
            assert trips.timeouts[tier] == world.attributes(ends=(near.name, far.name)).timeout


def test_each_tier_takes_longer() -> None:
    ready, times = fitted(THREE)
    found = TierRoundTrips.of(ready, times, DELAY).times
    assert found[Tier.T0] < found[Tier.T1] < found[Tier.T2] == times.round_trip


def test_what_the_file_gives_holds_for_all() -> None:
    ready, times = fitted(THREE, base_rtt=50_000)
    assert TierRoundTrips.of(ready, times, DELAY).times.tolist() == [50_000] * 3
    ready, times = fitted(THREE, probe_interval=777_000)
    assert {one.probe_interval for one in TierRoundTrips.of(ready, times, DELAY).timers} == {777_000}
