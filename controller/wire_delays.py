"""Delay of a switch's links, made by the embedded switch itself (p4runtime_shim/engine/wire/long_wire.c).

Frames that leave a switch are delayed behind its port; frames that leave a NIC or a kernel switch, before the port of
the embedded switch where they arrive. So a link's delay needs nothing of the kernel or the NIC. A link has the delay
that the fabric gives it, and that of faults on top. Both are set through SwitchManagement on the switch's own address,
and set again whenever a connection is made, since the switch may have been restarted. BMv2 has no such service.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import grpc

from controller.errors import ControllerError
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from topologies.fabric import Fabric, LinkEnd
from topologies.fault_targets import delaying_end

_OPTIONS = (("grpc.enable_http_proxy", 0),)


class WireDelays:
    """The delays at the ports of one switch: `name` and `device_id`, at the gRPC address `address`.

    `timeout_s` is how long it may take to answer.
    """

    def __init__(self, fabric: Fabric, name: str, device_id: int, address: str, *, timeout_s: float) -> None:
        self._fabric = fabric
        self._name = name
        self._device_id = device_id
        self._address = address
        self._timeout_s = timeout_s
        self._faults: dict[LinkEnd, int] = {}  # ns, by the end that frames leave; absent: not known what was set

    async def set(self, delays: Mapping[LinkEnd, int]) -> None:
        """Add delays (ns) to what leaves these ends, which are this switch's or those of NICs at it; 0 takes one away.

        ControllerError if the switch cannot do that now. Delays taken away while it is away are so when it is back.
        """
        before = dict(self._faults)
        changed = {end: delay for end, delay in delays.items() if before.get(end) != delay}
        self._faults |= changed
        try:
            ends = (delaying_end(self._fabric, end) for end in changed)
            await self._send(dict.fromkeys(end for end in ends if end is not None))
        except grpc.RpcError as error:
            if not any(delays.values()):
                return
            self._faults = before
            raise ControllerError(_reason(self._name, error)) from None

    async def renew(self) -> None:
        """Set all delays, of a switch that may have none."""
        ends = [LinkEnd(self._name, port) for port in self._fabric.switch(self._name).ports]
        # BMv2, of which that is known; or it is away again, and this comes again with it.
        with contextlib.suppress(grpc.RpcError):
            await self._send({end: None for end in ends if any(self._delays(end))})

    async def _send(self, ends: Mapping[LinkEnd, Any]) -> None:
        if not ends:
            return
        async with grpc.aio.insecure_channel(self._address, options=_OPTIONS) as channel:
            stub = pb_grpc.SwitchManagementStub(channel)  # type: ignore[no-untyped-call]
            for end in ends:
                arrival, departure = self._delays(end)
                request = pb.SetPortRequest(
                    device_id=self._device_id, port=end.port, arrival_delay_ns=arrival, departure_delay_ns=departure
                )
                await stub.SetPort(request, timeout=self._timeout_s)

    def _delays(self, end: LinkEnd) -> tuple[int, int]:
        """Delay (ns) of what arrives at a port of this switch from a NIC or kernel switch, and of what leaves it."""
        link, peer = self._fabric.link_at(end), self._fabric.peer(end)
        if link is None or peer is None:
            return 0, 0  # a port that this fabric leaves free
        own = link.delay_ns or 0
        arrival = 0 if delaying_end(self._fabric, peer) == peer else own + self._faults.get(peer, 0)
        return arrival, own + self._faults.get(end, 0)


def _reason(name: str, error: grpc.RpcError) -> str:
    code, detail = error.code(), error.details()
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"Switch {name} is BMv2, whose links cannot be given a delay: use embedded switches, or the simulation."
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return f"Switch {name} is not reachable, so its links cannot be given a delay."
    return f"Switch {name} refused a delay: {detail}."
