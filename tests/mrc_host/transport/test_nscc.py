"""NSCC: derived parameters, each rule on its own, bounds under arbitrary signals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.nscc import Nscc, NsccParameters
from mrc_host.verbs_types import NsccProfile

RATE = 100_000_000_000
RTT = 12_000
MTU = 4096
TARGET = 9_000
LINES = [(100_000_000, 4_000_000), (1_000_000_000, 400_000), (10_000_000_000, 40_000), (RATE, RTT), (8 * RATE, RTT)]


def parameters(profile: NsccProfile | None = None, *, trimming: bool = True) -> NsccParameters:
    return NsccParameters.for_line(RATE, RTT, MTU, trimming, profile)


def controller(cwnd: int = 100_000, profile: NsccProfile | None = None, *, trimming: bool = True) -> Nscc:
    cc = Nscc(parameters(profile, trimming=trimming))
    cc.cwnd = cwnd
    return cc


def acknowledge(cc: Nscc, count: int, delay: int, marked: bool, start: int, gap: int = 300) -> int:
    """`count` full packets, all with the same queueing delay; returns the time after the last."""
    for i in range(count):
        cc.on_ack(MTU, MTU, cc.base_rtt + delay, marked, start + i * gap)
    return start + count * gap


# ---- parameters ----


def test_parameters_on_the_reference_network_are_the_published_ones() -> None:
    p = parameters()
    assert p.max_cwnd == 225_000
    assert p.target_delay == TARGET
    assert p.fi == pytest.approx(5 * MTU)
    assert p.eta == pytest.approx(0.15 * MTU)
    assert p.fi_scale == pytest.approx(0.25)
    assert p.alpha == pytest.approx(4 * 0.75 * MTU / TARGET)
    assert (p.gamma, p.max_md_jump, p.qa_gate) == (0.8, 0.5, 3)
    assert (p.adjust_bytes_threshold, p.adjust_period_threshold, p.clear_delay) == (8 * MTU, RTT, 1000)
    assert p.qa_threshold > 10**15


def test_without_trimming_the_target_is_one_base_rtt_and_delay_triggers_adaptation() -> None:
    p = parameters(trimming=False)
    assert p.target_delay == RTT
    assert p.qa_threshold == 4 * RTT


@pytest.mark.parametrize(("rate", "rtt"), LINES)
@pytest.mark.parametrize("trimming", [True, False])
def test_parameters_keep_their_meaning_at_every_rate(rate: int, rtt: int, trimming: bool) -> None:
    """In shares of BDP and base RTT a line of any speed, in slow motion, is the reference network."""
    p = NsccParameters.for_line(rate, rtt, MTU, trimming)
    reference = parameters(trimming=trimming)
    bdp, reference_bdp = rate * rtt / 8e9, 150_000
    assert p.max_cwnd / bdp == pytest.approx(1.5, rel=1e-3)
    assert p.target_delay / rtt == pytest.approx(reference.target_delay / RTT)
    assert p.fi / bdp == pytest.approx(reference.fi / reference_bdp)
    assert p.eta / bdp == pytest.approx(reference.eta / reference_bdp)
    assert p.alpha * p.target_delay / bdp == pytest.approx(reference.alpha * reference.target_delay / reference_bdp)
    assert p.clear_delay / rtt == pytest.approx(1 / 12, rel=1e-3)


def test_the_published_formula_without_time_stretching_is_selectable() -> None:
    p = NsccParameters.for_line(10**9, 400_000, MTU, True, NsccProfile(reference_rtt=12_000))
    scale, target = 50_000 / 150_000, 300_000
    assert p.alpha == pytest.approx(4 * scale * (target / 12_000) * MTU / target)
    assert p.clear_delay == 1000


def test_a_profile_replaces_single_values_and_those_derived_from_them() -> None:
    profile = NsccProfile(base_rtt=24_000, target_delay=6_000, max_cwnd=50_000, gamma=0.5, qa_gate=2, disable_qa=True)
    p = parameters(profile)
    assert (p.base_rtt, p.target_delay, p.max_cwnd) == (24_000, 6_000, 50_000)
    assert (p.gamma, p.qa_gate, p.disable_qa) == (0.5, 2, True)
    assert p.adjust_period_threshold == 24_000
    assert p.fi == pytest.approx(10 * MTU)
    assert p.alpha == pytest.approx(4 * 2 * (6_000 / 24_000) * MTU / 6_000)
    everything = {name: value for name, value in asdict(p).items() if name not in ("mtu", "max_base_rtt")}
    assert NsccParameters.for_line(1, 1, MTU, False, NsccProfile(**everything)) == p


def test_the_largest_window_follows_the_mean_base_up_and_down_unless_it_is_given() -> None:
    for profile, largest in ((NsccProfile(), 4 * 225_000), (NsccProfile(max_cwnd=225_000), 225_000)):
        cc = Nscc(NsccParameters.for_line(RATE, RTT, MTU, True, profile))
        cc.on_base_rtt(2 * RTT, 4 * RTT)
        assert cc.max_window == largest
        cc.on_base_rtt(2 * RTT, RTT // 2)
        assert cc.max_window == 225_000 // 2


def test_delay_is_beyond_the_base_of_the_path() -> None:
    cc = Nscc(NsccParameters.for_line(RATE, RTT, MTU, True))
    cc.on_base_rtt(5 * RTT, 2 * RTT)
    cc.on_ack(MTU, MTU, 5 * RTT + 700, False, 1_000)
    assert 0 < cc.average_delay <= 700


def test_with_a_bdp_below_one_packet_one_packet_may_be_sent() -> None:
    p = NsccParameters.for_line(100_000_000, 100_000, MTU, True)
    assert p.max_cwnd == MTU
    assert Nscc(p).cwnd == MTU


@pytest.mark.parametrize(
    ("profile", "word"),
    [
        (NsccProfile(gamma=1.5), "gamma"),
        (NsccProfile(max_md_jump=-0.1), "max_md_jump"),
        (NsccProfile(max_cwnd=MTU - 1), "max_cwnd"),
        (NsccProfile(target_delay=0), "target delay"),
        (NsccProfile(reference_rtt=0), "reference RTT"),
        (NsccProfile(alpha=math.nan), "alpha"),
        (NsccProfile(fi=-1.0), "fi"),
        (NsccProfile(base_rtt=0), "base RTT"),
        (NsccProfile(base_rtt_floor=RTT + 1), "base_rtt_floor"),
    ],
)
def test_values_out_of_range_are_named(profile: NsccProfile, word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        parameters(profile)


def test_links_without_a_rate_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="line rate"):
        NsccParameters.for_line(0, RTT, MTU, True)


# ---- quadrants ----


def test_it_starts_at_line_rate() -> None:
    assert Nscc(parameters()).cwnd == 225_000


def test_growth_below_target_is_proportional_to_the_gap() -> None:
    growth = []
    for delay in (3_000, 6_000):
        cc = controller(profile=NsccProfile(eta=0.0, adjust_period_threshold=10**12))
        acknowledge(cc, 9, delay, False, 10**9)
        growth.append(cc.cwnd - 100_000)
    p = parameters()
    assert growth[0] == pytest.approx(p.alpha * 9 * MTU * 6_000 / 100_000, rel=0.1)
    assert growth[0] == pytest.approx(2 * growth[1], rel=0.01)


def test_fair_increase_adds_the_same_bytes_per_rtt_to_every_window() -> None:
    for cwnd in (8 * MTU, 32 * MTU):
        cc = controller(cwnd, NsccProfile(eta=0.0, adjust_bytes_threshold=cwnd - 1))
        now = acknowledge(cc, 1, 0, True, 10**9)  # from here on growth is applied by bytes
        acknowledge(cc, cwnd // MTU, TARGET, False, now, gap=10)
        assert cc.cwnd - cwnd == pytest.approx(parameters().fi, abs=1)


def test_a_mark_below_target_changes_nothing() -> None:
    cc = controller(profile=NsccProfile(eta=0.0))
    acknowledge(cc, 200, TARGET - 1, True, 10**9)
    assert cc.cwnd == 100_000


def test_a_mark_below_target_leaves_only_the_constant_eta() -> None:
    cc = controller()
    acknowledge(cc, 200, TARGET - 1, True, 10**9)
    periods = 200 * 300 // RTT + 1
    assert 0 < cc.cwnd - 100_000 <= periods * parameters().eta


def test_a_mark_above_target_cuts_by_the_excess_of_the_average() -> None:
    cc = controller()
    cc.on_ack(MTU, MTU, RTT + 12_000, True, 10**9)
    assert cc.average_delay == 12_000
    assert cc.cwnd == pytest.approx(100_000 * (1 - 0.8 * (12_000 - TARGET) / 12_000), abs=700)


def test_a_cut_halves_at_most_once_per_rtt() -> None:
    cc = controller(profile=NsccProfile(eta=0.0))
    now = acknowledge(cc, 30, 10 * TARGET, True, 10**9)
    assert now - 10**9 < RTT
    assert cc.cwnd == 50_000
    cc.on_ack(MTU, MTU, RTT + 10 * TARGET, True, 10**9 + RTT + 1)
    assert cc.cwnd == 25_000


def test_one_late_packet_after_many_prompt_ones_causes_no_cut() -> None:
    cc = controller(profile=NsccProfile(eta=0.0))
    now = acknowledge(cc, 50, 2_000, True, 10**9)
    before = cc.cwnd
    cc.on_ack(MTU, MTU, RTT + 2 * TARGET, True, now)
    assert cc.average_delay < TARGET
    assert cc.cwnd == before


def test_samples_of_the_same_time_all_count_in_the_average() -> None:
    cc = controller(10 * MTU, NsccProfile(eta=0.0))
    cc.on_ack(MTU, MTU, RTT, True, 10**9)
    acknowledge(cc, 10, 8_000, True, 10**9, gap=0)
    assert 4_000 < cc.average_delay < 8_000


def test_fast_increase_ends_with_the_first_sign_of_delay() -> None:
    cc = controller(20 * MTU, NsccProfile(alpha=0.0, eta=0.0))
    now = acknowledge(cc, 20, 0, False, 10**9)
    assert cc.cwnd == 20 * MTU
    now = acknowledge(cc, 4, 0, False, now)
    assert cc.cwnd == 20 * MTU + 4 * MTU // 4
    for sign in (
        lambda at: cc.on_ack(MTU, MTU, cc.base_rtt, True, at),
        lambda at: cc.on_ack(MTU, MTU, cc.base_rtt + 2_000, False, at),
        lambda at: cc.on_loss(0, at),
    ):
        sign(now)
        before = cc.cwnd
        now = acknowledge(cc, 5, 0, False, now)
        assert cc.cwnd == before
        now = acknowledge(cc, 40, 0, False, now)
        assert cc.cwnd > before
        cc.cwnd = before


def test_fast_increase_is_never_slower_than_proportional_increase() -> None:
    fast, proportional = (controller(MTU, NsccProfile(clear_delay=clear, eta=0.0)) for clear in (None, 0))
    for cc in (fast, proportional):
        acknowledge(cc, 60, 0, False, 10**9)
    assert fast.cwnd >= proportional.cwnd > 4 * MTU


def test_a_sack_without_an_rtt_only_counts_bytes() -> None:
    cc = controller()
    cc.on_ack(MTU, MTU, 0, True, 10**9)
    assert cc.cwnd == 100_000
    assert cc.average_delay == 0


# ---- base RTT ----


def test_the_minimum_rtt_becomes_the_base_rtt_and_scales_the_maximum_window() -> None:
    cc = Nscc(parameters())
    cc.on_ack(MTU, MTU, 20_000, False, 10**9)
    assert (cc.base_rtt, cc.max_window) == (RTT, 225_000)
    cc.on_ack(MTU, MTU, 8_000, False, 10**9 + 1)
    assert (cc.base_rtt, cc.max_window, cc.cwnd) == (8_000, 150_000, 150_000)
    cc.on_trim(MTU, 10**9 + 2, rtt=6_000)
    assert (cc.base_rtt, cc.max_window) == (6_000, 112_500)


def test_a_longer_base_rtt_widens_the_window_so_that_the_rate_stays() -> None:
    cc = controller(40_000)
    cc.on_base_rtt(RTT // 2, RTT // 2)
    assert cc.cwnd == 40_000, "a shorter one narrows it only if it exceeds the largest"
    cc.on_base_rtt(RTT, RTT)
    assert cc.cwnd == 80_000
    cc.on_base_rtt(4 * RTT, 4 * RTT)
    assert cc.cwnd == min(320_000, cc.max_window)


def test_a_minimum_base_rtt_protects_the_window_from_outliers() -> None:
    cc = Nscc(parameters(NsccProfile(base_rtt_floor=10_000)))
    cc.on_ack(MTU, MTU, 100, False, 10**9)
    assert (cc.base_rtt, cc.max_window) == (10_000, 187_500)
    cc.on_ack(MTU, MTU, 9_000, True, 10**9 + 1)
    assert cc.average_delay == 0


# ---- quick adaptation, trims, losses ----


def _starve(cc: Nscc, signal: Callable[[int], None], packets: int) -> int:
    """A period in which `packets` arrive, then `signal` is given at its end. Returns that time."""
    start = 10**9
    cc.inflight = 40 * MTU
    cc.on_ack(0, 0, RTT, False, start)  # the measurement begins
    acknowledge(cc, packets, 0, True, start + 1_000)
    end = start + RTT + TARGET
    signal(end)
    return end


@pytest.mark.parametrize("packets", [0, 1, 4])
def test_quick_adaptation_sets_the_window_to_the_achieved_bytes(packets: int) -> None:
    cc = controller(150_000)
    _starve(cc, lambda now: cc.on_trim(MTU, now), packets)
    assert cc.cwnd == max(packets, 1) * MTU


@pytest.mark.parametrize("what", ["trim", "loss", "timeout"])
def test_a_trim_or_loss_counts_until_the_end_of_its_period(what: str) -> None:
    cc = controller(150_000, NsccProfile(eta=0.0))
    start = 10**9
    cc.on_ack(0, 0, RTT, False, start)
    {"trim": cc.on_trim, "loss": cc.on_loss, "timeout": lambda size, now: cc.on_timeout(now, size)}[what](
        MTU, start + 2_000
    )
    assert cc.cwnd == 150_000 - MTU
    cc.on_ack(2 * MTU, 2 * MTU, RTT + 1_000, False, start + RTT + TARGET)
    assert cc.cwnd == 2 * MTU


def test_earlier_losses_or_enough_achieved_bytes_trigger_no_adaptation() -> None:
    cc = controller(150_000, NsccProfile(eta=0.0))
    start, period = 10**9, RTT + TARGET
    cc.on_ack(0, 0, RTT, False, start)
    cc.on_loss(MTU, start + 100)
    now = acknowledge(cc, 40, 2_000, False, start + 200, gap=period // 40)
    before = cc.cwnd
    assert before >= 150_000 - MTU
    for i in range(1, 10):
        cc.on_ack(MTU, MTU, RTT + 2_000, False, now + i * period)
    assert cc.cwnd >= before


def test_marks_of_packets_sent_before_the_adaptation_are_ignored() -> None:
    cc = controller(150_000, NsccProfile(eta=0.0))
    now = _starve(cc, lambda now: cc.on_trim(MTU, now), 4)
    now = acknowledge(cc, 39, 3 * TARGET, True, now + 1)
    assert cc.cwnd == 4 * MTU
    acknowledge(cc, 2, 3 * TARGET, True, now)
    assert cc.cwnd < 4 * MTU


def test_trims_and_losses_count_as_bytes_in_flight() -> None:
    for hear in (lambda cc, at: cc.on_trim(MTU, at), lambda cc, at: cc.on_loss(MTU, at)):
        cc = controller(150_000, NsccProfile(eta=0.0))
        now = _starve(cc, lambda now, cc=cc: cc.on_trim(MTU, now), 4)
        acknowledge(cc, 20, 3 * TARGET, True, now + 1, gap=10)
        for i in range(20):
            hear(cc, now + 300 + i)
        cc.cwnd = 20 * MTU
        cc.on_ack(MTU, MTU, RTT + 3 * TARGET, True, now + 400)
        assert cc.cwnd < 20 * MTU


def test_a_trim_counts_as_a_delay_of_one_base_rtt() -> None:
    cc = controller(10 * MTU)
    acknowledge(cc, 20, 1_000, True, 10**9, gap=1)
    for i in range(40):
        cc.cwnd = 10 * MTU
        cc.on_trim(MTU, 10**9 + 100 + i)
    assert cc.average_delay == pytest.approx(RTT, rel=0.05)


def test_enough_achieved_bytes_trigger_no_adaptation() -> None:
    cc = controller(150_000)
    _starve(cc, lambda now: cc.on_trim(MTU, now), 30)
    assert cc.cwnd == pytest.approx(150_000 - MTU, abs=700)


def test_without_trimming_only_an_extreme_delay_triggers_adaptation() -> None:
    for delay, expected in ((4 * RTT + 1, 3 * MTU), (4 * RTT - 1, 150_000)):
        cc = controller(150_000, NsccProfile(eta=0.0, fi=0.0), trimming=False)
        start = 10**9
        cc.on_ack(0, 0, RTT, False, start)
        cc.on_ack(3 * MTU, 3 * MTU, RTT + delay, False, start + 2 * RTT)
        assert cc.cwnd == expected


def test_the_first_trim_after_a_pause_does_not_adapt_to_zero() -> None:
    cc = controller(150_000)
    acknowledge(cc, 3, 100, False, 10**9)
    before = cc.cwnd
    cc.on_trim(MTU, 2 * 10**9)
    assert cc.cwnd == before - MTU


def test_an_earlier_trim_does_not_adapt_an_application_limited_sender() -> None:
    cc = controller(150_000, NsccProfile(eta=0.0))
    start, period = 10**9, RTT + TARGET
    cc.on_ack(0, 0, RTT, False, start)
    cc.on_trim(MTU, start + 100)
    now = acknowledge(cc, 40, 2_000, False, start + 200, gap=period // 40)
    before = cc.cwnd
    for i in range(1, 10):
        cc.on_ack(MTU, MTU, RTT + 2_000, False, now + i * period)
    assert cc.cwnd >= before


def test_quick_adaptation_keeps_the_window_if_an_eighth_arrived() -> None:
    """A flow that has its share of an incast of many is not set back again and again (docs/congestion.md)."""
    cc = controller(10 * MTU)  # of at most 225,000 bytes, of which these are less than an eighth
    _starve(cc, lambda now: cc.on_trim(MTU, now), 6)
    assert cc.cwnd == pytest.approx(9 * MTU, abs=700)


def test_the_fair_increase_halves_with_each_period_of_unmarked_trims() -> None:
    profile = NsccProfile(eta=0.0, fi=float(8 * MTU), qa_gate=30, adjust_bytes_threshold=0)
    cc = controller(10 * MTU, profile)
    now, period = 10**9, RTT + TARGET
    cc.on_ack(0, 0, RTT + TARGET, False, now)
    grown = []
    for trims, marked in ((0, False), (1, False), (1, False), (1, False), (1, True), (0, False), (0, True), (0, False)):
        cc.cwnd = 10 * MTU
        for _ in range(trims):
            cc.on_trim(MTU, now + 1)
        cc.cwnd = 10 * MTU
        if marked:
            cc.on_ack(0, 0, RTT + TARGET // 2, True, now + 2)
        cc.on_ack(0, 0, RTT + TARGET, False, now + period)  # the period ends
        now += period
        cc.cwnd = 10 * MTU
        cc.on_ack(10 * MTU, 10 * MTU, RTT + 2 * TARGET, False, now + 1)
        grown.append(round((cc.cwnd - 10 * MTU) / MTU, 2))
    assert grown == [8, 4, 2, 1, 2, 4, 8, 8]


def test_quick_adaptation_can_be_disabled() -> None:
    cc = controller(150_000, NsccProfile(disable_qa=True))
    _starve(cc, lambda now: cc.on_trim(MTU, now), 1)
    assert cc.cwnd == pytest.approx(150_000 - MTU, abs=700)


def test_losses_and_timeouts_reduce_the_window_by_their_bytes() -> None:
    cc = controller()
    cc.on_loss(MTU, 10**9)
    assert cc.cwnd == 100_000 - MTU
    cc.on_timeout(10**9, 3 * MTU)
    assert cc.cwnd == 100_000 - 4 * MTU
    cc.on_loss(10**9, 10**9)
    assert cc.cwnd == MTU


def test_a_timeout_of_unknown_size_halves_the_window() -> None:
    cc = controller()
    cc.on_timeout(10**9)
    assert cc.cwnd == 50_000


# ---- penalty ----


def test_a_penalty_stops_growth_without_shrinking_the_shared_window() -> None:
    """Whose receiver is slow is limited by itself (``receiver_limit``); the window is everybody's."""
    cc = controller(40 * MTU, NsccProfile(eta=0.0))
    for i in range(60):
        cc.on_ack(MTU, MTU, cc.base_rtt, False, 10**9 + 300 * i, penalty=64)
    cc.on_ack(0, 0, 0, False, 2 * 10**9, restore=True)
    assert cc.cwnd == 40 * MTU


