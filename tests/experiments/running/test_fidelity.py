import asyncio
from dataclasses import replace

import pytest

from experiments.running.fidelity import Watch, judge, late_frame_ns
from experiments.running.machine_delays import Delays, Hop
from topologies.clos import multi_plane_clos
from topologies.emulation.timing import PROCESSES_NS

FABRIC = multi_plane_clos(planes=1, t0=2, t1=1, hosts=2, rate_bps=50_000_000)
NODES = [*(switch.name for switch in FABRIC.switches), *(nic.name for nic in FABRIC.nics)]
MS = 1_000_000


def hop(*frames: tuple[int, int]) -> Hop:
    """A hop whose frames arrive in time and leave late: (ns, how many)."""
    late = [0] * 40
    for ns, count in frames:
        late[ns.bit_length()] += count
    number = sum(count for _, count in frames)
    return Hop(Delays(0, (number,)), Delays(sum(ns * count for ns, count in frames), tuple(late)))


def everywhere(*frames: tuple[int, int], **others: Hop) -> dict[str, Hop]:
    return {name: hop(*frames) for name in NODES} | others


QUIET = everywhere((100_000, 990), (MS, 10))


def test_a_machine_with_room_is_trusted():
    found = judge([0.5] * 20, [0.001] * 100, 0.7, FABRIC, QUIET, 10.0)
    assert found.trusted
    assert found.reasons == found.notes == ()
    delays = {"machine_round_trip_s", "machine_delay_p99_s", "machine_line_idle"}
    assert {name: found.figures[name] for name in found.figures if name not in delays} == {
        "idle_p10": 0.5,
        "lag_p99_s": 0.001,
        "processors_used": 0.7,
    }
    # four times a T0, twice a T1, twice both NICs' share: 8 hops of 109 us
    assert found.figures["machine_round_trip_s"] == pytest.approx(8 * 0.000109)
    assert 0.00006 < found.figures["machine_delay_p99_s"] <= 0.00014


def test_a_fabric_that_takes_the_whole_machine_is_not():
    (reason,) = judge([0.5] * 20, [0.001] * 100, 0.97, FABRIC, QUIET, 10.0).reasons
    assert reason == "the fabric took 97 % of the processors; 90 % are allowed"


def test_what_others_take_counts_only_where_switches_cannot_measure_what_it_does_to_frames():
    assert judge([0.0] * 20, [0.001] * 100, 0.3, FABRIC, QUIET, 10.0).trusted
    bmv2 = {nic.name: QUIET[nic.name] for nic in FABRIC.nics}
    for hops in (bmv2, {}):
        (reason,) = judge([0.02] * 20, [0.001] * 100, 0.3, FABRIC, hops, 10.0).reasons
        assert reason == "only 2 % of the processors were idle; 10 % are needed"


def test_late_wake_ups_are_not():
    found = judge([0.5] * 20, [0.2] * 100, 0.5, FABRIC, QUIET, 10.0)
    assert not found.trusted
    assert "200 ms late" in found.reasons[0]


def test_one_bad_moment_does_not_count():
    hops = QUIET | {"t0-1@p0": hop((100_000, 9990), (60 * MS, 10))}
    assert judge([0.5] * 30 + [0.0], [0.001] * 500 + [0.4], 0.5, FABRIC, hops, 10.0).trusted


def test_more_delay_than_the_transport_expects_of_processes_is_not_trusted_and_the_worst_place_is_named():
    assert PROCESSES_NS == 8 * MS
    hops = everywhere((MS, 100)) | {"t1-0@p0": hop((2 * MS, 100))}
    (reason,) = judge([0.5], [0.0], 0.5, FABRIC, hops, 10.0).reasons
    assert "delayed a packet and its answer by 10 ms on average, of which 2 ms at t1-0@p0; 8 ms are allowed" in reason
    assert judge([0.5], [0.0], 0.5, FABRIC, everywhere((900_000, 100)), 10.0).trusted


def test_a_hop_at_which_frames_bunch_up_to_what_switches_mark_is_not_trusted():
    limit = late_frame_ns(FABRIC)
    assert limit == pytest.approx(0.2 * 32 * 4514 * 8 / 50e6 * 1e9, rel=1e-3)  # docs/p4.md: a fifth of 32 full frames
    (reason,) = judge([0.5], [0.0], 0.5, FABRIC, QUIET | {"h2": hop((1000, 980), (2 * limit, 20))}, 10.0).reasons
    assert reason.startswith("the machine delayed one frame in a hundred by ")
    assert reason.endswith(" ms or more at h2; 4.62 ms are allowed")


def test_a_line_that_stands_idle_while_frames_wait_is_not_trusted():
    idle = replace(QUIET["t0-0@p0"], line_idle_ns=(0, 700 * MS, 100 * MS))
    found = judge([0.5], [0.0], 0.5, FABRIC, QUIET | {"t0-0@p0": idle}, 10.0)
    assert found.reasons == ("a line of t0-0@p0 stood idle for 7 % of the run although frames waited; 5 % are allowed",)
    assert found.figures["machine_line_idle"] == 0.07
    assert judge([0.5], [0.0], 0.5, FABRIC, QUIET | {"t0-0@p0": idle}, 20.0).trusted  # of a longer run


def test_a_slower_line_allows_more():
    slow = multi_plane_clos(planes=1, t0=2, t1=1, hosts=2, rate_bps=5_000_000)
    assert late_frame_ns(slow) == pytest.approx(10 * late_frame_ns(FABRIC), rel=1e-3)


def test_what_was_not_measured_is_said():
    bmv2 = {nic.name: QUIET[nic.name] for nic in FABRIC.nics}
    found = judge([0.5], [0.0], 0.5, FABRIC, bmv2, 10.0)
    assert found.trusted
    assert found.notes == ("delays by the machine were measured at NICs only: these switches cannot measure them",)
    assert found.figures["machine_round_trip_s"] == pytest.approx(2 * 0.000109)
    one_gone = {name: hop for name, hop in QUIET.items() if name != "h2"}
    assert judge([0.5], [0.0], 0.5, FABRIC, one_gone, 10.0).notes == ("delays by the machine were not measured at h2",)
    nothing = judge([0.5], [0.0], 0.5, FABRIC, {}, 10.0)
    assert nothing.trusted
    assert "machine_round_trip_s" not in nothing.figures
    assert "not measured at t0-0@p0" in nothing.notes[0]
    assert nothing.notes[0].endswith(" and others")


def test_only_what_was_measured_during_the_run_counts():
    before = everywhere((100 * MS, 100))
    after = everywhere((100_000, 990), (MS, 10), (100 * MS, 100))
    readings, asked = [before, after], []

    def delays(measure):
        asked.append(measure)
        return readings.pop(0)

    async def run():
        watch = Watch(lambda: 0.0, FABRIC, delays)
        task = asyncio.ensure_future(watch.run())
        while not watch._lags:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return watch.judge()

    found = asyncio.run(run())
    assert asked == [True, False]
    assert found.figures["machine_round_trip_s"] == pytest.approx(8 * 0.000109)


def test_a_watch_sees_how_late_it_is_woken():
    async def block():
        watch = Watch(lambda: 0.0, FABRIC, lambda measure: {})
        task = asyncio.ensure_future(watch.run())
        while not watch._lags:
            await asyncio.sleep(0.01)
        for _ in range(3):
            import time

            time.sleep(0.15)  # what nobody may do in a loop
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return watch.judge()

    assert any("late" in reason for reason in asyncio.run(block()).reasons)
