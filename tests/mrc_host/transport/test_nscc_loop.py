"""NSCC in a closed loop with one bottleneck (tests/mrc_host/transport/bottleneck.py): fills it, shares it, yields."""

from __future__ import annotations

import pytest

from mrc_host.transport.nscc import Nscc, NsccParameters
from mrc_host.verbs_types import NsccProfile
from tests.mrc_host.transport.bottleneck import Bottleneck, Sender, bottleneck

RATE = 100_000_000_000
RTT = 12_000
MTU = 4096
SEED = 20260505
EMULATED = (1_000_000_000, 400_000)
LINES = [(RATE, RTT), EMULATED, (100_000_000, 4_000_000)]


def network(rate: int, rtt: int, share: float = 1.0, *, trimming: bool = True) -> Bottleneck:
    print(f"seed {SEED}")
    return bottleneck(int(rate * share), rtt, MTU, SEED, trimming=trimming)


def sender(rate: int, rtt: int, *, trimming: bool = True, profile: NsccProfile | None = None, start: int = 0) -> Sender:
    return Sender(Nscc(NsccParameters.for_line(rate, rtt, MTU, trimming, profile)), rate, start)


def shares(net: Bottleneck, rounds: int) -> list[float]:
    """Each sender's part of the bottleneck over so many base round trips from now."""
    before = [s.delivered for s in net.senders]
    start = net.now
    net.run(start + rounds * net.base_rtt)
    capacity = net.rate_bps * rounds * net.base_rtt / 8e9
    return [(s.delivered - b) / capacity for s, b in zip(net.senders, before, strict=True)]


@pytest.mark.parametrize(("rate", "rtt"), LINES)
def test_a_single_flow_fills_its_link_without_a_queue(rate: int, rtt: int) -> None:
    net = network(rate, rtt)
    flow = net.add(sender(rate, rtt))
    net.run(20 * rtt)
    assert shares(net, 100)[0] > 0.98
    assert net.mean_delay(20 * rtt) < 0.05 * rtt
    assert flow.trimmed == 0


@pytest.mark.parametrize(("rate", "rtt"), LINES)
@pytest.mark.parametrize("trimming", [True, False])
def test_a_bottleneck_is_full_with_its_queue_near_target(rate: int, rtt: int, trimming: bool) -> None:
    net = network(rate, rtt, 0.5, trimming=trimming)
    net.add(sender(rate, rtt, trimming=trimming))
    net.run(200 * rtt)
    assert shares(net, 200)[0] > 0.98
    target = 0.75 if trimming else 1.0
    assert net.mean_delay(200 * rtt) == pytest.approx(target * rtt, rel=0.15)


# The emulated line's BDP is 12 packets, so that the marks of single packets weigh more.
@pytest.mark.parametrize(("rate", "rtt", "apart"), [(RATE, RTT, 0.1), (*EMULATED, 0.15)])
@pytest.mark.parametrize("count", [2, 7])
@pytest.mark.parametrize("trimming", [True, False])
def test_senders_share_equally_over_time(rate: int, rtt: int, apart: float, count: int, trimming: bool) -> None:
    net = network(rate, rtt, trimming=trimming)
    for _ in range(count):
        net.add(sender(rate, rtt, trimming=trimming))
    net.run(400 * rtt)
    got = shares(net, 1600)
    print([round(share * count, 3) for share in got])
    assert sum(got) > 0.98
    assert got == pytest.approx([1 / count] * count, rel=apart)
    assert sum(got) ** 2 / (count * sum(share * share for share in got)) > 0.99  # Jain's index
    target = 0.75 if trimming else 1.0
    assert net.mean_delay(400 * rtt) == pytest.approx(target * rtt, rel=0.15)


@pytest.mark.parametrize(("rate", "rtt"), LINES)
def test_new_flows_get_their_share_from_one_that_had_all(rate: int, rtt: int) -> None:
    net = network(rate, rtt)
    net.add(sender(rate, rtt))
    net.run(100 * rtt)
    for _ in range(3):
        net.add(sender(rate, rtt, start=net.now))
    net.run(net.now + 300 * rtt)
    got = shares(net, 200)
    print(got)
    assert all(share == pytest.approx(0.25, rel=0.3) for share in got)


