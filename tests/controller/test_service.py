"""The service and its client over a real socket, with links that only remember."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.fault_impairments import Shape
from controller.proto.controller_v1_pb2_grpc import add_ControllerServicer_to_server
from controller.service import ControllerService
from controller.values import FaultRecord, FleetStatus, LinkEnd, LinkStatus, SwitchState, SwitchStatus
from topologies.emulation.link_counters import Traffic
from topologies.entries import TableEntry
from topologies.fabric import Endpoint, Fabric, Link
from topologies.faults import FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss


class Links:
    """Stands for FabricLinks."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.broken = False
        self.shapes: dict[Endpoint, Shape | None] = {}

    async def read(self, links: Iterable[Link]) -> list[LinkStatus]:
        def end(node: str, port: int) -> LinkEnd:
            return LinkEnd(node, port, f"{node}-{port}")

        return [
            LinkStatus(
                name=link.name,
                kind=link.kind,
                plane=link.plane,
                lower=end(link.lower.node, link.lower.port),
                upper=end(link.upper.node, link.upper.port),
                rate_bps=link.rate_bps,
                up=link.name not in self.down,
                upward=Traffic(number, 100 * number),
                downward=Traffic(),
                fault_ids=(),
                read_at_ns=7,
            )
            for number, link in enumerate(links)
        ]

    async def set_up(self, links: Iterable[Link], *, up: bool) -> None:
        if self.broken:
            raise ControllerError("Interface x does not exist on this machine: is the fabric still up?")
        names = {link.name for link in links}
        self.down = self.down - names if up else self.down | names

    async def shape(self, shapes: Mapping[Endpoint, Shape | None]) -> None:
        self.shapes = {**self.shapes, **shapes}


class FakeFleet:
    """Stands for Fleet."""

    def __init__(self) -> None:
        self.reconciled = 0
        self.faults: dict[str, tuple[TableEntry, ...]] = {}
        self.unreachable = ""

    async def reconcile(self) -> None:
        self.reconciled += 1

    async def set_faults(self, entries: Mapping[str, Iterable[TableEntry]], *, later: bool = False) -> tuple[str, ...]:
        before, self.faults = self.faults, {name: tuple(found) for name, found in entries.items()}
        if self.unreachable in self.faults and self.faults[self.unreachable] != before.get(self.unreachable, ()):
            raise ControllerError(f"Switch {self.unreachable} is not reachable, so it can make no fault.")
        return ()

    async def verified(self, names: Iterable[str]) -> None:
        raise NotImplementedError

    @property
    def status(self) -> FleetStatus:
        switch = SwitchStatus("t0-0@p0", SwitchState.FAILED, 20, 3, ("t0-0@p0: entry x is missing",))
        return FleetStatus("ctltest", False, (switch, SwitchStatus("t1-0@p0", SwitchState.VERIFIED, 9)))


def gone(*records: FaultRecord) -> tuple[FaultRecord, ...]:
    """The same faults when they have been cleared."""
    return tuple(dataclasses.replace(record, state=FaultState.CLEARED) for record in records)


@pytest.fixture
def links() -> Links:
    return Links()


@pytest.fixture
def fleet() -> FakeFleet:
    return FakeFleet()


@pytest.fixture
def client(fabric: Fabric, links: Links, fleet: FakeFleet, tmp_path: Path) -> Iterator[ControllerClient]:
    """A client of a service that runs in a thread."""
    socket = tmp_path / "c.sock"
    loop = asyncio.new_event_loop()
    started, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        server = grpc.aio.server()
        service: Any = ControllerService(fabric, fleet, links)  # type: ignore[arg-type]
        add_ControllerServicer_to_server(service, server)  # type: ignore[no-untyped-call]
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        started.set()
        await stop.wait()
        await server.stop(0)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(10)
    with ControllerClient(socket) as connected:
        connected.wait_listening()
        yield connected
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def test_status_crosses_unchanged(client: ControllerClient, fleet: FakeFleet) -> None:
    assert client.status() == fleet.status
    assert client.status().problems == ("t0-0@p0: entry x is missing",)
    assert client.reconcile() == fleet.status
    assert fleet.reconciled == 1


def test_links_are_listed_by_pattern(client: ControllerClient, fabric: Fabric) -> None:
    assert len(client.links()) == len(fabric.links)
    first, second = client.links("t1-*:t0-1@p1")
    assert (first.name, second.name) == ("t0-1:t1-0@p1", "t0-1:t1-1@p1")
    assert first.lower == LinkEnd("t0-1@p1", 3, "t0-1@p1-3")
    assert second.upward == Traffic(1, 100)
    assert first.up
    assert first.read_at_ns == 7


def test_a_link_goes_down_and_comes_back(client: ControllerClient, links: Links) -> None:
    fault = client.link_down("t0-0:t1-1@p0", owner="me")
    assert links.down == {"t0-0:t1-1@p0"}
    assert fault.links == ("t0-0:t1-1@p0",)
    assert fault.owner == "me"
    assert fault.began_at_ns <= fault.applied_at_ns
    assert client.faults() == [fault]
    (link,) = client.links("t0-0:t1-1@p0")
    assert (link.up, link.fault_ids) == (False, (fault.id,))
    cleared = client.clear(fault.id)
    assert cleared.faults == gone(fault)
    assert cleared.links == ("t0-0:t1-1@p0",)
    assert cleared.applied_at_ns >= cleared.began_at_ns > fault.applied_at_ns
    assert links.down == set()
    assert client.faults() == []


