"""The delays a driver measures when asked: of arrivals, departures, and line time lost."""

from __future__ import annotations

from collections.abc import Callable

from mrc_host.driver.nic_driver import RECEIVE_BATCH
from tests.mrc_host.driver.rig import REAL_OFFSET, Rig


def delays(rig: Rig, port: int = 0) -> tuple[tuple[int, int], tuple[int, int]]:
    """(frames, total ns) of arrivals and of departures."""
    found = rig.driver.delays()[port]
    assert found.port == port
    arrivals, departures = ((sum(item.histogram), item.total_ns) for item in (found.arrivals, found.departures))
    return arrivals, departures


def arrive(rig: Rig, count: int, waited: int) -> None:
    """Frames on port 0, of which the first has been there for so long."""
    rig.opened[0].arrive(*[b"x" * 60] * count)
    rig.opened[0].stamped = rig.time + REAL_OFFSET - waited
    rig.ready()


def test_nothing_is_measured_unless_requested(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    arrive(rig, 3, 5_000)
    rig.nic.offered[0].extend([bytes(1226)] * 20)
    rig.step()
    assert rig.opened[0].asked == 0
    assert delays(rig) == ((0, 0), (0, 0))


def test_the_delay_of_a_batch_is_that_of_its_first_frame(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.driver.measure_delays(True)
    arrive(rig, 1, 9_999)  # by which the clocks are compared
    for count, waited in ((3, 700), (1, 50), (RECEIVE_BATCH, 100)):
        rig.time += 10_000
        arrive(rig, count, waited)
    assert rig.opened[0].asked == 4
    assert delays(rig)[0] == (3 + 1 + RECEIVE_BATCH, 3 * 700 + 50 + RECEIVE_BATCH * 100)
    assert delays(rig, 1) == ((0, 0), (0, 0))
    rig.driver.measure_delays(False)
    arrive(rig, 1, 700)
    assert delays(rig)[0] == (3 + 1 + RECEIVE_BATCH, 3 * 700 + 50 + RECEIVE_BATCH * 100)


def test_a_port_served_as_soon_as_free_has_no_delay(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.driver.measure_delays(True)
    rig.nic.offered[0].extend([bytes(1226)] * 100)
    rig.run_until(rig.time + 5_000_000)
    assert delays(rig)[1] == (100, 0)


def test_a_port_served_late_delays_its_queued_frames(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=100_000)
    rig.driver.measure_delays(True)
    rig.nic.offered[0].extend([bytes(1226)] * 4)  # 10 us each
    free = rig.step()
    assert free is not None
    rig.time = free + 25_000
    rig.step()
    assert delays(rig)[1] == (4, 25_000 + 15_000 + 5_000)
    assert rig.driver.delays()[0].link_idle_ns == 0


def test_unrecovered_link_time_is_counted_once(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.driver.measure_delays(True)
    rig.nic.offered[0].extend([bytes(1226)] * 50)
    free = rig.step()
    assert free is not None
    rig.time = free + 1_000_000
    rig.run_until(rig.time + 5_000_000)
    assert delays(rig)[1] == (50, 1_000_000)
    assert rig.driver.delays()[0].link_idle_ns == 1_000_000


def test_a_port_without_frames_loses_no_link_time(rigs: Callable[..., Rig]) -> None:
    rig = rigs(burst_ns=0)
    rig.driver.measure_delays(True)
    rig.nic.offered[0].append(bytes(1226))
    free = rig.step()
    assert free is not None
    rig.time = free + 1_000_000
    rig.step()  # late, but for nothing
    rig.time += 1_000_000
    rig.nic.offered[0].append(bytes(1226))
    rig.step()
    assert delays(rig)[1] == (2, 0)
    assert rig.driver.delays()[0].link_idle_ns == 0


def test_delay_of_a_response_counts_from_the_reception_of_its_cause(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.driver.measure_delays(True)
    arrive(rig, 1, 0)
    rig.time += 30_000  # spent on it, and on what came with it
    rig.nic.offered[0].append(bytes(60))
    rig.run_until(rig.time + 1_000_000)
    assert delays(rig)[1] == (1, 30_000)
    rig.time += 1_000_000
    rig.nic.offered[0].append(bytes(60))  # by an application
    rig.step()
    assert delays(rig)[1] == (2, 30_000)