# ---- arbitrary signals ----

_line = st.tuples(
    st.integers(10_000_000, 10**12), st.integers(1_000, 100_000_000), st.sampled_from([256, 1024, 4096]), st.booleans()
)
_signal = st.one_of(
    st.tuples(
        st.just("ack"),
        st.integers(0, 1 << 24),
        st.integers(0, 1 << 32),
        st.booleans(),
        st.integers(0, 127),
        st.booleans(),
    ),
    st.tuples(st.just("packet"), st.integers(0, 40_000), st.booleans()),
    st.tuples(st.just("trim"), st.integers(0, 9_000), st.integers(0, 1 << 32)),
    st.tuples(st.just("loss"), st.integers(0, 9_000)),
    st.tuples(st.just("timeout"), st.one_of(st.none(), st.integers(0, 1 << 20))),
)


def _apply(cc: Nscc, signal: tuple[object, ...], now: int) -> None:
    match signal:
        case ("ack", int(size), int(rtt), bool(marked), int(penalty), bool(restore)):
            cc.on_ack(size, size, rtt, marked, now, penalty=penalty, restore=restore)
        case ("packet", int(delay), bool(marked)):
            cc.on_ack(4096, 4096, cc.base_rtt + delay, marked, now)
        case ("trim", int(size), int(rtt)):
            cc.on_trim(size, now, rtt)
        case ("loss", int(size)):
            cc.on_loss(size, now)
        case ("timeout", size):
            cc.on_timeout(now, size)  # type: ignore[arg-type]


