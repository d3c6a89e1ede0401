"""Counters for operators: the table is what is read, each event is counted where it happens, nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from mrc_host.config import TransportSettings
from mrc_host.counters import COUNTERS, RTT_BUCKETS, Level, at_level, rtt_name
from mrc_host.nic import Nic
from mrc_host.verbs_types import Access, QpAttributes, QpState, QpType
from mrc_host.wire import control
from mrc_host.wire.headers import NAK_REMOTE_ACCESS
from scripts.counters_page import PAGE, page
from tests.mrc_host.nic_world import MS, US, End, Faults, World, connect
from tests.mrc_host.transport.far_end import FIRST_OUT, WIDE, FarEnd

GAUGES = {level: {info.name for info in at_level(level) if info.gauge} for level in Level}


def of(end: End) -> dict[str, int]:
    return end.nic.hw_counters(end.qpn, end.world.now)


def of_nic(nic: Nic, now: int) -> dict[str, int]:
    return {name: value for name, value in nic.hw_counters(None, now).items() if name not in GAUGES[Level.NIC]}


def fell(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    return {name: (value, after[name]) for name, value in before.items() if after[name] < value}


# ---- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", Level)
def test_counter_names_are_unique_and_documented(level: Level) -> None:
    names = [info.name for info in at_level(level)]
    assert len(names) == len(set(names))
    for info in at_level(level):
        assert info.name == info.name.lower()
        assert " " not in info.name
        assert info.meaning.endswith(".")
        assert info.unit


@pytest.mark.parametrize("kind", QpType)
def test_counters_read_match_the_table(kind: QpType) -> None:
    world = World()
    a, b = connect(world, kind=kind)
    a.write(b, 100_000)
    assert world.run(50 * MS, until=lambda: bool(a.poll()))
    names = {level: {info.name for info in at_level(level)} for level in Level}
    assert set(of(a)) == names[Level.QP]
    assert set(a.nic.hw_counters(None, world.now)) == names[Level.NIC]
    assert all(set(port) == names[Level.PORT] for port in a.nic.port_counters())
    a.nic.modify_qp(a.qpn, QpState.RESET, world.now)
    assert set(of(a)) == names[Level.QP]


def test_nic_counters_sum_every_queue_pair_counter() -> None:
    for info in COUNTERS:
        if Level.QP in info.levels and not info.gauge:
            assert Level.NIC in info.levels, info.name


def test_the_counters_page_matches_the_table() -> None:
    assert PAGE.read_text() == page(), "run python -m scripts.counters_page"


# ---- totals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["reset", "error", "destroy"])
def test_destroying_a_queue_pair_keeps_the_nics_totals(end: str) -> None:
    world = World(transport=TransportSettings(base_rtt=30 * US, assumed_rate=4_000_000_000), faults=Faults(loss=0.02))
    pairs = [connect(world) for _ in range(3)]
    for a, b in pairs:
        a.write(b, 1 << 19)
    assert world.run(300 * MS, until=lambda: all(a.done or a.poll() for a, _ in pairs))
    for a, b in pairs:
        for one in (a, b):
            before = of_nic(one.nic, world.now)
            own = of(one)
            if end == "destroy":
                one.nic.destroy_qp(one.qpn, world.now)
            else:
                one.nic.modify_qp(one.qpn, QpState.RESET if end == "reset" else QpState.ERROR, world.now)
                assert not fell({n: v for n, v in own.items() if n not in GAUGES[Level.QP]}, of(one))
            assert not fell(before, of_nic(one.nic, world.now))
    total = of_nic(world.nics[0], world.now)
    assert total["tx_data_packets"] == 3 * 128
    assert total["bytes_completed"] == 3 << 19
    assert total["tx_retransmitted_packets"] > 0
    assert world.nics[0].hw_counters(None, world.now)["queue_pairs"] == (0 if end == "destroy" else 3)


def test_totals_include_destroyed_queue_pairs() -> None:
    world = World()
    pairs = [connect(world) for _ in range(4)]
    for number, (a, b) in enumerate(pairs):
        a.write(b, 4096 * (number + 1))
    assert world.run(50 * MS, until=lambda: all(a.done or a.poll() for a, _ in pairs))
    gone = of(pairs[0][0])
    pairs[0][0].nic.destroy_qp(pairs[0][0].qpn, world.now)
    total = world.nics[0].hw_counters(None, world.now)
    for name in gone:
        if name in GAUGES[Level.QP]:
            continue
        assert total[name] == gone[name] + sum(of(a)[name] for a, _ in pairs[1:]), name


@pytest.mark.parametrize("seed", range(6))
def test_counters_never_decrease(seed: int) -> None:
    chance = random.Random(seed)
    settings = TransportSettings(base_rtt=30 * US, assumed_rate=4_000_000_000, bitmap_range=1, always_skip_marks=3)
    world = World(
        seed=seed,
        transport=settings,
        faults=Faults(seed=seed, loss=0.03, duplicate=0.02, mark=0.2, trim=0.05, delay=0.1, extra=40 * US),
    )
    ends = [connect(world, kind=QpType.RC if n == 3 else QpType.MRC, far_capacity=2) for n in range(4)]
    last = [of_nic(nic, world.now) for nic in world.nics]
    ports = [nic.port_counters() for nic in world.nics]
    for _ in range(40):
        a, b = chance.choice(ends)
        deed = chance.choice(["write", "write", "imm", "poll", "port", "reset"])
        if deed == "reset" and a.nic.qp_state(a.qpn) is not QpState.RESET and chance.random() < 0.3:
            a.nic.modify_qp(a.qpn, QpState.RESET, world.now)
        elif deed == "port":
            world.set_port(0, 1, not world.up[0][1])
        elif deed == "poll":
            a.poll(), b.poll()
        elif a.nic.qp_state(a.qpn) is QpState.RTS:
            a.write(b, chance.randrange(1, 60_000), imm=7 if deed == "imm" else None)
        world.run(chance.randrange(1, 500) * US)
        for number, nic in enumerate(world.nics):
            now = of_nic(nic, world.now)
            assert not fell(last[number], now), seed
            last[number] = now
            for before, after in zip(ports[number], nic.port_counters(), strict=True):
                assert not fell({n: v for n, v in before.items() if n not in GAUGES[Level.PORT]}, after), seed
            ports[number] = nic.port_counters()


# ---- each event ------------------------------------------------------------------------------------------------------


def test_sacks_nacks_and_acks_are_counted_separately_and_nacks_by_reason() -> None:
    end = FarEnd(attributes=WIDE)
    end.write(4 * 4096)
    sent = sorted(end.data(), key=lambda p: p.psn)
    for packet, reason in zip(sent, (control.NACK_TRIMMED, control.NACK_NO_BITMAP, control.NACK_TRIMMED), strict=False):
        end.nack(packet, reason)
    end.sack(3, of=sent[3], mark=control.MARK_ALWAYS_SKIP)
    end.ack(1)
    end.probe(5)
    end.segment(0, dscp=12, cut=36)
    end.segment(1, dscp=16, cut=36)
    end.segment(2, dscp=16, cut=36)
    end.segment(0, 5, ecn=3, imm=1)
    end.segment(0, 5, ecn=3, imm=1)
    end.drain()
    seen = end.nic.hw_counters(end.qpn, end.now)
    assert (seen["rx_nacks"], seen["rx_nack_trimmed"], seen["rx_nack_no_bitmap"]) == (3, 2, 1)
    assert seen["packet_seq_err"] == 3
    assert (seen["rx_sacks"], seen["rx_acks"], seen["rp_ecn_marks_handled"]) == (1, 1, 1)
    assert (seen["rx_trimmed_packets"], seen["rx_trimmed_lasthop_packets"]) == (1, 2)
    assert (seen["tx_nack_trimmed"], seen["tx_nack_trimmed_lasthop"], seen["tx_nacks"]) == (1, 2, 3)
    assert (seen["np_ecn_marked_roce_packets"], seen["duplicate_request"]) == (2, 1)
    assert (seen["rx_reliability_probes"], seen["rx_write_requests"]) == (1, 1)
    assert seen["tx_sacks"] >= 2
    assert seen["tx_acks"] >= 1


def test_round_trips_are_counted_in_power_of_two_bins() -> None:
    assert [rtt_name(n) for n in (0, 1, 2, RTT_BUCKETS - 1)] == [
        "rtt_lt_1us", "rtt_lt_2us", "rtt_lt_4us", "rtt_ge_4194304us",
    ]  # fmt: skip
    end = FarEnd(attributes=WIDE)
    end.write(3 * 4096)
    sent = sorted(end.data(), key=lambda p: p.psn)
    times = (999, 1_000, 40_000)
    for number, (packet, time) in enumerate(zip(sent, times, strict=True)):
        end.now = packet.time + time
        end.sack(number, of=packet)
    seen = end.nic.hw_counters(end.qpn, end.now)
    assert {name: n for name, n in seen.items() if name.startswith("rtt_") and n} == {
        "rtt_lt_1us": 1, "rtt_lt_2us": 1, "rtt_lt_64us": 1, "rtt_samples": 3, "rtt_sum_ns": sum(times),
    }  # fmt: skip


def test_window_limited_time_is_counted_until_data_is_sent() -> None:
    end = FarEnd(attributes=QpAttributes(congestion_window=2 * 4352))
    end.write(8 * 4096)
    sent = sorted(end.data(), key=lambda p: p.psn)
    assert len(sent) == 2
    end.pass_time(300 * US)
    assert end.nic.hw_counters(end.qpn, end.now)["tx_stalled_window_ns"] == 300 * US, "also while it lasts"
    end.pass_time(100 * US)
    end.sack(1, of=sent[1])
    end.data()
    end.pass_time(50 * US)
    end.sack(3)
    end.data()
    stalled = end.nic.hw_counters(end.qpn, end.now)
    assert stalled["tx_stalled_window_ns"] == 450 * US
    assert stalled["tx_stalled_peer_ns"] == stalled["tx_stalled_paths_ns"] == 0


def test_time_is_not_counted_when_there_is_nothing_to_send() -> None:
    end = FarEnd(attributes=QpAttributes(congestion_window=2 * 4352))
    end.write(2 * 4096)
    end.data()
    end.pass_time(10 * MS)
    seen = end.nic.hw_counters(end.qpn, end.now)
    assert [seen[f"tx_stalled_{kind}_ns"] for kind in ("window", "peer", "paths")] == [0, 0, 0]


def test_peer_limited_time_is_counted() -> None:
    end = FarEnd(attributes=QpAttributes(mpr_dest=1, congestion_window=1 << 30), size=1 << 20)
    end.write(1 << 20)
    end.data()
    end.pass_time(70 * US)
    assert end.nic.hw_counters(end.qpn, end.now)["tx_stalled_peer_ns"] == 70 * US
    few = FarEnd(attributes=QpAttributes(max_wimm_dest=1))
    few.write(10, imm=1)
    few.write(10, imm=2)
    few.data()
    few.pass_time(40 * US)
    assert few.nic.hw_counters(few.qpn, few.now)["tx_stalled_peer_ns"] == 40 * US


def test_time_without_a_usable_port_counts_as_path_limited() -> None:
    end = FarEnd(attributes=WIDE)
    end.write(4096)
    for port in (0, 1):
        end.nic.port_changed(port, False, end.now)
    end.drain()
    end.pass_time(60 * US)
    assert end.nic.hw_counters(end.qpn, end.now)["tx_stalled_paths_ns"] == 60 * US
    end.nic.port_changed(1, True, end.now)
    end.data()
    assert [(p["link_downed"], p["link_recovered"], p["link_up"]) for p in end.nic.port_counters()] == [
        (1, 0, 0),
        (1, 1, 1),
    ]
    end.pass_time(MS)
    assert end.nic.hw_counters(end.qpn, end.now)["tx_stalled_paths_ns"] == 60 * US


@pytest.mark.parametrize("kind", [QpType.MRC])
def test_receive_queue_full_time_is_counted(kind: QpType) -> None:
    world = World()
    a, b = connect(world, kind=kind, far_capacity=1)
    for number in range(3):
        a.write(b, 4096, imm=number)
    world.run(2 * MS)
    first = of(b)
    assert first["cq_full_events"] == 1
    world.run(3 * MS)
    assert of(b)["cq_full_ns"] == first["cq_full_ns"] + 3 * MS
    while len(b.done) < 3:
        b.poll()
        world.run(100 * US)
    done = of(b)["cq_full_ns"]
    world.run(5 * MS)
    assert of(b)["cq_full_ns"] == done


@pytest.mark.parametrize("kind", QpType)
def test_access_errors_are_counted_at_both_ends(kind: QpType) -> None:
    world = World()
    a, b = connect(world, kind=kind, rights=Access.LOCAL_WRITE)
    a.write(b, 4096)
    assert world.run(50 * MS, until=lambda: bool(a.poll()))
    assert of(a)["req_remote_access_errors"] == 1
    assert of(b)["resp_remote_access_errors"] == 1
    assert of(a)["retry_exceeded_err"] == 0


@pytest.mark.parametrize("kind", QpType)
def test_a_refused_operation_is_counted_at_both_ends(kind: QpType) -> None:
    world = World()
    a, b = connect(world, kind=kind, attributes=QpAttributes(remote_write=False))
    a.write(b, 4096)
    assert world.run(50 * MS, until=lambda: bool(a.poll()))
    assert of(a)["req_remote_operation_errors"] == of(b)["resp_remote_operation_errors"] == 1
    assert of(a)["req_remote_access_errors"] == of(b)["resp_remote_access_errors"] == 0


@pytest.mark.parametrize("kind", QpType)
def test_timeouts_and_exhausted_retries_are_counted(kind: QpType) -> None:
    world = World()
    a, b = connect(world, kind=kind, attributes=QpAttributes(timeout=6, retry_count=2))
    world.faults.dead_planes |= {0, 1}
    a.write(b, 4096)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))
    assert of(a)["local_ack_timeout_err"] >= 3
    assert of(a)["retry_exceeded_err"] == of_nic(a.nic, world.now)["retry_exceeded_err"] == 1


def test_cnps_and_ecn_marks_of_rc_are_counted() -> None:
    world = World(transport=TransportSettings(rc_congestion="dcqcn"), faults=Faults(mark=1.0))
    a, b = connect(world, kind=QpType.RC)
    a.write(b, 1 << 18)
    assert world.run(500 * MS, until=lambda: bool(a.poll()))
    near, far = of(a), of(b)
    assert far["np_ecn_marked_roce_packets"] == far["rx_data_packets"] + far["duplicate_request"] == 64
    assert far["np_cnp_sent"] == near["rp_cnp_handled"] > 0


def test_window_and_path_counts_are_gauges() -> None:
    end = FarEnd(transport=TransportSettings(base_rtt=60 * US, assumed_rate=10_000_000_000), size=1 << 20)
    end.write(8 * 4096)
    sent = sorted(end.data(), key=lambda p: p.psn)
    gauges = end.nic.hw_counters(end.qpn, end.now)
    assert gauges["inflight_bytes"] == gauges["cwnd_used_bytes"] == 8 * 4352
    assert gauges["cwnd_bytes"] == 225_000
    assert gauges["base_rtt_ns"] == 60 * US
    assert gauges["paths_good"] == 8
    end.sack(sent[0].psn - FIRST_OUT, of=sent[0], mark=control.MARK_ALWAYS_SKIP)
    gauges = end.nic.hw_counters(end.qpn, end.now)
    assert (gauges["paths_good"], gauges["paths_assumed_bad"]) == (7, 1)
    assert [port["paths_assumed_bad"] for port in end.nic.port_counters()].count(1) == 1
    end.ack(0, NAK_REMOTE_ACCESS)
    gauges = end.nic.hw_counters(end.qpn, end.now)
    assert gauges["inflight_bytes"] == 0
    assert gauges["req_remote_access_errors"] == 1


def test_plane_counters_sum_to_the_nics() -> None:
    world = World(faults=Faults(loss=0.03))
    a, b = connect(world)
    a.write(b, 1 << 20)
    assert world.run(300 * MS, until=lambda: bool(a.poll()))
    total, ports = a.nic.hw_counters(None, world.now), a.nic.port_counters()

    def summed(name: str) -> Any:
        return sum(port[name] for port in ports)

    for name in ("rx_frames", "rx_bytes", "tx_frames", "tx_bytes"):
        assert summed(name) == total[name] > 0
    assert summed("tx_plane_retransmitted_packets") == total["tx_retransmitted_packets"] > 0
    assert summed("tx_plane_lost_packets") == total["tx_lost_packets"] > 0
    assert summed("paths") == 8
