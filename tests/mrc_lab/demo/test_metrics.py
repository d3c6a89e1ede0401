import pytest

from mrc_host.verbs_types import PathState
from mrc_lab.demo.metrics import run_metrics, spread, steps_of
from tests.mrc_lab.demo.records import FABRIC, fault, path_event, record, step_report
from topologies import addressing

BAD, GOOD, SKIP = PathState.ASSUMED_BAD, PathState.GOOD, PathState.SKIP


def even_steps(count, begin=1000, length=100):
    return [(begin + length * n, begin + length * (n + 1)) for n in range(count)]


def test_a_step_lasts_as_long_as_its_slowest_rank():
    (step,) = steps_of(record(spans=[(1000, 1150)]))
    assert step.duration_s == pytest.approx(0.150)
    assert (step.begin_ns, step.end_ns) == (1_000_000_000, 1_150_000_000)


def test_steps_missing_on_one_rank_are_ignored():
    run = record(spans=even_steps(3), planned=4)
    run.take(0, step_report(3, 1300, 1400))
    assert [s.number for s in steps_of(run)] == [0, 1, 2]
    assert run_metrics(run, FABRIC).steps == 3
    assert not run.complete


def test_metrics_of_a_run_without_faults():
    metrics = run_metrics(record(spans=even_steps(10)), FABRIC)
    assert metrics.steps == 10
    assert metrics.median_step_s == pytest.approx(0.1)
    assert metrics.longest_stall_s == pytest.approx(0.1)
    assert metrics.duration_s == pytest.approx(1.0)
    assert (metrics.packets_sent, metrics.packets_lost, metrics.packets_retransmitted) == (400, 6, 12)
    assert (metrics.wrong_bytes, metrics.verified_bytes, metrics.unequal_gradients) == (0, 4 * 1300, 0)
    assert metrics.faults == ()


def test_a_stall_is_the_longest_time_without_a_completed_step():
    metrics = run_metrics(record(spans=[(1000, 1100), (1100, 1200), (1200, 4200), (4200, 4300)]), FABRIC)
    assert metrics.longest_stall_s == pytest.approx(3.0)
    assert metrics.median_step_s == pytest.approx(0.1)


def test_time_between_steps_counts_as_stall():
    metrics = run_metrics(record(spans=[(1000, 1100), (1900, 2000)]), FABRIC)
    assert metrics.longest_stall_s == pytest.approx(0.9)


def test_a_run_that_never_resumes_stalls_until_its_end():
    run = record(spans=even_steps(5), planned=10, finished=False)
    run.ended_ns += 30_000_000_000
    assert run_metrics(run, FABRIC).longest_stall_s == pytest.approx(30.0)


def test_the_end_of_an_interrupted_run_is_not_a_stall():
    run = record(spans=even_steps(5), planned=10, finished=False)
    run.ended_ns += 30_000_000_000
    run.interrupted = True
    assert run_metrics(run, FABRIC).longest_stall_s == pytest.approx(0.1)


def test_wrong_bytes_and_unequal_gradients_are_counted():
    run = record(spans=even_steps(2))
    run.take(3, {"kind": "pattern", "round": 1, "checked": 300, "wrong": 7})
    run.status[1]["transfer"]["wrong_bytes"] = 4096
    run.take(0, step_report(1, 1100, 1200, crc=99))
    metrics = run_metrics(run, FABRIC)
    assert metrics.wrong_bytes == 4103
    assert metrics.unequal_gradients == 1


def test_steps_before_during_and_after_a_fault():
    spans = [*even_steps(10), (2000, 5200), *even_steps(10, begin=5200, length=200)]
    run = record(spans=spans)
    run.faults.append(fault("t0-0:t1-1@p0", 2050, 5000))
    (metrics,) = run_metrics(run, FABRIC).faults
    assert metrics.step_before.count == 8  # the first two are warm-up
    assert metrics.step_before.largest == pytest.approx(0.1)
    assert (metrics.step_during.count, metrics.step_during.median) == (1, pytest.approx(3.2))
    assert (metrics.step_after.count, metrics.step_after.median) == (10, pytest.approx(0.2))
    assert metrics.longest_stall_s == pytest.approx(3.2)
    assert metrics.resumed_after_link_up_s == pytest.approx(0.2)


def test_two_faults_are_measured_separately():
    spans = [*even_steps(10), (2000, 4000), *even_steps(10, begin=4000), (5000, 5500), *even_steps(5, begin=5500)]
    run = record(spans=spans)
    run.faults += [fault("t0-0:t1-1@p0", 2050, 3900), fault("h1@p0", 5050, 5400)]
    first, second = run_metrics(run, FABRIC).faults
    assert first.longest_stall_s == pytest.approx(2.0)
    assert first.step_after.count == 10
    assert second.step_before.count == 10
    assert second.longest_stall_s == pytest.approx(0.5)


def test_failover_time_counts_from_the_first_lost_packet_and_recovery_time_from_link_up():
    run = record(spans=even_steps(60))
    run.faults.append(fault("t0-0:t1-1@p0", 2000, 4000))
    run.path_events += [
        path_event(2010.5, BAD, loss_ms=2010),
        path_event(2100, BAD, rank=3, loss_ms=2097),  # h4 to h1
        path_event(4100, GOOD),
        path_event(4300, GOOD, rank=3),
    ]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert metrics.failover.count == 2
    assert metrics.failover.least == pytest.approx(0.0005)
    assert metrics.failover.largest == pytest.approx(0.003)
    assert (metrics.recovery.least, metrics.recovery.largest) == (pytest.approx(0.1), pytest.approx(0.3))
    assert (metrics.never_recovered, metrics.collateral_paths) == (0, 0)


