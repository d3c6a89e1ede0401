"""What a file's rates and times become in emulation."""

from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import QpAttributes
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running import scaling
from mrc_lab.experiments.running.scaling import scaled_attributes, scaled_fabric, scaled_fault
from tests.mrc_lab.experiments.running.cases import case_of
from topologies.clos import multi_plane_clos
from topologies.fabric_checks import MAX_REROUTE_NS
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.loss import Loss
from topologies.faults.rate import Rate

WRITE = "{kind: write_bw, pairs: h1>h3}"
MS = 1_000_000


def test_times_and_rates_of_faults_are_scaled_like_the_fabric():
    scale = 1e-3  # a thousandth of the rate, a thousand times as long
    assert scaled_fault(Flap("h1@p0", 5_000, 10_000, True, 7), scale) == Flap("h1@p0", 5 * MS, 10 * MS, True, 7)
    assert scaled_fault(Delay("h1@p0", 2_000), scale) == Delay("h1@p0", 2 * MS)
    assert scaled_fault(Rate("h1@p0", 10**9), scale) == Rate("h1@p0", 10**6)
    assert scaled_fault(Loss("h1@p0", 0.5), scale) == Loss("h1@p0", 0.5)


def test_rates_are_scaled_down_to_the_machines_capacity_and_never_up(monkeypatch):
    monkeypatch.setattr(scaling, "carried_rate", lambda hosts, planes: 20_000_000)
    case = case_of(WRITE, fabric="{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G, uplink_rate: 200G}")
    assert scaling.scale_of([case]) == 1e-4
    fabric = scaling.scaled_fabric(case, 1e-4)
    assert {link.rate_bps for link in fabric.links} == {10_000_000, 20_000_000}
    assert scaling.scale_of([case_of(WRITE, fabric="{planes: 1, hosts: 4, rate: 1M}")]) == 1.0


def test_all_cases_of_a_file_share_one_scale(monkeypatch):
    monkeypatch.setattr(scaling, "carried_rate", lambda hosts, planes: 100_000_000 // hosts)
    few = case_of(WRITE, fabric="{planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G}")
    many = case_of(WRITE, fabric="{planes: 1, t0: 2, t1: 2, hosts: 10, rate: 100G}")
    fast = case_of(WRITE, fabric="{planes: 1, t0: 2, t1: 2, hosts: 4, rate: 400G}")
    assert scaling.scale_of([few]) == 2.5e-4
    assert scaling.scale_of([few, many]) == scaling.scale_of([many, few]) == 1e-4
    assert scaling.scale_of([few, many, fast]) == 6.25e-5


def settings_of(transport, scale):
    return scaled_fabric(case_of(WRITE, transport=transport), scale).settings.transport


def test_settings_other_than_times_and_rates_are_kept():
    settings = settings_of("{congestion: none, settings: {plane_skew_limit: 3, flap_window: 0us}}", 1e-4)
    assert (settings.congestion, settings.plane_skew_limit, settings.flap_window) == ("none", 3, 0)


def test_timers_scale_with_rtts_and_keep_a_minimum_for_processes():
    given = "{settings: {probe_interval: %s}}"
    slow, slower = (settings_of(given % "40us", scale).probe_interval for scale in (1e-4, 1e-5))
    assert 20 * MS < slow < slower  # round trips are of 9.4 us in the file, of 22 and 150 ms here
    assert (slow, slower) == (pytest.approx(40 / 9.4 * 22 * MS, rel=0.02), pytest.approx(40 / 9.4 * 150 * MS, rel=0.02))
    assert settings_of(given % "1us", 1e-4).probe_interval == TransportSettings().probe_interval
    assert settings_of("{settings: {base_rtt: 13us}}", 1e-4).base_rtt == 0, "the fabric has its own"


def test_the_time_to_leave_a_port_is_scaled_like_faults():
    given = "{settings: {port_remap: 30us}}"
    assert [settings_of(given, scale).port_remap for scale in (1, 1e-4)] == [30_000, 300_000_000]
    assert settings_of("{settings: {port_remap: 0us}}", 1e-4).port_remap == 0


def test_nscc_times_scale_with_rtts():
    small, large = (settings_of("{settings: {nscc: {target_delay: 9us, alpha: 2}}}", s).nscc for s in (1e-4, 1e-5))
    assert small.target_delay == pytest.approx(9 / 9.4 * 22 * MS, rel=0.02)
    assert large.target_delay == pytest.approx(9 / 9.4 * 150 * MS, rel=0.02)
    assert large.alpha * large.target_delay == pytest.approx(2 * 9000, rel=1e-3)
    assert small.gamma is None


def test_dcqcn_times_scale_with_rates_and_not_with_rtts():
    given = "{type: rc, settings: {dcqcn: {additive_rate: 40M, increase_interval: 55us, increase_bytes: 32K}}}"
    dcqcn = settings_of(given, 1e-3).dcqcn
    assert (dcqcn.additive_rate, dcqcn.increase_interval, dcqcn.increase_bytes) == (40_000, 55 * MS, 32 * 1024)


def test_an_ack_timeout_from_the_file_scales_with_rtts():
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4, rate_bps=50_000_000)
    assert scaled_attributes({"timeout": 4, "mpr": 9}, fabric, 1000.0) == QpAttributes(timeout=14, mpr=9, mpr_dest=9)
    assert scaled_attributes({"timeout": 20}, fabric, 1000.0).timeout == 24


@pytest.mark.parametrize("rate", [5_000_000, 50_000_000, 100_000_000_000])
def test_ack_timeouts_exceed_the_delay_of_full_queues(rate):
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4, rate_bps=rate)
    waits_ns = 1024 << scaled_attributes({}, fabric, 1.0).timeout
    assert waits_ns > 4 * fabric.queues.bytes_at(fabric.queues.limit, rate, fabric.mtu) * 8 * 10**9 / rate


def test_with_flow_control_ack_timeouts_exceed_the_delay_behind_pauses():
    paused = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4, rate_bps=50_000_000)
    paused = replace(paused, queues=replace(paused.queues, pfc=True))
    waits_ns = 1024 << scaled_attributes({}, paused, 1.0).timeout
    held = paused.queues.bytes_at(paused.queues.pfc_xoff + paused.queues.pfc_headroom, 50_000_000, paused.mtu)
    assert waits_ns > 4 * 4 * held * 8 * 10**9 / 50_000_000  # four ports' worth before a packet, four times


def test_the_time_to_reroute_scales_as_all_times_of_the_network():
    text = "fabric: {hosts: 2, rate: 100G, reroute: 50us}\nworkload: {kind: write_bw, pairs: [h1>h2]}\nduration: 1ms\n"
    (case,) = load_text(text).cases
    assert scaled_fabric(case, 1e-3).reroute_ns == 50 * MS
    assert scaled_fabric(case, 1e-6).reroute_ns == MAX_REROUTE_NS
