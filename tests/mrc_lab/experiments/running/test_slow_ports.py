"""A run says which ports were slower than the others of their NIC, and its report warns of them."""

from __future__ import annotations

import pytest

from mrc_host.verbs_types import SlowPortEvent
from mrc_lab.experiments.running.slow_ports import SlowPortWarnings
from tests.mrc_lab.experiments.running.cases import case_of, run
from topologies.addressing import nic_address
from topologies.clos import multi_plane_clos

WRITE = "{kind: write_bw, pairs: [h1>h3], outstanding: 8}"


@pytest.mark.parametrize(
    ("link", "name"), [("h1@p0", "h1@p0 was"), ("h3@p0", "h3@p0, or its plane on the way from h1, was")]
)
def test_a_run_warns_of_a_slow_port(link: str, name: str) -> None:
    slow = f"{{kind: rate, at: 100us, link: '{link}', rate: 25G}}"
    (warning,) = run(case_of(WRITE, "2ms", faults=f"[{slow}]")).warnings
    assert warning.startswith(f"{name} slower than the other ports, which waited for it, from ")


def test_a_healthy_run_does_not() -> None:
    assert run(case_of(WRITE, "2ms")).warnings == ()


def test_each_port_is_named_once_and_of_many_the_number() -> None:
    fabric = multi_plane_clos(planes=8, t0=2, t1=2, hosts=2)
    peer = nic_address(fabric, fabric.nic("h2")).packed
    ports = SlowPortWarnings(fabric)
    ports.note("h1", SlowPortEvent(1000, 3, False, True), 1000)
    assert not list(ports.warnings())
    for time in (2000, 3000):
        ports.note("h1", SlowPortEvent(time, 3, True, True), time)
    ports.note("h1", SlowPortEvent(4000, 2, True, False, peer), 4000)
    assert list(ports.warnings()) == [
        "h1@p3 was slower than the other ports, which waited for it, from 2 us on",
        "h2@p2, or its plane on the way from h1, was slower than the other ports, which waited for it, from 4 us on",
    ]
    for plane in range(5):
        ports.note("h2", SlowPortEvent(5000, plane, True, True), 5000)
    assert list(ports.warnings())[4:] == ["3 more ports were slower than the others of their NIC"]
