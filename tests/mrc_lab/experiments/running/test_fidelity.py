import asyncio
import os
import time
from dataclasses import replace

import pytest

from mrc_common.delays import DelayHistogram
from mrc_lab.experiments.running import fidelity
from mrc_lab.experiments.running.fault_times import Deviation
from mrc_lab.experiments.running.fidelity import FidelityWatch, Observed, judge, late_frame_ns
from mrc_lab.experiments.running.machine_delays import Hop
from mrc_lab.fabric.cpu_idle import idle_share
from mrc_lab.fabric.emulation import process_seconds
from topologies.clos import multi_plane_clos
from topologies.emulation.transport_timers import PROCESSES_NS

FABRIC = multi_plane_clos(planes=1, t0=2, t1=1, hosts=2, rate_bps=50_000_000)
NODES = [*(switch.name for switch in FABRIC.switches), *(nic.name for nic in FABRIC.nics)]
MS = 1_000_000


def hop(*frames: tuple[int, int]) -> Hop:
    """A hop whose frames arrive in time and leave late: (ns, how many)."""
    late = [0] * 40
    for ns, count in frames:
        late[ns.bit_length()] += count
    number = sum(count for _, count in frames)
    return Hop(DelayHistogram(0, (number,)), DelayHistogram(sum(ns * count for ns, count in frames), tuple(late)))


def everywhere(*frames: tuple[int, int], **others: Hop) -> dict[str, Hop]:
    return {name: hop(*frames) for name in NODES} | others


def judged(idle, lags, used, hops, seconds):
    return judge(Observed(seconds, idle, lags, used, hops), FABRIC)


QUIET = everywhere((100_000, 990), (MS, 10))


def test_a_run_on_an_idle_machine_is_trusted():
    found = judged([0.5] * 20, [0.001] * 100, 0.7, QUIET, 10.0)
    assert found.trusted
    assert found.reasons == found.notes == ()
    delays = {"machine_round_trip_s", "machine_delay_p99_s", "machine_link_idle"}
    assert {name: found.measurements[name] for name in found.measurements if name not in delays} == {
        "idle_p10": 0.5,
        "lag_p99_s": 0.001,
        "processors_used": 0.7,
        "traffic_s": 10.0,
    }
    # four times a T0, twice a T1, twice both NICs' share: 8 hops of 109 us
    assert found.measurements["machine_round_trip_s"] == pytest.approx(8 * 0.000109)
    assert 0.00006 < found.measurements["machine_delay_p99_s"] <= 0.00014


@pytest.mark.parametrize(("ns", "trusted"), [(50 * MS, True), (51 * MS, False)])
def test_a_run_with_a_late_fault_is_not_trusted(ns, trusted):
    faults = (Deviation(ns, "the fault link down h1@p0 was taken back late"), Deviation(0, "another was on time"))
    found = judge(Observed(10.0, [0.5] * 20, [0.001] * 100, 0.7, QUIET), FABRIC, faults)
    assert found.trusted == trusted
    assert found.measurements["fault_off_by_s"] == ns / 1e9
    assert found.reasons == ("the fault link down h1@p0 was taken back late; 50 ms are allowed",) * (not trusted)


def test_of_many_late_faults_the_worst_are_named():
    faults = tuple(Deviation(ns * MS, f"{ns}") for ns in range(200, 60, -10))
    found = judge(Observed(10.0, [0.5] * 20, [0.001] * 100, 0.7, QUIET), FABRIC, faults)
    assert [reason.partition(";")[0] for reason in found.reasons] == ["200", "190", "180", "170", "160"]


def test_a_run_that_saturates_the_machine_is_not_trusted():
    (reason,) = judged([0.5] * 20, [0.001] * 100, 0.97, QUIET, 10.0).reasons
    assert reason == "the fabric took 97 % of the processors; 90 % are allowed"


def test_load_of_other_processes_counts_only_without_switch_measurements():
    assert judged([0.0] * 20, [0.001] * 100, 0.3, QUIET, 10.0).trusted
    bmv2 = {nic.name: QUIET[nic.name] for nic in FABRIC.nics}
    for hops in (bmv2, {}):
        (reason,) = judged([0.02] * 20, [0.001] * 100, 0.3, hops, 10.0).reasons
        assert reason == "only 2 % of the processors were idle; 10 % are needed"


def test_late_wakeups_make_a_run_untrusted():
    found = judged([0.5] * 20, [0.2] * 100, 0.5, QUIET, 10.0)
    assert not found.trusted
    assert "200 ms late" in found.reasons[0]


def test_a_single_bad_moment_does_not_count():
    hops = QUIET | {"t0-1@p0": hop((100_000, 9990), (60 * MS, 10))}
    assert judged([0.5] * 30 + [0.0], [0.001] * 500 + [0.4], 0.5, hops, 10.0).trusted


def test_excessive_delay_is_not_trusted_and_its_worst_location_is_named():
    assert PROCESSES_NS == 8 * MS
    hops = everywhere((MS, 100)) | {"t1-0@p0": hop((2 * MS, 100))}
    (reason,) = judged([0.5], [0.0], 0.5, hops, 10.0).reasons
    assert "delayed a packet and its answer by 10 ms on average, of which 2 ms at t1-0@p0; 8 ms are allowed" in reason
    assert judged([0.5], [0.0], 0.5, everywhere((900_000, 100)), 10.0).trusted


def test_a_hop_with_bursts_up_to_the_marking_threshold_is_not_trusted():
    limit = late_frame_ns(FABRIC)
    assert limit == pytest.approx(0.2 * 32 * 4514 * 8 / 50e6 * 1e9, rel=1e-3)  # docs/p4.md: a fifth of 32 full frames
    (reason,) = judged([0.5], [0.0], 0.5, QUIET | {"h2": hop((1000, 980), (2 * limit, 20))}, 10.0).reasons
    assert reason.startswith("the machine delayed one frame in a hundred by ")
    assert reason.endswith(" ms or more at h2; 4.62 ms are allowed")


