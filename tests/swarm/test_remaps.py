"""NICs that take their time to leave a port: their silences among the faults, and a NIC that stays silent is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_host.transport.scheduler import Scheduler
from tests.swarm.plans import fabric, plan
from tests.swarm.remaps import with_silences
from tests.swarm.run import run
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff

REMAP = 50_000  # ns


def slow_plan(*faults):
    on = fabric()
    transport = replace(on.settings.transport, port_remap=REMAP)
    return plan(*faults, on=replace(on, settings=replace(on.settings, transport=transport)))


def test_a_silence_begins_with_each_loss_of_a_nics_carrier_and_with_nothing_else():
    made = slow_plan(
        (PortDown("h1", 0), 1_000, 90_000),
        (LinkDown("t0-0:t1-0@p0"), 2_000, 90_000),
        (PowerOff("t0-0@p1"), 3_000, 90_000),
        (Flap("h3@p0", 5_000, 5_000, False), 4_000, 90_000),
    )
    found = [(fault.fault.link, fault.start, fault.end) for fault in with_silences(made).faults[4:]]
    assert found == [
        ("h1@*", 1_000, 1_000 + REMAP),
        ("h1@*", 3_000, 3_000 + REMAP),
        ("h2@*", 3_000, 3_000 + REMAP),
        ("h3@*", 4_000, 90_000 + REMAP),
    ]
    assert with_silences(plan((PortDown("h1", 0), 1_000, 90_000))).faults == made.faults[:1]


def test_such_a_nic_does_what_it_should():
    assert run(slow_plan((PortDown("h1", 0), 20_000, 900_000))).violations == ()


@pytest.mark.plain_transport
def test_a_nic_that_stays_silent_is_found(monkeypatch):
    monkeypatch.setattr(Scheduler, "stop", lambda self, stopped: stopped and _stop(self))
    found = run(slow_plan((PortDown("h1", 0), 20_000, 900_000))).violations
    assert any("missing" in violation for violation in found), found


def _stop(scheduler):
    scheduler._stopped = scheduler._all
    scheduler._hold()
