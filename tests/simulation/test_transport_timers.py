from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import QpAttributes
from p4runtime_shim.traffic_manager import QueueConfig
from simulation.transport_timers import retry_budget, timing
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, small_world, transfer
from topologies.clos import multi_plane_clos
from topologies.loader import load_text
from topologies.queues import QueueProfile


def fabric(rate, planes=8, t0=2):
    return multi_plane_clos("t", planes=planes, t0=t0, t1=t0, hosts=4, rate_bps=rate)


def test_the_computed_round_trip_matches_the_simulation():
    with small_world() as world:
        took = world.run(transfer(world, length=4096)).took
        assert took == pytest.approx(world.timing.round_trip, rel=0.05)


def test_the_initial_window_keeps_every_port_busy():
    fit = timing(fabric(100 * GIGA), 1000, 256)
    assert fit.window == pytest.approx(1.5 * 8 * 100 / 8 * fit.round_trip, rel=0.01)


def test_the_psn_range_holds_three_bdp_and_at_least_the_documented_range():
    assert timing(fabric(100 * GIGA), 1000, 256).attributes().mpr == 8
    fit = timing(fabric(25 * GIGA, planes=2), 250_000, 256)
    attributes = fit.attributes()
    bdp = 2 * 25 / 8 * fit.round_trip
    assert 0 <= attributes.mpr * 128 * 4096 - 3 * bdp < 128 * 4096
    assert attributes.mpr_dest == attributes.mpr
    assert timing(fabric(100 * GIGA), 1_000_000, 256).attributes().mpr == 255, "the field has 8 bits"
    assert fit.attributes(QpAttributes(mpr=2)).mpr == 2, "what somebody chose stays"


@pytest.mark.parametrize(("planes", "rate"), [(1, 100 * GIGA), (4, 100 * GIGA), (8, 200 * GIGA), (2, GIGA), (1, 8_000)])
def test_background_probes_take_one_percent_of_a_nic_and_at_least_four_per_round_trip(planes, rate):
    fit = timing(fabric(rate, planes), 1000, 256)
    one_per_cent = 158 * 8 * 100 / (planes * rate) * 1e9  # a frame of 138 bytes with FCS, preamble and gap
    assert fit.transport(TransportSettings()).probe_spacing == pytest.approx(
        min(one_per_cent, fit.round_trip / 4), abs=1
    )


def test_timers_follow_rate_and_delay():
    slow, fast = timing(fabric(10 * GIGA), 1000, 256), timing(fabric(100 * GIGA), 1000, 256)
    assert slow.round_trip > fast.round_trip
    assert slow.timeout > fast.timeout
    assert timing(fabric(100 * GIGA), 50_000, 256).timeout > fast.timeout
    base = TransportSettings(sack_threshold=4096, congestion="none")
    fitted = fast.transport(base)
    assert (fitted.sack_threshold, fitted.congestion) == (4096, "none")
    assert fitted.tail_probe_min < base.tail_probe_min
    assert (fitted.base_rtt, fitted.trimming) == (fast.round_trip, True)
    assert not timing(replace(fabric(GIGA), queues=QueueProfile(trimming=False)), 1000, 256).trimming
    for name in ("probe_interval", "probe_spacing", "port_status_retry", "port_status_max", "flap_window"):
        assert getattr(fitted, name) < getattr(slow.transport(base), name) < getattr(base, name), name
    assert fitted.port_status_retry < fitted.port_status_max
    assert fitted.probe_spacing < fitted.probe_interval < fitted.flap_window
    assert fast.attributes(QpAttributes(retry_count=3)).retry_count == 3
    assert 1024 << fast.timeout > 4 * (fast.round_trip + fast.queue)


@pytest.mark.parametrize("rate", [8_000, 1_000_000, 1_000_000_000_000])
def test_timers_exist_for_the_slowest_and_the_fastest_links(rate):
    fitted = timing(fabric(rate), 1000, 256).transport(TransportSettings())
    assert fitted.probe_interval <= fitted.port_status_max <= 3600 * GIGA


def test_the_retry_budget_is_the_sum_of_all_timeouts():
    settings = TransportSettings(linear_retries=2, max_backoff=2)
    assert retry_budget(QpAttributes(timeout=1, retry_count=1), settings) == 2048
    assert retry_budget(QpAttributes(timeout=1, retry_count=6), settings) == 2048 * (1 + 1 + 1 + 2 + 4 + 4)
    given = QpAttributes(timeout=1, retry_count=6, linear_retries=0)
    assert retry_budget(given, settings) == 2048 * (1 + 2 + 4 + 4 + 4 + 4)


TWO_CLUSTERS = """
{name: two, planes: 2, pods: 2, t0: 1, t1: 1, t2: 1, hosts: 4, rate: 10G,
 links: {"t1-1:t2-*": {rate: 2500M, delay: 5ms}}}
"""


def clusters(**settings):
    """A world of two clusters 5 ms from each other: h1 and h2, h3 and h4."""
    fabric = load_text(TWO_CLUSTERS)
    transport = timing(fabric, 1000, 64).transport(fabric.settings.transport)
    return SimulatedWorld(fabric, seed=1, transport=replace(transport, **settings), queues=QueueConfig(max_packets=64))


def destination(world, host, peer):
    return next(known for known in world.nic(host).config.destinations if known.name == peer)


def test_timers_follow_the_round_trip_to_each_destination():
    with clusters() as world:
        near, far = (destination(world, "h1", peer) for peer in ("h2", "h3"))
        assert near.base_rtt < 100_000 < 10_000_000 < far.base_rtt < 10_200_000
        for known in (near, far):
            assert known.timers.tail_probe_min == 2 * known.base_rtt
            assert known.timers.probe_interval == 10 * known.base_rtt
            assert known.timers.reverse_probe_interval == known.base_rtt, "as published"
            assert known.timers.probe_timeout == 4 * known.base_rtt + world.timing.queue, "queues are everywhere"
        assert far.base_rtt == world.timing.round_trip


def test_an_explicit_timer_applies_to_all_destinations():
    with clusters(probe_interval=7_000_000) as world:
        near, far = (destination(world, "h1", peer).timers for peer in ("h2", "h3"))
        assert near.probe_interval == far.probe_interval == 7_000_000
        assert near.tail_probe_min < far.tail_probe_min


def test_destinations_at_equal_distance_have_no_timers_of_their_own():
    with small_world() as world:
        assert {known.timers for known in world.nic("h1").config.destinations} == {None}


def test_queue_pairs_get_timeout_and_psn_range_for_their_distance():
    with clusters() as world:
        near, far, unsaid = world.attributes(ends=("h1", "h2")), world.attributes(ends=("h1", "h3")), world.attributes()
        assert far == unsaid
        assert near.timeout < far.timeout
        assert (near.mpr, near.mpr_dest) == (8, 8) < (far.mpr, far.mpr_dest)
        assert 1024 << near.timeout >= 4 * (destination(world, "h1", "h2").base_rtt + world.timing.queue)
