"""Blocking client of the controller.

    with ControllerClient("/run/mrc/demo/controller.sock") as controller:
        controller.link_down("t0-0:t1-1@p0")
        busiest = max(controller.links("t0-*:t1-*@p*"), key=lambda link: link.upward.packets)
        controller.link_up("t0-0:t1-1@p0")

Every failure is a :class:`ControllerError` with one sentence. A process that forks must not do so while it has a
client open, since gRPC has threads: open it after Mininet's nodes are up.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from controller import messages
from controller.errors import ControllerError
from controller.proto import controller_v1_pb2 as pb
from controller.proto import controller_v1_pb2_grpc as pb_grpc
from controller.values import Cleared, Fault, FleetStatus, LinkStatus

DEFAULT_TIMEOUT_S = 10.0


class ControllerClient:
    """A connection to the controller on a UNIX socket, or on any gRPC address given as ``host:port``."""

    def __init__(self, socket: Path | str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        text = str(socket)
        self._target = text if ":" in text and "/" not in text else f"unix:{text.removeprefix('unix:')}"
        self._timeout_s = timeout_s
        options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.enable_http_proxy", 0)]
        self._channel = grpc.insecure_channel(self._target, options=options)
        stub: Any = pb_grpc.ControllerStub  # generated without types
        self._stub = stub(self._channel)

    def __enter__(self) -> ControllerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def wait_listening(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait until the controller takes requests; ControllerError if it does not in time."""
        try:
            grpc.channel_ready_future(self._channel).result(timeout=timeout_s)
        except grpc.FutureTimeoutError:
            raise ControllerError(f"The controller at {self._target} does not answer: is the fabric up?") from None

    def status(self) -> FleetStatus:
        """State of every switch; ``ready`` when each holds exactly what it should."""
        return messages.unpack_status(self._call(self._stub.GetStatus, pb.GetStatusRequest()))

    def reconcile(self) -> FleetStatus:
        """Have every switch's entries compared and repaired now; returns the outcome."""
        return messages.unpack_status(self._call(self._stub.Reconcile, pb.ReconcileRequest()))

    def links(self, pattern: str = "") -> list[LinkStatus]:
        """State, traffic and faults of the links that match, or of all."""
        reply = self._call(self._stub.ListLinks, pb.ListLinksRequest(pattern=pattern))
        return [messages.unpack_link(link) for link in reply.links]

    def link_down(self, pattern: str, *, owner: str = "") -> Fault:
        """Cut the links that match, both directions; they stay cut until the fault is cleared."""
        return self._inject(pb.InjectFaultRequest(pattern=pattern, link_down=pb.LinkDown(), owner=owner))

    def lose(self, pattern: str, probability: float, *, towards: str = "", owner: str = "") -> Fault:
        """Lose packets on the links that match, with a probability from 0 to 1; `towards` picks receiving nodes."""
        loss = pb.Loss(probability=probability, towards=towards)
        return self._inject(pb.InjectFaultRequest(pattern=pattern, loss=loss, owner=owner))

    def corrupt(self, pattern: str, probability: float, *, towards: str = "", owner: str = "") -> Fault:
        """Flip a bit of packets on the links that match, as :meth:`lose`."""
        corruption = pb.Corruption(probability=probability, towards=towards)
        return self._inject(pb.InjectFaultRequest(pattern=pattern, corruption=corruption, owner=owner))

    def silence(self, pattern: str, *, owner: str = "") -> Fault:
        """Let the switches that match look alive and forward nothing."""
        return self._inject(pb.InjectFaultRequest(pattern=pattern, switch_silent=pb.SwitchSilent(), owner=owner))

    def lose_on_path(
        self, ev: int, probability: float = 1.0, *, source: str = "", destination: str = "", owner: str = ""
    ) -> Fault:
        """Lose packets on the path of an entropy value, between the NICs that match."""
        path = pb.PathLoss(entropy_value=ev, probability=probability, source=source, destination=destination)
        return self._inject(pb.InjectFaultRequest(path_loss=path, owner=owner))

    def link_up(self, pattern: str) -> Cleared:
        """Clear every fault on the links that match and take them up, whatever took them down."""
        return self._clear(pb.ClearFaultsRequest(link_pattern=pattern))

    def faults(self) -> list[Fault]:
        """Faults in force, oldest first."""
        reply = self._call(self._stub.ListFaults, pb.ListFaultsRequest())
        return [messages.unpack_fault(fault) for fault in reply.faults]

    def clear(self, fault_id: str) -> Cleared:
        """Clear one fault."""
        return self._clear(pb.ClearFaultsRequest(id=fault_id))

    def clear_owner(self, owner: str) -> Cleared:
        """Clear all faults of an owner."""
        return self._clear(pb.ClearFaultsRequest(owner=owner))

    def clear_all(self) -> Cleared:
        """Clear all faults."""
        return self._clear(pb.ClearFaultsRequest(all=True))

    def _inject(self, request: pb.InjectFaultRequest) -> Fault:
        return messages.unpack_fault(self._call(self._stub.InjectFault, request))

    def _clear(self, request: pb.ClearFaultsRequest) -> Cleared:
        return messages.unpack_cleared(self._call(self._stub.ClearFaults, request))

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise ControllerError(f"The controller at {self._target} does not answer: is the fabric up?") from None
            raise ControllerError(details or code.name) from None