@given(_line, st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 24), _signal), max_size=40))
def test_window_bounds_hold_for_arbitrary_signals(
    line: tuple[int, int, int, bool], steps: list[tuple[int, int, tuple[object, ...]]]
) -> None:
    rate, rtt, mtu, trimming = line
    p = NsccParameters.for_line(rate, rtt, mtu, trimming)
    cc, twin = Nscc(p), Nscc(p)
    now = 0
    for gap, inflight, signal in steps:
        now += gap
        for each in (cc, twin):
            each.inflight = inflight
            _apply(each, signal, now)
        assert isinstance(cc.cwnd, int)
        assert mtu <= cc.cwnd <= cc.max_window <= p.max_cwnd
        assert 1 <= cc.base_rtt <= rtt
        assert 0 <= cc.average_delay < math.inf
        assert cc.cwnd == twin.cwnd


@given(st.lists(_signal, max_size=40))
def test_an_idle_network_always_restores_the_window(signals: list[tuple[object, ...]]) -> None:
    """Whatever the signals were, some hundred round trips without queue and loss fill the link again."""
    cc = Nscc(parameters())
    now = 10**9
    for signal in signals:
        now += 500
        _apply(cc, signal, now)
    latest = now + 200 * RTT
    while now < latest:
        if cc.cwnd == cc.max_window:
            latest = min(latest, now + 2 * RTT)
        now += cc.base_rtt * MTU // cc.cwnd + 1
        cc.on_ack(MTU, MTU, cc.base_rtt, False, now)
    assert cc.cwnd == cc.max_window