def test_a_link_idle_while_frames_wait_is_not_trusted():
    idle = replace(QUIET["t0-0@p0"], link_idle_ns=(0, 700 * MS, 100 * MS))
    found = judged([0.5], [0.0], 0.5, QUIET | {"t0-0@p0": idle}, 10.0)
    assert found.reasons == ("a link of t0-0@p0 was idle for 7 % of the run although frames waited; 5 % are allowed",)
    assert found.measurements["machine_link_idle"] == 0.07
    assert judged([0.5], [0.0], 0.5, QUIET | {"t0-0@p0": idle}, 20.0).trusted  # of a longer run


def test_slower_links_allow_more_delay():
    slow = multi_plane_clos(planes=1, t0=2, t1=1, hosts=2, rate_bps=5_000_000)
    assert late_frame_ns(slow) == pytest.approx(10 * late_frame_ns(FABRIC), rel=1e-3)


def test_missing_measurements_are_reported():
    bmv2 = {nic.name: QUIET[nic.name] for nic in FABRIC.nics}
    found = judged([0.5], [0.0], 0.5, bmv2, 10.0)
    assert found.trusted
    assert found.notes == ("delays by the machine were measured at NICs only: these switches cannot measure them",)
    assert found.measurements["machine_round_trip_s"] == pytest.approx(2 * 0.000109)
    one_gone = {name: hop for name, hop in QUIET.items() if name != "h2"}
    assert judged([0.5], [0.0], 0.5, one_gone, 10.0).notes == ("delays by the machine were not measured at h2",)
    nothing = judged([0.5], [0.0], 0.5, {}, 10.0)
    assert nothing.trusted
    assert "machine_round_trip_s" not in nothing.measurements
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
        watch = FidelityWatch(lambda: 0.0, FABRIC, delays)
        await watch.prepare()
        async with watch.traffic():
            pass
        return watch.judge()

    found = asyncio.run(run())
    assert asked == [True, False]
    assert found.measurements["machine_round_trip_s"] == pytest.approx(8 * 0.000109)


def test_the_watch_measures_wakeup_latency():
    async def block():
        watch = FidelityWatch(lambda: 0.0, FABRIC, lambda measure: {})
        async with watch.traffic():
            for _ in range(3):
                await asyncio.sleep(0.06)
                time.sleep(0.15)  # what nobody may do in a loop
            await asyncio.sleep(0.06)
        return watch.judge()

    assert any("late" in reason for reason in asyncio.run(block()).reasons)


def test_processor_time_counts_only_during_traffic(monkeypatch):
    used, now = [0.0], [100.0]
    monkeypatch.setattr(fidelity, "monotonic", lambda: now[0])

    def spend(seconds, processors):
        now[0] += seconds
        used[0] += seconds * processors

    async def run():
        watch = FidelityWatch(lambda: used[0], FABRIC, lambda measure: QUIET)
        await watch.prepare()
        spend(10.0, 0.0)  # queue pairs are connected, faults are ordered
        async with watch.traffic():
            spend(0.5, 0.75 * len(os.sched_getaffinity(0)))
        spend(10.0, 0.0)
        return watch.judge()

    found = asyncio.run(run())
    assert found.measurements["processors_used"] == pytest.approx(0.75)
    assert found.measurements["traffic_s"] == 0.5


def test_a_run_below_one_second_has_one_idle_share(monkeypatch):
    readings = [(1000, 5000), (1030, 5100)]  # 100 ticks are half a second of two processors
    monkeypatch.setattr(fidelity, "read_ticks", lambda: readings.pop(0))

    async def run():
        watch = FidelityWatch(lambda: 0.0, FABRIC, lambda measure: {})
        async with watch.traffic():
            pass
        return watch.judge()

    assert asyncio.run(run()).measurements["idle_p10"] == pytest.approx(0.3)


def test_metrics_impossible_in_a_short_run_are_omitted_with_a_note():
    few = everywhere((100_000, 60))
    found = judged([], [], 0.5, few, 0.02)
    assert found.trusted
    assert set(found.measurements) == {"traffic_s", "processors_used", "machine_round_trip_s", "machine_link_idle"}
    assert found.notes == (
        "20 ms of traffic is too short to measure how idle the processors were, late wake-ups or"
        " the delay of one frame in a hundred",
    )
    # Without switches that measure, only idle processors show it.
    (reason,) = judged([], [0.001], 0.5, {}, 0.02).reasons
    assert reason == "20 ms of traffic is too short to tell whether the processors had capacity to spare"


def test_one_slow_frame_among_a_few_is_not_the_99th_percentile():
    hops = QUIET | {"t1-0@p0": hop((100_000, 20), (50 * MS, 1))}
    found = judged([0.5], [0.0], 0.5, hops, 10.0)
    assert not any("one frame in a hundred" in reason for reason in found.reasons)
    assert found.measurements["machine_delay_p99_s"] < 0.001


def test_the_idle_share_is_computed_between_two_readings():
    assert idle_share((1000, 5000), (1030, 5100)) == pytest.approx(0.3)
    assert idle_share((1000, 5000), (1000, 5000)) is None
    assert idle_share((1000, 5000), (1003, 5010), 20) is None


def test_processor_time_of_a_process_is_read_from_its_clock():
    before = time.process_time()
    found = process_seconds(os.getpid())
    assert before <= found <= time.process_time()
    assert process_seconds(2**22 + 1) == 0.0  # no process has this number
