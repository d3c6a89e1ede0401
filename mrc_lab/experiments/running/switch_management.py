"""Requests to every embedded switch of an emulated fabric for which P4Runtime has no messages.

SwitchManagement (p4runtime_shim/proto/switch_v1.proto) is served on the switches' own addresses, by one process for all
or one for each. BMv2 and kernel switches have no such service, and a switch that a fault killed does not
answer: they are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import grpc

from controller.grpc_signals import run_in_thread
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc
from p4runtime_shim.traffic_manager import PortSample
from topologies.fabric import Fabric

TIMEOUT_S = 10.0
_OPTIONS = (("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", 64 << 20))
_T = TypeVar("_T")


def ask(fabric: Fabric, address: str, request: Callable[[Any], Iterable[_T]]) -> list[_T]:
    """What `request` returns for the stub of each process at `address` (``{name}`` in it is the switch's), in one list.

    Ctrl-C may come at any time (`controller.grpc_signals`).
    """
    return run_in_thread(lambda: [answer for one in targets(fabric, address) for answer in ask_process(one, request)])


def read_counters(fabric: Fabric, address: str) -> list[pb.Switch]:
    """Counters of all embedded switches at `address` (``{name}`` in it is the switch's); none where there are none."""
    return ask(fabric, address, lambda stub: stub.GetSwitches(pb.GetSwitchesRequest(), timeout=TIMEOUT_S).switches)


def sample_ports(fabric: Fabric, address: str) -> dict[str, tuple[int, dict[int, PortSample]]]:
    """Ports of all embedded switches at `address`, by switch, each with the time of the sample."""
    names = {switch.device_id: switch.name for switch in fabric.switches}
    found = ask(fabric, address, lambda stub: stub.SamplePorts(pb.SamplePortsRequest(), timeout=TIMEOUT_S).switches)
    return {
        names[switch.device_id]: (
            switch.time_ns,
            {port.port: PortSample(*(getattr(port, name) for name in PortSample._fields)) for port in switch.ports},
        )
        for switch in found
    }


def targets(fabric: Fabric, address: str) -> list[str]:
    """The gRPC address of each process at `address`."""
    return [*dict.fromkeys(address.format(name=switch.name) for switch in fabric.p4_switches)]


def ask_process(target: str, request: Callable[[Any], Iterable[_T]]) -> list[_T]:
    """What `request` returns for the stub of the process at `target`; nothing if it does not answer."""
    with grpc.insecure_channel(target, options=_OPTIONS) as channel:
        stub = pb_grpc.SwitchManagementStub(channel)  # type: ignore[no-untyped-call]
        try:
            return list(request(stub))
        except grpc.RpcError:
            return []
