"""Tests of a congestion control of your own, the one of plugins.py: ``pytest examples/test_aimd.py`` (docs/ci.md)."""

from collections.abc import Callable

import pytest

from mrc_lab.pytest_plugin.fabric_under_test import FabricUnderTest

pytestmark = pytest.mark.mrc(planes=2, t0=2, t1=4, hosts=4, plugins=["plugins.py"], congestion="aimd")


def test_an_incast_retransmits_less_than_without_control(mrc_fabric: FabricUnderTest) -> None:
    again = {}
    for control in ("none", "aimd"):
        flows = [mrc_fabric.flow(host, "h4", cc_profile=control) for host in ("h1", "h2", "h3")]
        reports = mrc_fabric.write_all(flows, "1M")
        again[control] = sum(report.counters.retransmitted for report in reports)
    assert again["aimd"] < again["none"]


def test_a_write_survives_a_link_failure(mrc_fabric: FabricUnderTest) -> None:
    flow = mrc_fabric.flow("h1", "h3")
    with mrc_fabric.fault("t0-0:t1-1@p0 down at +20us"):
        report = flow.write("4M")
    assert report.counters.lost > 0
    assert report.paths == {0: 3, 1: 4}  # of four in each plane
    mrc_fabric.wait("1ms")  # probes find that the link is back
    assert flow.usable_paths() == {0: 4, 1: 4}


def test_the_incast_experiment_passes(mrc_experiment: Callable[..., object]) -> None:
    mrc_experiment("incast.yaml")
