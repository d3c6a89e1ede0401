"""Reroutes on real fabrics: what switches hold, what RoCE gets of it, and what restarts and power cuts do to it."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

pytest.importorskip("mininet")

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import EntryWords, Event, EventKind, TableChange
from mrc_host import verbs
from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.cli.main import run
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.workloads.verified_write import Transfer
from tests.integration.names import own
from tests.waiting import TIMEOUT_S, until
from topologies.addressing import interface_name
from topologies.clos import multi_plane_clos
from topologies.ecmp_choice import source_ports
from topologies.emulation import cleanup, requirements
from topologies.emulation.bring_up import emulated
from topologies.emulation.errors import EmulationError, RequirementError
from topologies.entries import switch_entries
from topologies.entry_difference import count
from topologies.fabric import Fabric
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.power_off import PowerOff
from topologies.kernel_routes import kernel_tables
from topologies.p4_program import fabric_program

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

AFTER = 20_000_000  # ns
LINK = "t0-0:t1-1@p0"
PIECE = 64 << 10


def described(what: str, after: int = AFTER) -> Fabric:
    return multi_plane_clos(own(what), planes=1, t0=2, t1=2, hosts=2, rate_bps=20_000_000, reroute_ns=after)


@contextmanager
def up(fabric: Fabric, switch: str = "embedded") -> Iterator[tuple[EmulatedWorld, ControllerClient]]:
    try:
        with running(fabric, switch=switch) as world, world.controller() as client:
            yield world, client
    finally:
        cleanup.clean(fabric.name, force=True)


def expected(fabric: Fabric, dead: frozenset[str]) -> list[int]:
    """How many entries each switch is to hold."""
    return [
        len(kernel_tables(fabric, switch, dead)) if switch.kernel else count(switch_entries(fabric, switch, dead))
        for switch in fabric.switches
    ]


def until_rerouted(world: EmulatedWorld, *dead: str, more: Mapping[str, int] = MappingProxyType({})) -> None:
    """Every switch holds the routes without these links and nothing else, but for `more` entries of some."""
    names = [switch.name for switch in world.fabric.switches]
    static = expected(world.fabric, frozenset(dead))
    wanted = [number + more.get(name, 0) for name, number in zip(names, static, strict=True)]

    def done() -> bool:
        with contextlib.suppress(ControllerError), world.controller() as client:
            status = client.status()
            return status.ready and [switch.entries for switch in status.switches] == wanted
        return False

    until(done, f"routes without {dead}")
    with world.controller() as client:
        tables = client.tables("*")
        assert not [problem for switch in tables for problem in switch.problems if "kernel" not in problem]


def next_reroute(events: Iterator[Event]) -> Event:
    return next(event for event in events if event.kind is EventKind.REROUTED)


class Roce:
    """Verified writes of h1 to h2 over one path, by T1 1 as long as that is there."""

    def __init__(self, world: EmulatedWorld, stack: contextlib.ExitStack) -> None:
        near, far = (world.fabric.nic(name) for name in ("h1", "h2"))
        sport = next(source_ports(world.fabric, near, far, 0, 1))
        ends = [stack.enter_context(verbs.open(world.emulation.socket(nic.name))) for nic in (near, far)]
        attributes = QpAttributes(udp_sport=sport, timeout=16, retry_count=7)  # 67 ms
        self._pair = stack.enter_context(
            Transfer(*ends, memory=PIECE, timeout_s=TIMEOUT_S, qp_type=QpType.RC, attributes=attributes)
        )

    def write(self) -> None:
        assert self._pair.write(PIECE).wrong_bytes == 0


@contextmanager
def roce(world: EmulatedWorld) -> Iterator[Roce]:
    with contextlib.ExitStack() as stack:
        yield Roce(world, stack)


@pytest.mark.parametrize("switch", ["embedded", "bmv2"])
def test_switches_hold_other_routes_while_a_link_is_down(switch: str) -> None:
    if switch == "bmv2" and shutil.which("simple_switch_grpc") is None:
        pytest.skip("BMv2 is not here")
    with up(described("hold"), switch) as (world, client), client.events(timeout_s=10) as events:
        next(events)
        for _ in range(2):
            record = client.inject(LinkDown(LINK))
            down = next(event for event in events if event.kind is EventKind.LINK_DOWN)
            event = next_reroute(events)
            assert event.name == "p0"
            assert re.fullmatch(rf"without {LINK}: 7 entries in [0-9.]+ ms", event.detail), event
            assert event.at_ns - down.at_ns >= AFTER
            until_rerouted(world, LINK)
            client.clear(record.id)
            assert next_reroute(events).detail.startswith("over all links: 7 entries in ")
            until_rerouted(world)


def test_roce_goes_on_over_other_links_whatever_fails() -> None:
    """On one path: without reroutes each of these would end the queue pair."""
    with up(described("roce")) as (world, client), roce(world) as flow:
        flow.write()
        client.inject(LinkDown(LINK))
        flow.write()
        client.clear_all()
        until_rerouted(world)
        flow.write()
        client.inject(PowerOff("t1-1@p0"))
        flow.write()
        until_rerouted(world, "t0-0:t1-1@p0", "t0-1:t1-1@p0")
        client.clear_all()
        client.inject(LinkDown("t0-0:t1-0@p0"))  # two at once: the time of the first is that of both
        until_rerouted(world, "t0-0:t1-0@p0")
        flow.write()


def test_all_links_of_a_plane_may_go_and_come_back() -> None:
    with up(described("whole")) as (world, client):
        every = [link.name for link in world.fabric.links]
        client.inject(LinkDown("*"))
        until_rerouted(world, *every)
        client.clear_all()
        until_rerouted(world)
        with roce(world) as flow:
            flow.write()


def test_a_link_that_flaps_ends_with_the_routes_of_what_is_there() -> None:
    with up(described("flap")) as (world, client), client.events(timeout_s=10) as events:
        next(events)
        client.inject(Flap(LINK, 30_000_000, 30_000_000), duration_ns=1_000_000_000)
        at: list[int] = []
        for event in events:
            if event.kind is EventKind.REROUTED:
                at.append(event.at_ns)
            if event.kind is EventKind.FAULT_CLEARED:
                break
        assert len(at) <= 1_000_000_000 // AFTER
        until_rerouted(world)


def test_a_new_controller_begins_with_the_routes_of_the_links_that_are_there() -> None:
    with up(described("newctl")) as (world, _), roce(world) as flow:
        interface = interface_name(world.fabric, world.fabric.link(LINK).lower)
        subprocess.run(["ip", "link", "set", interface, "down"], check=True)
        until_rerouted(world, LINK)
        world.emulation.children["controller"].process.kill()
        flow.write()
        world.restart("controller")
        until_rerouted(world, LINK)
        with world.controller() as again:
            assert {switch.repaired for switch in again.status().switches} == {0}, "nothing was undone meanwhile"
        world.emulation.children["controller"].process.kill()
        subprocess.run(["ip", "link", "set", interface, "up"], check=True)
        world.restart("controller")
        until_rerouted(world)
        flow.write()


def test_a_restarted_switch_gets_the_present_routes_and_those_that_changed_while_it_was_away() -> None:
    with up(described("newsw"), "embedded-per-process") as (world, client):
        record = client.inject(LinkDown(LINK))
        until_rerouted(world, LINK)
        os.kill(world.emulation.children["switch-t0-0@p0"].process.pid, signal.SIGKILL)
        world.restart("switch-t0-0@p0")
        until_rerouted(world, LINK)
        os.kill(world.emulation.children["switch-t0-1@p0"].process.pid, signal.SIGKILL)
        with client.events(timeout_s=10) as events:
            next(events)
            client.clear(record.id)
            assert next_reroute(events).detail.endswith("; later t0-1@p0, which cannot be reached")
        world.restart("switch-t0-1@p0")
        until_rerouted(world)


def test_entries_by_hand_faults_and_a_new_program_go_with_other_routes() -> None:
    with up(described("hand")) as (world, client):
        words = EntryWords("traffic_class", ("17",), "set_priority", ("3",))
        client.change_table("t0-0@p0", TableChange.ADD, words)
        client.inject(LinkDown(LINK))
        client.inject(Loss("t0-0:t1-0@p0", 0.01, "t0-0@p0"))  # while routes are written
        client.load_program(fabric_program())
        until_rerouted(world, LINK, more={"t0-0@p0": 2})
        client.change_table("t0-1@p0", TableChange.ADD, words)
        client.clear_all()
        until_rerouted(world, more={"t0-0@p0": 1, "t0-1@p0": 1})
        assert client.restore_tables("*") == 2
        until_rerouted(world)
        other = replace(fabric_program(), json=fabric_program().json.replace('.ecmp"', '.members"'), name="other.p4")
        with pytest.raises(ControllerError, match=r"reroute: other\.p4 has no ecmp, so it has no routes to change"):
            client.load_program(other)


def _why_no_kernel_switches() -> str:
    try:
        requirements.check_srv6()
    except RequirementError as error:
        return str(error)
    return ""


@pytest.mark.skipif(bool(_why_no_kernel_switches()), reason=_why_no_kernel_switches() or "they are there")
def test_kernel_switches_take_part() -> None:
    fabric = described("kern").with_kernel_switches(["t0-1@p0", "t1-1@p0"])
    with up(fabric) as (world, client), roce(world) as flow:
        before = world.emulation.net["t0-1@p0"].cmd("ip -6 route show")
        client.inject(LinkDown(LINK))
        until_rerouted(world, LINK)
        assert before != world.emulation.net["t0-1@p0"].cmd("ip -6 route show")
        flow.write()
        client.clear_all()
        until_rerouted(world)
        assert before == world.emulation.net["t0-1@p0"].cmd("ip -6 route show")
        client.inject(LinkDown("t0-1:t1-1@p0"))  # both ends are the kernel's
        until_rerouted(world, "t0-1:t1-1@p0")
        flow.write()


def test_a_program_without_the_tables_is_refused_before_anything_starts() -> None:
    other = replace(fabric_program(), json=fabric_program().json.replace('.ecmp"', '.members"'), name="other.p4")
    with (
        pytest.raises(EmulationError, match=r"^reroute: other\.p4 has no ecmp"),
        emulated(described("no"), program=other),
    ):
        pass


def test_an_experiment_records_reroutes(tmp_path: Path) -> None:
    file = tmp_path / "trial.yaml"
    file.write_text(
        "fabric: {planes: 1, t0: 2, t1: 2, hosts: 2, rate: 1G, reroute: 1ms}\ntransport: {type: rc, qps: 2}\n"
        "workload: {kind: write_bw, pairs: h1>h2, message: 64K}\nduration: 100ms\n"
        "faults: [{kind: link_down, at: 30ms, until: 60ms, link: 't0-0:t1-1@p0'}]\n"
    )
    assert run(["run", str(file), "--backend", "emulation", "--name", own("trial"), "--results", str(tmp_path)]) in (
        0,
        1,
    )
    result = tmp_path / "trial" / "latest"
    with (result / "only" / "events.csv").open(newline="") as table:
        reroutes = [row for row in csv.DictReader(table) if row["event"] == "reroute"]
    scale = json.loads((result / "summary.json").read_text())["cases"]["only"]["time_scale"]
    assert [row["reason"].partition(":")[0] for row in reroutes] == ["without t0-0", "over all links"]
    for row, changed in zip(reroutes, (30_000_000, 60_000_000), strict=True):
        assert int(row["time_ns"]) >= (changed + 1_000_000) * scale
    assert "Switches had routes around it " in (result / "report.html").read_text()
