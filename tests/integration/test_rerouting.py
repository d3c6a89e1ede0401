"""Reroutes on real fabrics: what switches hold, what RoCE gets of it, and what restarts and power cuts do to it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

pytest.importorskip("mininet")

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import Event, EventKind, TableChange
from mrc_host import verbs
from mrc_host.verbs_types import QpType
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.workloads.verified_write import Transfer
from tests.integration.names import own
from tests.waiting import TIMEOUT_S, until
from topologies.addressing import interface_name
from topologies.clos import multi_plane_clos
from topologies.ecmp_choice import source_ports
from topologies.emulation import cleanup, requirements
from topologies.emulation.errors import RequirementError
from topologies.entries import switch_entries
from topologies.entry_difference import count
from topologies.fabric import Fabric
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.power_off import PowerOff
from topologies.kernel_routes import kernel_tables

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


def until_rerouted(world: EmulatedWorld, *dead: str) -> None:
    """Every switch holds the routes without these links, and nothing else."""
    wanted = expected(world.fabric, frozenset(dead))

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


def roce(world: EmulatedWorld, kind: QpType = QpType.RC) -> Transfer:
    """A queue pair of h1 to h2 by T1 1, for as long as that is there."""
    near, far = (world.fabric.nic(name) for name in ("h1", "h2"))
    sport = next(source_ports(world.fabric, near, far, 0, 1))
    ends = [verbs.open(world.emulation.socket(host)) for host in ("h1", "h2")]
    attributes = replace(verbs.QpAttributes(), udp_sport=sport, timeout=14, retry_count=7)
    return Transfer(*ends, memory=PIECE, timeout_s=TIMEOUT_S, kind=kind, attributes=attributes)


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