def test_path_changes_while_the_link_is_down_are_not_recoveries():
    run = record(spans=even_steps(60))
    run.faults.append(fault("t0-0:t1-1@p0", 2000, 4000))
    run.path_events += [
        path_event(2010, BAD, loss_ms=2009),
        path_event(3000, GOOD),
        path_event(3010, BAD, loss_ms=3005),
        path_event(4500, SKIP),
        path_event(4600, BAD, loss_ms=4590),
    ]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert metrics.failover.largest == pytest.approx(0.001)
    assert metrics.recovery.largest == pytest.approx(0.5)


def test_a_path_already_good_at_link_up_recovers_at_once():
    run = record(spans=even_steps(60))
    run.faults.append(fault("t0-0:t1-1@p0", 2000, 4000))
    run.path_events += [path_event(2010, BAD, loss_ms=2009), path_event(3999, GOOD)]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert (metrics.recovery.largest, metrics.never_recovered) == (0.0, 0)


def test_paths_that_never_recover_are_counted():
    run = record(spans=even_steps(60))
    run.faults.append(fault("t0-0:t1-1@p0", 2000, 4000))
    run.path_events += [path_event(2010, BAD, loss_ms=2009)]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert (metrics.recovery, metrics.never_recovered) == (None, 1)


def test_paths_without_loss_before_link_up_were_not_affected():
    run = record(spans=even_steps(60))
    run.faults.append(fault("t0-0:t1-1@p0", 2000, 4000))
    run.path_events += [
        path_event(4010, BAD, loss_ms=3999),  # sent while the link was cut
        path_event(4100, GOOD),
        path_event(5000, BAD, rank=3, loss_ms=4990),
        path_event(5010, GOOD, rank=3),
    ]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert (metrics.failover.count, metrics.recovery.count, metrics.collateral_paths) == (1, 1, 1)
    assert metrics.recovery.largest == pytest.approx(0.1)


def test_affected_paths_not_crossing_the_link_are_collateral():
    run = record(spans=even_steps(60))
    run.faults.append(fault("t0-0:t1-1@p0", 2000, 4000))
    run.path_events += [
        path_event(2010, BAD, uplink=2, loss_ms=2009),
        path_event(2010, BAD, plane=1, loss_ms=2009),
        path_event(2010, BAD, rank=0, loss_ms=2009),  # h1 to h2, below the same T0
        path_event(1500, BAD, loss_ms=1499),  # before the cut: not this fault's
    ]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert metrics.failover is None
    assert metrics.collateral_paths == 3


def test_failover_by_carrier_loss_counts_from_link_down():
    run = record(spans=even_steps(60))
    run.faults.append(fault("h3@p0", 2000, 4000))
    run.path_events += [path_event(2004, BAD)]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert metrics.failover.largest == pytest.approx(0.004)


def test_a_fault_that_was_never_repaired_has_no_recovery_time():
    run = record(spans=even_steps(10), planned=20, finished=False)
    run.faults.append(fault("t0-0:t1-1@p0", 1550, None))
    run.path_events += [path_event(1600, BAD, loss_ms=1590)]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert metrics.link_up_s is None
    assert metrics.step_after is None
    assert metrics.resumed_after_link_up_s is None
    assert metrics.never_recovered == 1


def test_an_empty_run_has_metrics():
    metrics = run_metrics(record(spans=[], planned=10, finished=False), FABRIC)
    assert (metrics.steps, metrics.median_step_s, metrics.longest_stall_s) == (0, None, 0)


def test_a_run_without_any_step_is_one_stall():
    run = record(spans=[], planned=10, finished=False)
    run.ended_ns += 2_000_000_000
    assert run_metrics(run, FABRIC).longest_stall_s == pytest.approx(2.0)


def test_spread_summarises_values():
    assert spread([]) is None
    value = spread([3.0, 1.0, 10.0])
    assert (value.count, value.least, value.median, value.largest) == (3, 1.0, 3.0, 10.0)


def port_event(at_ms, up, *, rank, local=False, peer="", port=0):
    return {
        "kind": "port",
        "rank": rank,
        "time": int(at_ms * 1e6),
        "port": port,
        "up": up,
        "local": local,
        "peer": peer,
    }


def test_a_nic_link_down_is_detected_by_carrier_and_by_the_peer():
    h3 = addressing.nic_address(FABRIC, FABRIC.nic("h3")).packed.hex()
    run = record("mrc", spans=even_steps(60))
    run.faults.append(fault("h3@p0", 2000, 4000))
    run.other_events += [
        port_event(2001, False, rank=2, local=True),
        port_event(2003, False, rank=1, peer=h3),
        port_event(2003, False, rank=1, peer=h3, port=1),  # another plane
        port_event(2002, False, rank=0, peer="ff" * 16),  # another NIC
        port_event(4002, True, rank=2, local=True),
        port_event(4008, True, rank=1, peer=h3),
    ]
    (metrics,) = run_metrics(run, FABRIC).faults
    assert (metrics.port_down.count, metrics.port_down.largest) == (2, pytest.approx(0.003))
    assert (metrics.port_up.count, metrics.port_up.largest) == (2, pytest.approx(0.008))


def test_a_single_path_connection_avoids_no_plane():
    run = record("roce", spans=even_steps(60))
    run.faults.append(fault("h3@p0", 2000, 4000))
    run.other_events.append(port_event(2001, False, rank=2, local=True))
    (metrics,) = run_metrics(run, FABRIC).faults
    assert (metrics.port_down, metrics.port_up) == (None, None)
