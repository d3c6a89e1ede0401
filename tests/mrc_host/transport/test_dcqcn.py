"""DCQCN: scaled parameters, each rule of the reaction point, CNP generation, and a closed loop with one bottleneck."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.dcqcn import CnpGenerator, Dcqcn, DcqcnParameters
from mrc_host.verbs_types import DcqcnProfile
from tests.mrc_host.transport.bottleneck import Bottleneck, Sender

LINE = 40_000_000_000
WINDOW = 1 << 30
PUBLISHED = DcqcnProfile(constants="sigcomm2015")
P = DcqcnParameters.for_line(LINE, PUBLISHED)
TIMER = P.increase_interval
SEED = 20150817


# ---- parameters ----


def test_parameters_at_40_gbps_are_the_published_ones() -> None:
    assert (P.additive_rate, P.hyper_rate, P.increase_bytes) == (40_000_000, 400_000_000, 10_000_000)
    assert (P.increase_interval, P.alpha_interval, P.cnp_interval) == (55_000, 55_000, 50_000)
    assert (P.gain, P.fast_steps) == (1 / 256, 5)


def test_on_a_faster_link_rates_and_bytes_scale_but_not_times() -> None:
    p = DcqcnParameters.for_line(10 * LINE, PUBLISHED)
    assert (p.additive_rate, p.hyper_rate, p.increase_bytes) == (400_000_000, 4_000_000_000, 100_000_000)
    assert (p.increase_interval, p.cnp_interval) == (55_000, 50_000)


@pytest.mark.parametrize("rate", [100_000_000, 1_000_000_000, 10_000_000_000])
def test_on_a_slower_link_times_are_stretched(rate: int) -> None:
    p = DcqcnParameters.for_line(rate, PUBLISHED)
    assert p.additive_rate / rate == pytest.approx(P.additive_rate / LINE)
    assert p.cnp_interval * rate == pytest.approx(P.cnp_interval * LINE)
    assert p.increase_interval * rate == pytest.approx(P.increase_interval * LINE)
    assert p.increase_bytes == P.increase_bytes


VENDOR = DcqcnProfile(
    min_rate=1_000_000, additive_rate=5_000_000, hyper_rate=50_000_000, increase_bytes=32_767,
    increase_interval=300_000, alpha_interval=1_000, cnp_interval=4_000, gain=5 / 1024, fast_steps=1, keep_target=True,
)  # fmt: skip


def test_profile_values_are_used_unscaled_at_any_rate() -> None:
    p = DcqcnParameters.for_line(LINE // 10, VENDOR)
    assert (p.additive_rate, p.increase_bytes, p.alpha_interval, p.cnp_interval) == (5_000_000, 32_767, 1_000, 4_000)
    assert p.line_rate == LINE // 10


@pytest.mark.parametrize("rate", [LINE, 10 * LINE, 20 * LINE])
def test_the_default_is_what_connectx_has_at_any_rate(rate: int) -> None:
    """NVIDIA's DCQCN CC Parameters; a NIC's firmware settings do not depend on its line."""
    assert DcqcnParameters.for_line(rate) == DcqcnParameters.for_line(rate, VENDOR)


def test_on_a_slower_link_the_defaults_cover_as_many_packets() -> None:
    p, at_40 = DcqcnParameters.for_line(LINE // 40), DcqcnParameters.for_line(LINE)
    assert p.additive_rate == at_40.additive_rate // 40
    assert p.increase_bytes == at_40.increase_bytes
    assert (p.alpha_interval, p.cnp_interval) == (40 * at_40.alpha_interval, 40 * at_40.cnp_interval)


def test_unknown_constants_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match="only connectx, sigcomm2015"):
        DcqcnParameters.for_line(LINE, DcqcnProfile(constants="connectx7"))


def test_keeping_the_target_rate_recovers_consecutive_cuts_at_once() -> None:
    """Three notifications, then bytes: the kept target is line rate still, the other one a quarter of it."""
    rates = []
    for keep in (True, False):
        cc = Dcqcn(DcqcnParameters.for_line(LINE, replace(VENDOR, keep_target=keep)), WINDOW)
        for now in (0, 4_000, 8_000):
            cc.on_cnp(now)
        assert cc.rate < LINE / 6
        cc.on_send(32_767, 8_000)
        rates.append(cc.rate)
    assert rates[0] > LINE / 2
    assert rates[1] < LINE / 4


def test_the_target_rate_is_not_kept_after_the_rate_has_grown() -> None:
    cc = Dcqcn(DcqcnParameters.for_line(LINE, VENDOR), WINDOW)
    cc.on_cnp(0)
    cc.on_send(32_767, 0)
    grown = cc.rate
    cc.on_cnp(4_000)
    assert cc.target == grown < LINE


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"min_rate": 0}, "min_rate"),
        ({"line_rate": 1}, "line_rate"),
        ({"gain": 0.0}, "gain"),
        ({"gain": float("nan")}, "gain"),
        ({"burst": -1}, "burst"),
        ({"alpha_interval": 0}, "alpha_interval"),
        ({"additive_rate": 1}, "additive_rate"),
    ],
)
def test_values_out_of_range_are_named(change: dict[str, float], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        replace(P, **change)  # type: ignore[arg-type]


def test_links_need_a_rate() -> None:
    with pytest.raises(InvalidArgumentError, match="line rate"):
        DcqcnParameters.for_line(0)


# ---- reaction point ----


def test_it_starts_at_line_rate_without_pacing() -> None:
    cc = Dcqcn(P, WINDOW)
    for now in range(0, 10_000, 100):
        assert cc.earliest_send(now) <= now
        cc.on_send(4096, now)
    assert (cc.rate, cc.cwnd) == (LINE, WINDOW)


@pytest.mark.parametrize("first", [0, 10**15])
def test_the_first_notification_halves_the_rate_whenever_it_comes(first: int) -> None:
    cc = Dcqcn(P, WINDOW)
    cc.earliest_send(first)
    cc.on_cnp(first)
    assert cc.rate == LINE // 2
    assert cc.target == LINE
    assert cc.alpha == 1.0


def test_without_cnps_alpha_decays_and_cuts_shrink() -> None:
    cc = Dcqcn(P, WINDOW)
    cc.on_cnp(0)
    after = 100 * P.alpha_interval
    cc.on_cnp(after)
    decayed = (1 - P.gain) ** 100
    assert cc.alpha == pytest.approx((1 - P.gain) * decayed + P.gain)
    assert cc.rate == pytest.approx(cc.target * (1 - decayed / 2), rel=1e-6)


def test_fast_recovery_halves_the_distance_at_each_timer() -> None:
    cc = Dcqcn(P, WINDOW)
    cc.on_cnp(0)
    for step in range(1, 6):
        cc.earliest_send(step * TIMER - 1)
        before = cc.rate
        cc.earliest_send(step * TIMER)
        assert cc.rate == pytest.approx((before + LINE) / 2, abs=1)


def test_the_byte_counter_also_triggers_increase_steps() -> None:
    p = replace(P, increase_bytes=10_000)
    cc = Dcqcn(p, WINDOW)
    cc.on_cnp(0)
    cc.on_send(9_999, 1)
    assert cc.rate == LINE // 2
    cc.on_send(1, 2)
    assert cc.rate == LINE * 3 // 4
    cc.on_send(20_000, 3)
    assert cc.rate == LINE * 15 // 16


def _throttled(p: DcqcnParameters, now: int = 0) -> Dcqcn:
    """A flow at the minimum rate, its target there too, counters fresh."""
    cc = Dcqcn(p, WINDOW)
    for _ in range(60):
        cc.on_cnp(now)
    assert cc.rate <= cc.target <= 2 * p.min_rate
    return cc


def test_additive_increase_after_fast_recovery_by_timer_alone() -> None:
    cc = _throttled(P)
    cc.earliest_send(5 * TIMER)
    start = cc.target
    cc.earliest_send(15 * TIMER)
    assert cc.target == start + 10 * P.additive_rate


def test_hyper_increase_begins_once_timer_and_byte_counter_passed_the_threshold() -> None:
    p = replace(P, increase_bytes=1_000)
    cc = _throttled(p)
    cc.on_send(8_000, 1)
    assert cc.target <= 2 * p.min_rate + 3 * p.additive_rate
    cc.earliest_send(5 * TIMER)
    before = cc.target
    cc.earliest_send(6 * TIMER)
    assert cc.target == before + p.hyper_rate
    cc.earliest_send(7 * TIMER)
    assert cc.target == before + 3 * p.hyper_rate


def test_a_cnp_restarts_fast_recovery() -> None:
    cc = _throttled(P)
    cc.earliest_send(8 * TIMER)
    cc.on_cnp(8 * TIMER + 10)
    target = cc.target
    cc.earliest_send(8 * TIMER + 10 + 5 * TIMER)
    assert cc.target == target
    cc.earliest_send(8 * TIMER + 10 + 6 * TIMER)
    assert cc.target == target + P.additive_rate


def test_an_idle_flow_returns_to_line_rate() -> None:
    cc = _throttled(P)
    assert cc.earliest_send(10**12) <= 10**12
    assert cc.rate == LINE


def test_querying_the_rate_does_not_change_it() -> None:
    seldom, often = _throttled(P), _throttled(P)
    for now in range(0, 40 * TIMER, 777):
        often.earliest_send(now)
    for cc in (seldom, often):
        cc.on_cnp(40 * TIMER)
    assert (seldom.rate, seldom.target) == (often.rate, often.target)
    assert seldom.alpha == pytest.approx(often.alpha)


@pytest.mark.parametrize("burst", [0, 16_384])
@pytest.mark.parametrize("late", [0, 3_000])
def test_pacing_keeps_the_rate_even_when_woken_late(burst: int, late: int) -> None:
    p = replace(P, burst=burst, increase_interval=10**15, increase_bytes=10**15)
    cc = Dcqcn(p, WINDOW)
    cc.on_cnp(0)
    cc.on_cnp(0)
    rate = cc.rate
    now, sent = 0, 0
    while now < 10_000_000:
        at = cc.earliest_send(now)
        if at > now:
            now = at + late
            continue
        cc.on_send(4096, now)
        sent += 4096
    achieved = sent * 8e9 / now
    assert achieved <= 1.01 * rate
    if burst or not late:
        assert achieved > 0.99 * rate


def test_the_pacing_delay_is_exact() -> None:
    p = replace(P, burst=0, increase_interval=10**15)
    cc = Dcqcn(p, WINDOW)
    cc.on_cnp(0)
    cc.on_send(4096, 100)
    at = cc.earliest_send(100)
    assert at == pytest.approx(100 + 4096 * 8 * 1e9 / (LINE / 2), abs=2)
    assert cc.earliest_send(at - 10) > at - 10
    assert cc.earliest_send(at) <= at


_action = st.one_of(
    st.tuples(st.just("cnp"), st.just(0)),
    st.tuples(st.just("send"), st.integers(1, 1 << 17)),
    st.tuples(st.just("ask"), st.just(0)),
)


@given(
    st.integers(1_000_000, 10**12),
    st.integers(1, 1 << 25),
    st.lists(st.tuples(st.one_of(st.integers(0, 10**5), st.integers(0, 10**12)), _action), max_size=40),
)
def test_the_rate_stays_in_bounds_and_pacing_delays_are_finite(
    line: int, increase_bytes: int, steps: list[tuple[int, tuple[str, int]]]
) -> None:
    p = replace(DcqcnParameters.for_line(line), increase_bytes=increase_bytes)
    cc = Dcqcn(p, WINDOW)
    now = 0
    for gap, (kind, size) in steps:
        now += gap
        if kind == "cnp":
            cc.on_cnp(now)
        elif kind == "send":
            now = max(now, cc.earliest_send(now))
            assert cc.earliest_send(now) <= now + 1
            cc.on_send(size, now)
        else:
            assert cc.earliest_send(now) - now <= size + (1 << 18) * 8 * 10**9 // p.min_rate
        assert p.min_rate <= cc.rate <= p.line_rate
        assert cc.target <= p.line_rate
        assert 0 <= cc.alpha <= 1


# ---- notification point ----


def test_at_most_one_cnp_per_interval_and_only_for_marks() -> None:
    cnp = CnpGenerator(50_000)
    assert not cnp.on_packet(False, 0)
    assert cnp.on_packet(True, 0)
    assert not any(cnp.on_packet(True, now) for now in range(1, 50_000, 1_000))
    assert not cnp.on_packet(False, 50_000)
    assert cnp.on_packet(True, 50_001)
    assert not cnp.on_packet(True, 100_000)
    assert cnp.on_packet(True, 100_001)


def test_an_empty_cnp_interval_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="interval"):
        CnpGenerator(0)


# ---- closed loop ----


@pytest.mark.parametrize(("rate", "rtt"), [(LINE, 10_000), (1_000_000_000, 400_000)])
def test_flows_fill_a_bottleneck_and_share_it(rate: int, rtt: int) -> None:
    """With the paper's marking (5 KB, 200 KB, 1 %): full link, queue between the thresholds, near equal rates."""
    print(f"seed {SEED}")
    p = DcqcnParameters.for_line(rate, PUBLISHED)
    net = Bottleneck(rate, rtt, 4096, SEED, 8_192, 200_000, 1 << 40, mark_max=0.01, trimming=False)
    flows = [net.add(Sender(Dcqcn(p, WINDOW), rate, cnp=CnpGenerator(p.cnp_interval))) for _ in range(2)]
    settled = 800 * p.increase_interval
    net.run(settled)
    before = [flow.delivered for flow in flows]
    net.run(2 * settled)
    got = [(flow.delivered - b) * 8e9 / rate / settled for flow, b in zip(flows, before, strict=True)]
    print(got, net.mean_delay(settled) * rate / 8e9)
    assert sum(got) > 0.97
    assert got == pytest.approx([0.5, 0.5], rel=0.15)
    assert net.mean_delay(settled) * rate / 8e9 < 100_000


def test_a_remaining_single_flow_returns_to_line_rate() -> None:
    print(f"seed {SEED}")
    net = Bottleneck(LINE, 10_000, 4096, SEED, 8_192, 200_000, 1 << 40, mark_max=0.01, trimming=False)
    flows = [net.add(Sender(Dcqcn(P, WINDOW), LINE, cnp=CnpGenerator(P.cnp_interval))) for _ in range(4)]
    for flow in flows[1:]:
        flow.stop = 200 * TIMER
    net.run(200 * TIMER)
    assert flows[0].cc.rate < 0.6 * LINE  # type: ignore[attr-defined]
    net.run(1000 * TIMER)
    before = flows[0].delivered
    net.run(1100 * TIMER)
    assert (flows[0].delivered - before) * 8e9 / LINE / (100 * TIMER) > 0.95
