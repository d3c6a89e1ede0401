"""Delays by the machine: the arithmetic of histograms, and reading them from all that answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from mrc_common.delays import DelayHistogram, PortDelays
from mrc_lab.experiments.running.machine_delays import Hop, differences, read, round_trip_ns
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from tests.mrc_host.agent.conftest import Agents
from topologies.clos import multi_plane_clos

pytestmark = pytest.mark.plain_transport  # its agents have fake NICs


def delayed(*frames: tuple[int, int]) -> DelayHistogram:
    """(ns, how many) of frames."""
    histogram = [0] * 40
    for ns, count in frames:
        histogram[ns.bit_length()] += count
    return DelayHistogram(sum(ns * count for ns, count in frames), tuple(histogram))


def test_mean_and_quantiles_follow_the_bins_of_the_frames() -> None:
    assert (DelayHistogram().mean_ns, DelayHistogram().quantile_ns(0.99)) == (0, 0)
    delays = delayed((0, 50), (1000, 49), (1 << 20, 1))
    assert delays.frames == 100
    assert delays.mean_ns == pytest.approx((49 * 1000 + (1 << 20)) / 100)
    assert delays.quantile_ns(0.5) == 0
    assert 512 < delays.quantile_ns(0.75) < 1024
    assert delays.quantile_ns(0.99) == 1024
    assert (1 << 20) < delays.quantile_ns(0.999) <= 1 << 21


def test_delays_of_two_locations_are_summed() -> None:
    assert DelayHistogram(5, (1, 0, 1)) + DelayHistogram(1, (0, 1)) == DelayHistogram(6, (1, 1, 1))


def test_delays_before_the_run_do_not_count() -> None:
    before, after = delayed((100, 3)), delayed((100, 5), (3000, 1))
    assert after.since(before).total_ns == 3200
    assert after.since(before).frames == 3
    assert before.since(before).frames == 0


def test_restarted_counters_count_in_full() -> None:
    measured = delayed((100, 1), (3000, 1))
    assert measured.since(delayed((100, 3))) == measured


def test_each_link_direction_is_a_separate_difference() -> None:
    before, after = Hop(link_idle_ns=(5, 0, 9)), Hop(link_idle_ns=(7, 3, 2, 4))
    assert after.since(before).link_idle_ns == (2, 3, 2, 4)  # the third restarted, the fourth is new


def test_only_locations_with_measurements_are_reported() -> None:
    hop, idle = Hop(delayed((100, 3)), DelayHistogram()), Hop()
    assert differences({"h1": hop, "h2": idle, "h3": hop}, {"h3": hop}) == {"h1": hop}
    assert differences({}, {"h3": hop}) == {}


def test_round_trip_delay_counts_each_tier_as_often_as_its_path() -> None:
    def hop(arrival: int, departure: int) -> Hop:
        return Hop(delayed((arrival, 10)), delayed((departure, 10)))

    clos = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)
    hops = {switch.name: hop(1, 2) if switch.name.startswith("t0") else hop(10, 20) for switch in clos.switches}
    nics = {nic.name: hop(100, 200) for nic in clos.nics}
    assert round_trip_ns(clos, hops | nics) == 4 * 3 + 2 * 30 + 2 * 300
    assert round_trip_ns(clos, nics) == 2 * 300  # BMv2
    single = multi_plane_clos(planes=1, t0=1, t1=0, hosts=2)
    assert round_trip_ns(single, {"t0-0@p0": hop(1, 2), "h1": hop(100, 200)}) == 2 * 3 + 2 * 300


class Service(pb_grpc.SwitchManagementServicer):
    """An embedded switch's own, with one port."""

    def __init__(self) -> None:
        self.measure: list[bool] = []

    async def GetDelays(self, request: pb.GetDelaysRequest, context: object) -> pb.GetDelaysResponse:  # noqa: N802
        self.measure.append(request.measure)
        delays = pb.Delays(total_ns=3, histogram=[1, 0, 1])
        port = pb.PortDelays(
            port=1, arrivals=delays, departures=pb.Delays(total_ns=1, histogram=[0, 1]), link_idle_ns=9
        )
        return pb.GetDelaysResponse(switches=[pb.SwitchDelays(device_id=1, ports=[port, port])])


@asynccontextmanager
async def serving(service: pb_grpc.SwitchManagementServicer | None) -> AsyncIterator[str]:
    server = grpc.aio.server()
    if service is not None:
        pb_grpc.add_SwitchManagementServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    made = Agents(tmp_path)
    yield made
    made.stop()


def test_switches_and_agents_are_queried_and_crashed_ones_skipped(tmp_path: Path, agents: Agents) -> None:
    asked: list[bool] = []
    server = agents.servers[0]
    server.measure_delays = asked.append
    server.delays = lambda: (PortDelays(0, DelayHistogram(7, (0, 0, 0, 1)), DelayHistogram(0, (2,)), 5),) * 2
    fabric = multi_plane_clos(planes=1, t0=1, t1=0, hosts=2)
    service = Service()
    sockets = {"h1": str(agents.paths[0]), "h2": str(tmp_path / "nobody.sock")}

    async def go() -> None:
        async with serving(service) as address:
            for measure in (True, False):
                hops = await asyncio.to_thread(read, fabric, address, sockets, measure=measure)
                assert hops == {
                    fabric.switches[0].name: Hop(DelayHistogram(6, (2, 0, 2)), DelayHistogram(2, (0, 2)), (9, 9)),
                    "h1": Hop(DelayHistogram(14, (0, 0, 0, 2)), DelayHistogram(0, (4,)), (5, 5)),
                }
        assert service.measure == asked == [True, False]
        async with serving(None) as address:  # BMv2 has no such service
            assert list(await asyncio.to_thread(read, fabric, address, sockets, measure=True)) == ["h1"]
        assert list(await asyncio.to_thread(read, fabric, address, {}, measure=True)) == []  # nobody listens any more

    asyncio.run(go())
