"""The gRPC service (``proto/controller_v1.proto``): one method of it is one method here.

Requests that change links or switches are carried out one at a time, so that what the book of faults says is what is.
A :class:`ControllerError` or :class:`FabricError` becomes a gRPC status with the same sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import grpc

from controller import messages
from controller.errors import ControllerError
from controller.faults import FaultBook
from controller.fleet import Fleet
from controller.links import FabricLinks
from controller.proto import controller_v1_pb2 as pb
from controller.proto import controller_v1_pb2_grpc as pb_grpc
from controller.values import Cleared, Fault
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.fault_entries import DataPlaneFault, LinkFault, fault_entries, lines_of

Request = TypeVar("Request")
Reply = TypeVar("Reply")


def _answers(
    method: Callable[[Any, Request], Awaitable[Reply]],
) -> Callable[[Any, Request, Any], Awaitable[Reply]]:
    """Make a gRPC method of one that takes a request and raises our errors."""

    @functools.wraps(method)
    async def answer(self: Any, request: Request, context: Any) -> Reply:
        try:
            return await method(self, request)
        except FabricError as error:
            code, sentence = grpc.StatusCode.INVALID_ARGUMENT, str(error)
        except ControllerError as error:
            code, sentence = grpc.StatusCode.FAILED_PRECONDITION, str(error)
        await context.abort(code, sentence)
        raise AssertionError("abort raises")

    return answer


class ControllerService(pb_grpc.ControllerServicer):
    """The service over a fleet of switches and a fabric's links."""

    def __init__(self, fabric: Fabric, fleet: Fleet, links: FabricLinks) -> None:
        self._fabric = fabric
        self._fleet = fleet
        self._links = links
        self._book = FaultBook()
        self._changing = asyncio.Lock()

    @_answers
    async def GetStatus(self, _request: pb.GetStatusRequest) -> pb.Status:  # noqa: N802
        """State of every switch."""
        return messages.pack_status(self._fleet.status)

    @_answers
    async def Reconcile(self, _request: pb.ReconcileRequest) -> pb.Status:  # noqa: N802
        """Compare and repair every switch."""
        await self._fleet.reconcile()
        return messages.pack_status(self._fleet.status)

    @_answers
    async def ListLinks(self, request: pb.ListLinksRequest) -> pb.ListLinksResponse:  # noqa: N802
        """Links with their state, traffic and faults."""
        links = self._fabric.find_links(request.pattern) if request.pattern else self._fabric.links
        found = await self._links.read(links)
        return pb.ListLinksResponse(links=[messages.pack_link(link, self._book.ids_on(link.name)) for link in found])

    @_answers
    async def InjectFault(self, request: pb.InjectFaultRequest) -> pb.Fault:  # noqa: N802
        """Take the matching links down, or have the switches make a fault."""
        kind, effect = messages.unpack_request(request)
        async with self._changing:
            links = self._links_of(request.pattern, effect)
            began = time.monotonic_ns()
            switches: tuple[str, ...] = ()
            if effect is None:
                await self._links.set_up([self._fabric.link(name) for name in links], up=False)
            else:
                switches = tuple(fault_entries(self._fabric, (effect,)))
                await self._make_faults(adding=effect)
            fault = Fault(
                id=self._book.next_id(),
                kind=kind,
                pattern=request.pattern,
                links=links,
                owner=request.owner,
                began_at_ns=began,
                applied_at_ns=time.monotonic_ns(),
                effect=effect,
                switches=switches,
            )
            self._book.add(fault)
        return messages.pack_fault(fault)

    def _links_of(self, pattern: str, effect: DataPlaneFault | None) -> tuple[str, ...]:
        """Links that a fault is on."""
        if effect is None:
            return tuple(link.name for link in self._fabric.find_links(pattern))
        if isinstance(effect, LinkFault):
            return tuple(dict.fromkeys(link.name for link, _ in lines_of(self._fabric, effect)))
        return ()

    async def _make_faults(self, *, adding: DataPlaneFault | None = None, without: Iterable[Fault] = ()) -> None:
        """Have the switches make the faults of the book, and one more, or without some."""
        effects = self._book.effects(without)
        wanted = [*effects, adding] if adding is not None else effects
        try:
            await self._fleet.set_faults(fault_entries(self._fabric, wanted))
        except ControllerError:
            if adding is not None:  # some switches may have it
                with contextlib.suppress(ControllerError):
                    await self._fleet.set_faults(fault_entries(self._fabric, effects))
            raise

    @_answers
    async def ClearFaults(self, request: pb.ClearFaultsRequest) -> pb.ClearFaultsResponse:  # noqa: N802
        """Clear the chosen faults and take their links up."""
        async with self._changing:
            faults, also = self._chosen(request)
            began = time.monotonic_ns()
            if any(fault.effect is not None for fault in faults):
                await self._make_faults(without=faults)
            names = tuple(dict.fromkeys((*self._book.remove(faults), *also)))
            await self._links.set_up([self._fabric.link(name) for name in names], up=True)
            cleared = Cleared(tuple(faults), names, began, time.monotonic_ns())
        return messages.pack_cleared(cleared)

    @_answers
    async def ListFaults(self, _request: pb.ListFaultsRequest) -> pb.ListFaultsResponse:  # noqa: N802
        """Faults in force, oldest first."""
        return pb.ListFaultsResponse(faults=[messages.pack_fault(fault) for fault in self._book])

    def _chosen(self, request: pb.ClearFaultsRequest) -> tuple[list[Fault], Iterable[str]]:
        """The faults that a request means, and links to take up besides."""
        which = request.WhichOneof("which")
        if which == "id":
            return [self._book.get(request.id)], ()
        if which == "owner":
            return self._book.of_owner(request.owner), ()
        if which == "all" and request.all:
            return list(self._book), ()
        if which == "link_pattern":
            names = [link.name for link in self._fabric.find_links(request.link_pattern)]
            return self._book.on_links(names), names
        raise FabricError("the request does not say which faults to clear: give an id, a link, an owner, or all")
