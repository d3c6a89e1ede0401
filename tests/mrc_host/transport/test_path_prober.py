"""Path probes: who sends them when, who counts them, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from mrc_host.config import EvFormat, ProtocolSettings
from mrc_host.errors import InvalidArgumentError
from mrc_host.nic import Nic
from mrc_host.path_probes import MAX_PROBE_PATHS, ProbePath, ProbePlan, ProbeReport, ProbesArrived
from mrc_host.transport.path_prober import MAX_ROUNDS
from mrc_host.verbs.remote.codec import from_json, to_json
from mrc_host.wire import control, opcodes
from mrc_host.wire.encap import read_prefix
from tests.mrc_host.nic_world import MS, World, address, make_config, template

ROUND = 40 * MS


def path(to: int, plane: int = 0, uplink: int = 0) -> ProbePath:
    ev = plane << 10 | uplink
    return ProbePath(plane, template(to).address(ev), address(to), ev)


def plan(*paths: ProbePath, first: int = 0) -> ProbePlan:
    return ProbePlan(paths, ROUND, first)


def start(world: World, number: int, given: ProbePlan) -> None:
    world.nics[number].control.start_probing(given, world.now)
    world.pump(number)


def union(report: ProbeReport) -> Counter[tuple[bytes, int]]:
    """How often a probe of each path has arrived, by sender and path."""
    return Counter(
        (arrived.source, number)
        for arrived in report.arrived
        for number in range(MAX_PROBE_PATHS)
        if arrived.paths >> number & 1
    )


def sent(report: ProbeReport) -> Counter[int]:
    return Counter(n for part in report.sent for n in range(MAX_PROBE_PATHS) if part.paths >> n & 1)


def test_every_path_is_probed_once_per_round_and_counted_at_its_receiver() -> None:
    world = World(2, 2, 4)
    paths = [path(0), path(1), path(1, 1, 3)]  # to itself and back, and one way in both planes
    start(world, 0, plan(*paths, first=(1 << 32) - 2))
    world.run(10 * ROUND)
    own, other = (nic.control.probe_report() for nic in world.nics[:2])
    counts = sent(own)
    assert own.probing
    assert not other.probing
    assert min(counts.values()) >= 9
    assert max(counts.values()) <= 11
    assert [part.round for part in own.sent[:4]] == [(1 << 32) - 2, (1 << 32) - 1, 0, 1]
    assert abs(union(own)[address(0), 0] - counts[0]) <= 1
    assert abs(union(other)[address(0), 1] - counts[1]) <= 1
    assert abs(union(other)[address(0), 2] - counts[2]) <= 1
    assert not any(source != address(0) for source, _ in union(own) + union(other))
    assert other.sent == ()


def test_probes_are_control_packets_without_a_response() -> None:
    nic = Nic(make_config(0, 2, 2, 4), seed=1)
    nic.control.start_probing(plan(path(1)), 0)
    nic.tick(ROUND)
    frame = nic.transmit(0, ROUND)
    assert frame is not None
    prefix = read_prefix(frame, nic.config.settings.ev_order)
    assert prefix is not None
    assert frame[prefix.start] == opcodes.ENDPOINT_REQUEST
    assert (frame[15] >> 4 | (frame[14] & 15) << 4) >> 2 == nic.config.settings.dscp.control
    request = control.parse_endpoint_request(frame, prefix.start + 12)
    assert request.op == control.OP_PATH_PROBE
    other = Nic(make_config(1, 2, 2, 4), seed=2)
    arrived = bytearray(frame)
    arrived[0:6] = other.config.ports[0].mac
    arrived[38:54] = (0xFC000000 << 96 | 0x6001 << 80).to_bytes(16, "big")
    other.receive(0, bytes(arrived), 0)
    assert other.control.probe_report().arrived == (ProbesArrived(address(0), 0, 1),)
    assert other.transmit(0, 0) is None
    assert other.transmit(1, 0) is None
    stranger = Nic(make_config(1, 0, 2, 4), seed=2)  # knows no other NIC
    stranger.receive(0, bytes(arrived), 0)
    assert stranger.control.probe_report().arrived == ()
    assert stranger.nic_counters()["drop_unknown_peer"] == 1


def test_a_probe_on_a_port_without_link_counts_as_sent() -> None:
    world = World(2, 2, 4)
    world.set_port(0, 1, False)
    start(world, 0, plan(path(1, 0), path(1, 1)))
    world.run(5 * ROUND)
    counts = sent(world.nics[0].control.probe_report())
    arrived = union(world.nics[1].control.probe_report())
    assert counts[1] >= 4
    assert arrived[address(0), 0] >= 4
    assert (address(0), 1) not in arrived


def test_missed_probes_are_not_sent_after_a_pause() -> None:
    nic = Nic(make_config(0, 2, 1, 4), seed=1)
    nic.control.start_probing(plan(path(1), path(0)), 0)
    nic.tick(100 * ROUND)  # the process stood still
    assert nic.transmit(0, 100 * ROUND) is not None
    assert nic.transmit(0, 100 * ROUND) is None
    due = nic.wakeup()
    assert due is not None
    assert due >= 100 * ROUND + ROUND // 4


def test_stopping_clears_counts_and_a_new_plan_replaces_the_old() -> None:
    world = World(2, 1, 4)
    start(world, 0, plan(path(1)))
    world.run(2 * ROUND)
    start(world, 0, plan(path(0), first=7 << 16))
    world.run(3 * ROUND)
    report = world.nics[0].control.probe_report()
    assert {part.round >> 16 for part in report.sent} == {7}
    world.nics[0].control.stop_probing()
    world.run(3 * ROUND)
    assert world.nics[0].control.probe_report() == ProbeReport(False)


def test_uncollected_counts_are_bounded() -> None:
    nic = Nic(make_config(0, 2, 1, 4), seed=1)
    prober = nic.control.prober
    for number in range(MAX_ROUNDS + 10):
        assert prober.receive(address(1), 3, number)
    assert not prober.receive(address(1), MAX_PROBE_PATHS, 0)
    arrived = nic.control.probe_report().arrived
    assert len(arrived) == MAX_ROUNDS
    assert arrived[0].round == 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plan(), "1 to 4096 paths"),
        (lambda: ProbePlan((path(1),), 10), "1000000 ns or more"),
        (lambda: plan(path(1), first=1 << 32), "32 bits"),
        (lambda: plan(replace(path(1), outer=b"short")), "16 bytes"),
    ],
)
def test_invalid_plans_are_refused(make: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()  # type: ignore[operator]


def test_plans_with_missing_ports_or_formats_without_usids_are_refused() -> None:
    nic = Nic(make_config(0, 2, 2, 4), seed=1)
    with pytest.raises(InvalidArgumentError, match="ports 0 to 1 only"):
        nic.control.start_probing(plan(path(1, 2)), 0)
    config = replace(make_config(0, 2, 2, 4), settings=ProtocolSettings(ev_format=EvFormat.STRUCTURED))
    with pytest.raises(InvalidArgumentError, match="SRv6"):
        Nic(config, seed=1).control.start_probing(plan(path(1)), 0)


def test_plans_and_reports_survive_json_encoding() -> None:
    given = plan(path(0), path(1, 1, 3), first=5)
    assert from_json(ProbePlan, to_json(given)) == given
    report = ProbeReport(True, arrived=(ProbesArrived(address(1), 9, 1 << 4095 | 1),))
    assert from_json(ProbeReport, to_json(report)) == report
