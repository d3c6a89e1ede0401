"""Reroutes of an emulated run, as the controller reports them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import grpc

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import Event, EventKind
from mrc_lab.experiments.running.recording import RerouteRecord

_ENDS_S = 10.0  # at most, until a stream that was closed has ended


@contextlib.contextmanager
def followed(controller: ControllerClient, found: Callable[[RerouteRecord], None]) -> Iterator[None]:
    """Meanwhile every reroute is given to `found`, from a thread of its own; times are of CLOCK_MONOTONIC.

    A controller that goes away reports no more.
    """

    def follow(events: Iterator[Event]) -> None:
        with contextlib.suppress(ControllerError, grpc.RpcError, ValueError):  # ValueError: the stream was closed
            for event in events:
                if event.kind is EventKind.REROUTED:
                    found(RerouteRecord(event.at_ns, int(event.name.removeprefix("p")), event.detail))

    with controller.events() as events:
        next(events)  # the subscription holds
        thread = threading.Thread(target=follow, args=(events,), name="reroutes", daemon=True)
        thread.start()
        yield
    thread.join(_ENDS_S)
