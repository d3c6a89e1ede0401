"""How soon a link that is up again carries data again, with the settings that the world chooses for its fabric."""

from __future__ import annotations

import pytest

from mrc_host.verbs_types import PathState
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, Pair
from topologies.clos import multi_plane_clos

UPLINKS = 8


def test_paths_to_many_peers_recover_soon_after_link_up() -> None:
    """All bad paths of a NIC share the moments in which it may probe: one for each peer and uplink, 128 here."""
    peers, uplinks = 16, 16
    with SimulatedWorld(
        multi_plane_clos("many", planes=2, t0=2, t1=uplinks, hosts=2 * peers), seed=1, rate=100 * GIGA
    ) as world:
        pairs = [Pair(world, "h1", f"h{peers + n}", length=64 << 10) for n in range(1, peers + 1)]
        for pair in pairs:
            world.spawn(pair.write_without_end(4))
        trip = world.timing.round_trip
        world.run(30 * trip)
        for uplink in range(uplinks // 2):
            world.faults.link_down(f"t0-0:t1-{uplink}@p0", until=world.now + 100 * trip)
        world.run(world.now + 100 * trip)
        bad = bad_paths(pairs)
        assert bad >= 0.9 * peers * uplinks / 2
        settings, start = world.fabric.settings.transport, world.now
        # The probe that was lost last, then three that come back; in each round all paths take their turn.
        turns = bad * (158 * 8 * 100 / 200)  # ns: one per cent of 200 Gb/s
        allowed = 4 * settings.probe_timeout + 2 * max(settings.probe_interval, turns) + turns + 2 * trip
        while bad_paths(pairs) and world.now < start + 2 * allowed:
            world.run(world.now + trip)
        assert world.now - start <= allowed


def bad_paths(pairs: list[Pair]) -> int:
    return sum(path.state is PathState.ASSUMED_BAD for pair in pairs for path in pair.qp.paths())


def return_time(seed: int, gone: list[int], outage: int) -> tuple[int, int]:
    """`gone` uplinks of plane 0 go down for so many base round trips while h1 writes to h3.

    Returns when no path is bad any more, and how long that may take; ns after the links came up.
    """
    with SimulatedWorld(
        multi_plane_clos("restored", planes=2, t0=2, t1=UPLINKS, hosts=4), seed=seed, rate=100 * GIGA
    ) as world:
        pair = Pair(world, length=256 << 10)
        qp = pair.qp
        task = world.spawn(pair.write_without_end(8))
        trip = world.timing.round_trip
        world.run(30 * trip)
        for uplink in gone:
            world.faults.link_down(f"t0-0:t1-{uplink}@p0", until=world.now + outage * trip)
        world.run(world.now + outage * trip)
        bad = {path.ev for path in qp.paths() if path.state is PathState.ASSUMED_BAD}
        assert bad, "the outage was felt"
        settings = world.fabric.settings.transport
        start, probes = world.now, settings.probe_successes
        # The probe that was lost last may wait four times its time; then so many come back, an interval apart, and all
        # bad paths share the moments in which the NIC may probe.
        allowed = (
            4 * settings.probe_timeout
            + (probes - 1) * settings.probe_interval
            + 2 * trip
            + probes * len(bad) * settings.probe_spacing
        )
        before = {path.ev: path.sent for path in qp.paths()}
        while any(path.state is PathState.ASSUMED_BAD for path in qp.paths()) and world.now < start + 2 * allowed:
            world.run(world.now + trip)
        took = world.now - start
        world.run(world.now + 4 * trip)
        used = {path.ev for path in qp.paths() if path.ev in bad and path.sent > before[path.ev]}
        task.cancel()
        # The four probe timeouts are what the slowest round trip of a probe calls for: its own and a full queue's.
        assert allowed <= 4 * (4 * trip + world.timing.queue) + (10 * probes + 2 + len(bad)) * trip
        assert len(used) >= len(bad) - 1, "one of eight paths of a plane is its backup"
        return took, allowed


@pytest.mark.parametrize(("seed", "outage"), [(1, 20), (2, 20), (3, 20), (4, 400)])
@pytest.mark.parametrize("gone", [[3], [0, 1, 2, 3, 4]], ids=["one", "five"])
def test_a_restored_link_is_used_as_soon_as_its_probes_are_answered(seed: int, outage: int, gone: list[int]) -> None:
    """However long it was down: what was lost then makes the next probe wait no longer than its bound."""
    took, allowed = return_time(seed, gone, outage)
    assert took <= allowed, f"{took / 1000:.0f} us, allowed {allowed / 1000:.0f}"