@pytest.mark.parametrize(("rate", "rtt"), LINES)
def test_freed_capacity_is_used_within_a_few_rtts(rate: int, rtt: int) -> None:
    net = network(rate, rtt)
    net.add(sender(rate, rtt))
    for _ in range(6):
        net.add(sender(rate, rtt)).stop = 300 * rtt
    net.run(300 * rtt)
    assert net.senders[0].cc.cwnd < 0.5 * RATE * RTT / 8e9
    shares(net, 12)
    assert shares(net, 50)[0] > 0.97


@pytest.mark.parametrize("trimming", [True, False])
@pytest.mark.parametrize("count", [16, 32])
def test_an_incast_of_full_windows_converges_within_a_few_rtts(count: int, trimming: bool) -> None:
    net = network(RATE, RTT, trimming=trimming)
    flows = [net.add(sender(RATE, RTT, trimming=trimming)) for _ in range(count)]
    bdp = RATE * RTT / 8e9
    assert sum(flow.cc.cwnd for flow in flows) == pytest.approx(1.5 * bdp * count)
    net.run(12 * RTT)
    print([flow.cc.cwnd for flow in flows], sum(f.trimmed for f in flows), sum(f.lost for f in flows))
    assert sum(flow.cc.cwnd for flow in flows) < 4 * bdp
    net.run(200 * RTT)
    hurt = sum(flow.trimmed + flow.lost for flow in flows)
    got = shares(net, 200)
    assert sum(got) > 0.98
    # One packet a sender is the least, which is nearly the BDP by itself at 32 senders.
    again = sum(flow.trimmed + flow.lost for flow in flows) - hurt
    assert again < 0.02 * net.passed / MTU
    assert net.mean_delay(200 * RTT) < 1.5 * RTT


@pytest.mark.parametrize("count", [7, 30])
def test_an_unmarked_incast_trims_little_in_steady_state(count: int) -> None:
    """The last hop to a NIC does not mark, so that trims alone bound its incast (docs/congestion.md)."""
    net = network(RATE, RTT)
    net.mark_from, net.mark_full = 1 << 40, 1 << 41
    flows = [net.add(sender(RATE, RTT, start=i * 13)) for i in range(count)]
    net.run(60 * RTT)
    before = sum(flow.trimmed for flow in flows)
    assert sum(shares(net, 200)) > 0.98
    trimmed = (sum(flow.trimmed for flow in flows) - before) / (200 * RATE * RTT / 8e9 / MTU)
    print(trimmed)
    # Two flows in three have a trim in a period of 1.75 round trips, in which 64 packets pass: 0.011 a flow.
    assert trimmed < 0.022 * count


def test_quick_adaptation_reduces_windows_sooner_in_a_deep_queue() -> None:
    windows = {}
    for disable in (False, True):
        net = network(RATE, RTT, trimming=False)
        net.limit = 20 * net.limit
        for _ in range(128):
            net.add(sender(RATE, RTT, trimming=False, profile=NsccProfile(disable_qa=disable)))
        net.run(12 * RTT)
        windows[disable] = sum(flow.cc.cwnd for flow in net.senders)
    print(windows)
    assert windows[False] < 0.5 * windows[True]


def test_a_time_stretched_network_behaves_like_the_fast_one() -> None:
    """Same bandwidth-delay product, a hundred times as slow: the emulated run is the real one slowed down."""
    fast, slow = (10_000_000_000, 40_000), (100_000_000, 4_000_000)
    runs = []
    for rate, rtt in (fast, slow):
        net = network(rate, rtt)
        for _ in range(4):
            net.add(sender(rate, rtt))
        net.run(100 * rtt)
        runs.append((shares(net, 400), net.mean_delay(100 * rtt) / rtt))
    print(runs)
    assert runs[0][0] == pytest.approx(runs[1][0], rel=0.15)
    assert runs[0][1] == pytest.approx(runs[1][1], rel=0.05)


def test_without_the_stretched_reference_rtt_a_slow_network_is_overloaded() -> None:
    """Why `reference_rtt` follows the base RTT: the literal formula loses many times more packets."""
    rate, rtt = EMULATED
    lost = []
    for reference in (None, 12_000):
        net = network(rate, rtt, trimming=False)
        for _ in range(7):
            net.add(sender(rate, rtt, trimming=False, profile=NsccProfile(reference_rtt=reference)))
        net.run(400 * rtt)
        lost.append(sum(flow.lost for flow in net.senders))
    print(lost)
    assert lost[1] > 5 * lost[0]