def test_overlapping_faults_keep_a_link_down(client: ControllerClient, links: Links) -> None:
    one = client.link_down("t0-0:t1-*@p0")
    two = client.link_down("t0-*:t1-0@p0")
    client.clear(one.id)
    assert links.down == {"t0-0:t1-0@p0", "t0-1:t1-0@p0"}
    client.clear(two.id)
    assert links.down == set()


def test_link_up_clears_whatever_holds_a_link(client: ControllerClient, links: Links) -> None:
    both = client.link_down("h1@p*")
    one = client.link_down("h1@p0")
    links.down.add("h2@p0")  # by other means
    cleared = client.link_up("h[12]@p0")
    assert [fault.id for fault in cleared.faults] == [one.id]
    assert [(fault.id, fault.links) for fault in cleared.remaining] == [(both.id, ("h1@p1",))]
    assert set(cleared.links) == {"h1@p0", "h2@p0"}
    assert links.down == {"h1@p1"}
    assert client.faults() == list(cleared.remaining)
    assert [link.fault_ids for link in client.links("h1@p*")] == [(), (both.id,)]


def test_clearing_by_owner_and_all(client: ControllerClient, links: Links) -> None:
    client.link_down("h1@p0", owner="me")
    client.link_down("h2@p0", owner="you")
    client.clear_owner("me")
    assert links.down == {"h2@p0"}
    client.clear_all()
    assert links.down == set()
    assert client.clear_all().faults == ()


def test_faults_of_the_p4_program_are_listed_and_cleared_like_others(
    client: ControllerClient, fleet: FakeFleet, links: Links
) -> None:
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
    assert set(fleet.faults) == {"t1-1@p0", "t0-0@p0", "t0-0@p1", "t1-0@p1", "t1-1@p1"}
    (told,) = client.links("h1@p0")
    assert (told.up, told.fault_ids) == (True, (damage.id,))
    assert client.clear_owner("me").faults == gone(loss, silent)
    assert set(fleet.faults) == {"t0-0@p0", "t0-0@p1"}
    client.clear(path.id)
    assert client.clear_all().faults == gone(damage)
    assert fleet.faults == {}
    assert links.down == set()


def test_clearing_a_loss_does_not_mend_a_cut(client: ControllerClient, links: Links) -> None:
    cut, loss = client.link_down("h1@p0"), client.inject(Loss("h1@p0", 1.0))
    assert client.clear(loss.id).links == ()
    assert links.down == {"h1@p0"}
    again = client.inject(Loss("h1@p0", 0.5))
    assert client.clear(cut.id).links == ("h1@p0",)
    assert client.link_up("h1@p0").faults == gone(again)


def test_a_fault_that_a_switch_cannot_make_is_not_in_the_book(client: ControllerClient, fleet: FakeFleet) -> None:
    fleet.unreachable = "t1-1@p1"
    first = client.inject(Blackhole("t1-0@p1"))
    with pytest.raises(ControllerError, match="t1-1@p1 is not reachable"):
        client.inject(Blackhole("t1-*@p1"))
    assert client.faults() == [first]
    assert set(fleet.faults) == {"t1-0@p1"}


@pytest.mark.parametrize(
    ("inject", "sentence"),
    [
        (lambda c: c.inject(Loss("h1@p0", 1.5)), "above 0 % and at most 100 %, not 150 %"),
        (
            lambda c: c.inject(Loss("h1@p0", 0.5, "h2")),
            "no link that matches 'h1@p0' leads to a node that matches 'h2'",
        ),
        (lambda c: c.inject(Corruption("h9@p0", 0.5)), "no link that matches 'h9@p0'"),
        (lambda c: c.inject(Blackhole("t3-0@p0")), "no switch that matches 't3-0@p0'"),
        (lambda c: c.inject(PathLoss(0x3FF)), "has the entropy value 0x3ff"),
        (lambda c: c.inject(PathLoss(1, source="h77")), "no NIC that matches 'h77'"),
    ],
)
def test_impossible_faults_are_refused(client: ControllerClient, inject: Any, sentence: str) -> None:
    with pytest.raises(ControllerError, match=sentence):
        inject(client)
    assert client.faults() == []


def test_errors_are_sentences(client: ControllerClient, links: Links) -> None:
    with pytest.raises(ControllerError, match="no link that matches 't0-0:t1-7@p0': did you mean"):
        client.link_down("t0-0:t1-7@p0")
    with pytest.raises(ControllerError, match="There is no fault f77"):
        client.clear("f77")
    links.broken = True
    with pytest.raises(ControllerError, match="does not exist on this machine"):
        client.link_down("h1@p0")
    assert client.faults() == [], "a fault that was not applied is not in the book"


def test_nobody_listening(tmp_path: Path) -> None:
    with ControllerClient(tmp_path / "none.sock", timeout_s=2) as client:
        with pytest.raises(ControllerError, match=r"does not answer: is the fabric up\?"):
            client.status()
        with pytest.raises(ControllerError, match="does not answer"):
            client.wait_listening(0.1)
