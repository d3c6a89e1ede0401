"""Delays of links as orders to switches: which port delays what, what is set again, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from controller.errors import ControllerError
from controller.wire_delays import WireDelays
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric, LinkEnd
from topologies.fault_targets import delaying_end

MS = 1_000_000
FABRIC = multi_plane_clos("wires", planes=1, t0=2, t1=1, hosts=2)
HOST, DOWNLINK, UPLINK = LinkEnd("h1", 0), FABRIC.peer(LinkEnd("h1", 0)), FABRIC.link("t0-0:t1-0@p0").lower


class Switch(pb_grpc.SwitchManagementServicer):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.ports: dict[int, tuple[int, int]] = {}
        self.orders = 0
        self.refuses = False

    async def SetPort(self, request: pb.SetPortRequest, context: Any) -> pb.Port:  # noqa: N802
        assert request.device_id == 7
        if self.refuses:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a delay is 0 to 60 s")
        self.orders += 1
        self.ports[request.port] = (request.arrival_delay_ns, request.departure_delay_ns)
        return pb.Port(port=request.port)


@asynccontextmanager
async def serving(folder: Path, switch: Switch | None) -> AsyncIterator[str]:
    server = grpc.aio.server()
    if switch is not None:
        pb_grpc.add_SwitchManagementServicer_to_server(switch, server)  # type: ignore[no-untyped-call]
    address = f"unix:{folder}/socket"
    server.add_insecure_port(address)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)


def wires(address: str, fabric: Fabric = FABRIC) -> WireDelays:
    return WireDelays(fabric, "t0-0@p0", 7, address, timeout_s=10.0)


def test_a_switch_delays_what_leaves_it_and_what_nics_send_to_it(tmp_path: Path) -> None:
    assert DOWNLINK is not None
    assert delaying_end(FABRIC, HOST) == DOWNLINK
    assert delaying_end(FABRIC, UPLINK) == UPLINK

    async def scenario() -> None:
        switch = Switch()
        async with serving(tmp_path, switch) as address:
            delays = wires(address)
            await delays.set({HOST: 5 * MS, UPLINK: 2 * MS})
            assert switch.ports == {DOWNLINK.port: (5 * MS, 0), UPLINK.port: (0, 2 * MS)}
            await delays.set({DOWNLINK: 3 * MS})
            assert switch.ports[DOWNLINK.port] == (5 * MS, 3 * MS)
            await delays.set({HOST: 0, UPLINK: 2 * MS})
            assert switch.ports == {DOWNLINK.port: (0, 3 * MS), UPLINK.port: (0, 2 * MS)}
            assert switch.orders == 4, "what does not change is not set"

    asyncio.run(scenario())


def test_a_switch_that_was_restarted_gets_the_fabrics_delays_and_those_of_faults(tmp_path: Path) -> None:
    links = tuple(replace(link, delay_ns=MS) if link.name == "h1@p0" else link for link in FABRIC.links)
    fabric = replace(FABRIC, links=links)

    async def scenario() -> None:
        assert DOWNLINK is not None
        switch = Switch()
        async with serving(tmp_path, switch) as address:
            delays = wires(address, fabric)
            await delays.renew()
            assert switch.ports == {DOWNLINK.port: (MS, MS)}
            await delays.set({HOST: 4 * MS, UPLINK: MS})
            wanted, switch.ports = dict(switch.ports), {}
            assert wanted == {DOWNLINK.port: (5 * MS, MS), UPLINK.port: (0, MS)}
            await delays.renew()
            assert switch.ports == wanted
            await delays.set({HOST: 0, UPLINK: 0})
            assert switch.ports == {DOWNLINK.port: (MS, MS), UPLINK.port: (0, 0)}

    asyncio.run(scenario())


def test_what_a_controller_before_this_one_has_set_is_taken_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        switch = Switch()
        async with serving(tmp_path, switch) as address:
            await wires(address).set({UPLINK: 0})
            assert switch.ports == {UPLINK.port: (0, 0)}

    asyncio.run(scenario())


def test_a_delay_that_cannot_be_made_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, None) as address:  # as BMv2: without the service
            delays = wires(address)
            await delays.renew()
            with pytest.raises(ControllerError, match="t0-0@p0 is BMv2, whose links cannot be given a delay"):
                await delays.set({UPLINK: MS})
            await delays.set({UPLINK: 0})
        with pytest.raises(ControllerError, match="t0-0@p0 is not reachable"):
            await delays.set({UPLINK: MS})
        switch, other = Switch(), tmp_path / "other"
        other.mkdir()
        async with serving(other, switch) as address:
            delays = wires(address)
            switch.refuses = True
            with pytest.raises(ControllerError, match="refused a delay: a delay is 0 to 60 s"):
                await delays.set({UPLINK: 10**12})
            switch.refuses = False
            await delays.renew()
            assert switch.ports == {}

    asyncio.run(scenario())


def test_a_delay_taken_away_while_the_switch_is_away_is_not_set_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        switch = Switch()
        async with serving(tmp_path, switch) as address:
            delays = wires(address)
            await delays.set({UPLINK: MS})
        await delays.set({UPLINK: 0})
        switch.ports.clear()
        async with serving(tmp_path, switch):
            await delays.renew()
            assert switch.ports == {}

    asyncio.run(scenario())
