"""The service and its client over a real socket, with links and switches that only remember."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import FleetStatus, LinkEndInfo, SwitchState, SwitchStatus
from tests.controller.serving import Running
from topologies.emulation.link_counters import Traffic
from topologies.fabric import Fabric
from topologies.faults import FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.record import FaultRecord


def gone(*records: FaultRecord) -> tuple[FaultRecord, ...]:
    """The same faults when they have been cleared, at any time."""
    cleared: Any = ANY
    return tuple(dataclasses.replace(one, state=FaultState.CLEARED, cleared_at_ns=cleared) for one in records)


def test_status_arrives_unchanged(client: ControllerClient, one: Running) -> None:
    failed = SwitchStatus("t0-0@p0", SwitchState.FAILED, 20, 3, ("t0-0@p0: entry x is missing",))
    status = FleetStatus("ctltest", False, (failed, SwitchStatus("t1-0@p0", SwitchState.VERIFIED, 9)))
    one.switches.status = status
    assert client.status() == status
    assert client.status().problems == ("t0-0@p0: entry x is missing",)
    assert client.reconcile() == status
    assert one.switches.reconciled == 1


def test_the_clock_translates_times_of_faults_to_those_of_the_day(client: ControllerClient) -> None:
    before = time.time_ns()
    fault = client.link_down("t0-0:t1-1@p0")
    clock = client.clock()
    step = 1_000_000  # the clocks of a machine are read one after the other
    assert before - step <= clock.epoch_of(fault.began_at_ns) <= clock.epoch_of(fault.applied_at_ns)
    assert clock.epoch_of(fault.applied_at_ns) <= time.time_ns() + step


def test_links_are_listed_by_pattern(client: ControllerClient, fabric: Fabric) -> None:
    assert len(client.links()) == len(fabric.links)
    first, second = client.links("t1-*:t0-1@p1")
    assert (first.name, second.name) == ("t0-1:t1-0@p1", "t0-1:t1-1@p1")
    assert first.lower == LinkEndInfo("t0-1@p1", 3, "t0-1@p1-3")
    assert second.upward == Traffic(1, 100)
    assert first.up
    assert first.read_at_ns == 7


def test_a_link_goes_down_and_up(client: ControllerClient, one: Running) -> None:
    fault = client.link_down("t0-0:t1-1@p0", owner="me")
    assert one.links.down == {"t0-0:t1-1@p0"}
    assert fault.links == ("t0-0:t1-1@p0",)
    assert fault.owner == "me"
    assert fault.began_at_ns <= fault.applied_at_ns
    assert client.faults() == [fault]
    (link,) = client.links("t0-0:t1-1@p0")
    assert (link.up, link.fault_ids) == (False, (fault.id,))
    cleared = client.clear(fault.id)
    assert cleared.faults == gone(fault)
    assert cleared.links == ("t0-0:t1-1@p0",)
    assert cleared.applied_at_ns >= cleared.faults[0].cleared_at_ns >= cleared.began_at_ns > fault.applied_at_ns
    assert one.links.down == set()
    assert client.faults() == []


def test_overlapping_faults_keep_a_link_down(client: ControllerClient, one: Running) -> None:
    first = client.link_down("t0-0:t1-*@p0")
    second = client.link_down("t0-*:t1-0@p0")
    client.clear(first.id)
    assert one.links.down == {"t0-0:t1-0@p0", "t0-1:t1-0@p0"}
    client.clear(second.id)
    assert one.links.down == set()


def test_link_up_clears_every_fault_that_holds_a_link_down(client: ControllerClient, one: Running) -> None:
    both = client.link_down("h1@p*")
    port = client.link_down("h1@p0")
    one.links.down.add("h2@p0")  # by other means
    cleared = client.link_up("h[1,2]@p0")
    assert [fault.id for fault in cleared.faults] == [port.id]
    assert [(fault.id, fault.links) for fault in cleared.remaining] == [(both.id, ("h1@p1",))]
    assert set(cleared.links) == {"h1@p0", "h2@p0"}
    assert one.links.down == {"h1@p1"}
    assert client.faults() == list(cleared.remaining)
    assert [link.fault_ids for link in client.links("h1@p*")] == [(), (both.id,)]


def test_clearing_by_owner_and_all(client: ControllerClient, one: Running) -> None:
    client.link_down("h1@p0", owner="me")
    client.link_down("h2@p0", owner="you")
    client.clear_owner("me")
    assert one.links.down == {"h2@p0"}
    client.clear_all()
    assert one.links.down == set()
    assert client.clear_all().faults == ()


def test_data_plane_faults_are_listed_and_cleared_like_others(client: ControllerClient, one: Running) -> None:
    loss = client.inject(Loss("t0-0:t1-1@p0", 0.25, "t1-1@p0"), owner="me")
    assert (loss.links, loss.switches) == (("t0-0:t1-1@p0",), ("t1-1@p0",))
    assert loss.fault == Loss("t0-0:t1-1@p0", 0.25, towards="t1-1@p0")
    damage = client.inject(Corruption("h1@p*", 1e-9))
    assert damage.fault == Corruption("h1@p*", 1e-9)
    assert damage.links == ("h1@p0", "h1@p1")
    silent = client.inject(Blackhole("t1-*@p1"), owner="me")
    assert (silent.fault, silent.switches) == (Blackhole("t1-*@p1"), ("t1-0@p1", "t1-1@p1"))
    path = client.inject(PathLoss(0x401, source="h1"))
    assert (path.fault, path.switches) == (PathLoss(0x401, source="h1"), ("t0-0@p1",))
    assert client.faults() == [loss, damage, silent, path]
    assert set(one.switches.entries) == {"t1-1@p0", "t0-0@p0", "t0-0@p1", "t1-0@p1", "t1-1@p1"}
    (reported,) = client.links("h1@p0")
    assert (reported.up, reported.fault_ids) == (True, (damage.id,))
    assert client.clear_owner("me").faults == gone(loss, silent)
    assert set(one.switches.entries) == {"t0-0@p0", "t0-0@p1"}
    client.clear(path.id)
    assert client.clear_all().faults == gone(damage)
    assert one.switches.entries == {}
    assert one.links.down == set()


def test_clearing_a_loss_fault_does_not_bring_the_link_up(client: ControllerClient, one: Running) -> None:
    cut, loss = client.link_down("h1@p0"), client.inject(Loss("h1@p0", 1.0))
    assert client.clear(loss.id).links == ()
    assert one.links.down == {"h1@p0"}
    again = client.inject(Loss("h1@p0", 0.5))
    assert client.clear(cut.id).links == ("h1@p0",)
    assert client.link_up("h1@p0").faults == gone(again)


def test_a_fault_refused_by_a_switch_is_not_registered(client: ControllerClient, one: Running) -> None:
    one.switches.away = "t1-1@p1"
    first = client.inject(Blackhole("t1-0@p1"))
    with pytest.raises(ControllerError, match="t1-1@p1 is not reachable"):
        client.inject(Blackhole("t1-*@p1"))
    assert client.faults() == [first]
    assert set(one.switches.entries) == {"t1-0@p1"}


@pytest.mark.parametrize(
    ("inject", "message"),
    [
        (lambda c: c.inject(Loss("h1@p0", 1.5)), "is 150 %, but must be above 0 % and at most 100 %"),
        (
            lambda c: c.inject(Loss("h1@p0", 0.5, "h2")),
            "no link that matches 'h1@p0' leads to a node that matches 'h2'",
        ),
        (lambda c: c.inject(Corruption("h9@p0", 0.5)), "no link that matches 'h9@p0'"),
        (lambda c: c.inject(Blackhole("t3-0@p0")), "no switch that matches 't3-0@p0'"),
        (lambda c: c.inject(PathLoss(0x3FF)), "has entropy value 0x3ff"),
        (lambda c: c.inject(PathLoss(1, source="h77")), "no NIC that matches 'h77'"),
    ],
)
def test_impossible_faults_are_refused(client: ControllerClient, inject: Any, message: str) -> None:
    with pytest.raises(ControllerError, match=message):
        inject(client)
    assert client.faults() == []


def test_errors_have_a_message(client: ControllerClient, one: Running) -> None:
    with pytest.raises(ControllerError, match="no link that matches 't0-0:t1-7@p0': did you mean"):
        client.link_down("t0-0:t1-7@p0")
    with pytest.raises(ControllerError, match="There is no fault f77"):
        client.clear("f77")
    one.links.broken = "h1@p0"
    with pytest.raises(ControllerError, match="does not exist on this machine"):
        client.link_down("h1@p0")
    assert client.faults() == [], "a fault that was not applied is not in the registry"
    one.links.broken = ""


def test_an_unreachable_controller_is_reported(tmp_path: Path) -> None:
    with ControllerClient(tmp_path / "none.sock", timeout_s=2) as client:
        with pytest.raises(ControllerError, match=r"does not answer: is the fabric up\?"):
            client.status()
        with pytest.raises(ControllerError, match="does not answer"):
            client.wait_listening(0.1)
