"""The gRPC service (``proto/controller_v1.proto``): one method of it is one method here.

A :class:`ControllerError` or :class:`FabricError` becomes a gRPC status with the same message. Any other exception
becomes INTERNAL, with its traceback in the log, and the service continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf import text_format

from controller import inspection, messages, nic_counters
from controller.denylists import Denylists
from controller.errors import BusyError, ControllerError
from controller.events import Events
from controller.fleet import Fleet
from controller.injector import FaultInjector
from controller.links import FabricLinks
from controller.proto import controller_v1_pb2 as pb
from controller.proto import controller_v1_pb2_grpc as pb_grpc
from controller.table_changes import TableChanges
from controller.values import (
    EntryWords,
    EventKind,
    HostDeniedPath,
    LinkEndInfo,
    LinkInfo,
    MachineClock,
    NicInfo,
    SwitchInfo,
    TableChange,
    Topology,
)
from topologies import addressing
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd
from topologies.faults.record import FaultRecord
from topologies.p4_program import P4Program

Request = TypeVar("Request")
Reply = TypeVar("Reply")
LONGEST_TEXT = 256  # characters of a pattern or name in a request
MAX_EVS = 4096  # entropy values in a request
MAX_LEASES = 64
MAX_WORDS = 256  # fields of a key, or arguments of an action, in a request
_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def _refusals() -> Iterator[list[tuple[grpc.StatusCode, str]]]:
    """Errors of the body as what to refuse with."""
    found: list[tuple[grpc.StatusCode, str]] = []
    try:
        yield found
    except FabricError as error:
        found.append((grpc.StatusCode.INVALID_ARGUMENT, str(error)))
    except BusyError as error:
        found.append((grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)))
    except ControllerError as error:
        found.append((grpc.StatusCode.FAILED_PRECONDITION, str(error)))
    except Exception as error:
        _LOG.exception("a request failed")
        found.append((grpc.StatusCode.INTERNAL, f"The controller failed: {error!r}; its log says more."))


def _answers(
    method: Callable[[Any, Request], Awaitable[Reply]],
) -> Callable[[Any, Request, Any], Awaitable[Reply]]:
    """Make a gRPC method of one that takes a request and raises our errors."""

    @functools.wraps(method)
    async def answer(self: Any, request: Request, context: Any) -> Reply:
        with _refusals() as refusals:
            _check_texts(request)
            return await method(self, request)
        await context.abort(*refusals[0])
        raise AssertionError("abort raises")

    return answer


def _streams(
    method: Callable[[Any, Request], AsyncGenerator[Reply, None]],
) -> Callable[[Any, Request, Any], AsyncIterator[Reply]]:
    """The same for a method that answers with a stream."""

    @functools.wraps(method)
    async def answer(self: Any, request: Request, context: Any) -> AsyncIterator[Reply]:
        with _refusals() as refusals:
            _check_texts(request)
            async with contextlib.aclosing(method(self, request)) as replies:
                async for reply in replies:
                    yield reply
        if refusals:
            await context.abort(*refusals[0])

    return answer


def _check_texts(message: Any, name: str = "") -> None:
    """FabricError if a text is too long or cannot be shown, in the message (called `name`) or in one that it holds."""
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key, held in value.items():
                _check_text(f"a name in {field.name}", key)
                _check_texts(held, key)
        elif field.message_type is not None:
            _check_texts(value)
        else:
            _check_text(name or field.name, value)


def _check_text(name: str, value: object) -> None:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise FabricError(f"{name} has {len(value)} characters: {LONGEST_TEXT} are the most")
    if isinstance(value, str) and not value.isprintable():
        raise FabricError(f"{name} has characters that cannot be shown")


class ControllerService(pb_grpc.ControllerServicer):
    """The service over a fleet of switches and a fabric's links; `agents` is as for :class:`Denylists`."""

    def __init__(
        self,
        fabric: Fabric,
        fleet: Fleet,
        links: FabricLinks,
        *,
        events: Events | None = None,
        injector: FaultInjector | None = None,
        agents: str = "",
        tables: TableChanges | None = None,
    ) -> None:
        self._fabric = fabric
        self._fleet = fleet
        self._links = links
        self._events = events or Events()
        self._faults = injector or FaultInjector(fabric, fleet, links, self._events)
        self._tables = tables or TableChanges(fabric, fleet)
        self._agents = agents
        self._denylists = Denylists(fabric, agents)
        self.leases: Counter[str] = Counter()  # held, by owner

    # ---- topology, switches, links ----------------------------------------------------------------------------------

    @_answers
    async def GetTopology(self, _request: pb.GetTopologyRequest) -> pb.Topology:  # noqa: N802
        """What the fabric consists of."""
        return messages.pack(_topology(self._fabric), pb.Topology)

    @_answers
    async def GetStatus(self, _request: pb.GetStatusRequest) -> pb.Status:  # noqa: N802
        """State of every switch."""
        return messages.pack(self._fleet.status, pb.Status)

    @_answers
    async def Reconcile(self, _request: pb.ReconcileRequest) -> pb.Status:  # noqa: N802
        """Compare and repair every switch."""
        await self._fleet.reconcile()
        return messages.pack(self._fleet.status, pb.Status)

    @_answers
    async def GetTables(self, request: pb.GetTablesRequest) -> pb.GetTablesResponse:  # noqa: N802
        """Tables as they are."""
        found = await inspection.tables(self._fabric, self._fleet, request.pattern, entries=request.entries)
        return pb.GetTablesResponse(switches=[messages.pack(tables, pb.SwitchTables) for tables in found])

    @_answers
    async def ChangeTable(self, request: pb.ChangeTableRequest) -> pb.ChangeTableResponse:  # noqa: N802
        """Change an entry by hand."""
        change = TableChange[pb.ChangeTableRequest.Change.Name(request.change)] if request.change else None
        if change is None or not request.pattern:
            raise FabricError("the request does not say which entry of which switch to add, modify or delete")
        if max(len(request.match), len(request.args)) > MAX_WORDS:
            raise FabricError(f"an entry has {MAX_WORDS} fields or arguments at most")
        words = EntryWords(request.table, tuple(request.match), request.action, tuple(request.args), request.priority)
        return pb.ChangeTableResponse(switches=await self._tables.change(request.pattern, change, words))

    @_answers
    async def ListHandEntries(self, request: pb.ListHandEntriesRequest) -> pb.ListHandEntriesResponse:  # noqa: N802
        """Changes by hand."""
        found = self._tables.listed(request.pattern)
        return pb.ListHandEntriesResponse(entries=[messages.pack(entry, pb.HandEntry) for entry in found])

    @_answers
    async def RestoreTables(self, request: pb.RestoreTablesRequest) -> pb.RestoreTablesResponse:  # noqa: N802
        """Take changes by hand back."""
        return pb.RestoreTablesResponse(changes=await self._tables.restore(request.pattern))

    @_answers
    async def LoadProgram(self, request: pb.LoadProgramRequest) -> pb.LoadProgramResponse:  # noqa: N802
        """Run another program."""
        try:
            program = P4Program(request.name, request.json.decode(), request.p4info.decode())
            await self._tables.load_program(program)
        except (ValueError, text_format.ParseError) as error:
            raise FabricError(f"{request.name or 'the program'} is no compiled P4 program: {error}") from None
        return pb.LoadProgramResponse()

    @_answers
    async def GetCounters(self, request: pb.GetCountersRequest) -> pb.GetCountersResponse:  # noqa: N802
        """Drops and port counters."""
        found = await inspection.counters(self._fabric, self._fleet, request.pattern)
        return pb.GetCountersResponse(switches=[messages.pack(counters, pb.SwitchCounters) for counters in found])

    @_answers
    async def ListLinks(self, request: pb.ListLinksRequest) -> pb.ListLinksResponse:  # noqa: N802
        """Links with their state, traffic and faults."""
        links = self._fabric.find_links(request.pattern) if request.pattern else self._fabric.links
        registry = self._faults.registry
        found = [
            dataclasses.replace(link, fault_ids=registry.ids_on(link.name)) for link in await self._links.read(links)
        ]
        return pb.ListLinksResponse(links=[messages.pack(link, pb.Link) for link in found])

    # ---- faults -----------------------------------------------------------------------------------------------------

    @_answers
    async def InjectFault(self, request: pb.InjectFaultRequest) -> pb.Fault:  # noqa: N802
        """Make a fault, now or later."""
        fault = messages.unpack_kind(request.fault)
        if request.start_after_ns and request.start_at_ns:
            raise FabricError("a fault begins after a time or at a time, not both")
        for name in ("start_after_ns", "start_at_ns", "duration_ns"):
            if getattr(request, name) < 0:
                raise FabricError(f"{name} is {getattr(request, name)}: it cannot be negative")
        start = request.start_at_ns or None
        if request.start_after_ns:
            start = time.monotonic_ns() + request.start_after_ns
        record = await self._faults.add(
            fault, owner=request.owner, start_at_ns=start, duration_ns=request.duration_ns or None
        )
        return messages.pack(record, pb.Fault)

    @_answers
    async def ClearFaults(self, request: pb.ClearFaultsRequest) -> pb.ClearFaultsResponse:  # noqa: N802
        """Clear the chosen faults and take their links up; of links, whatever is on them."""
        if request.WhichOneof("which") == "link_pattern":
            links = self._fabric.find_links(request.link_pattern)
            cleared = await self._faults.repair(link.name for link in links)
        else:
            cleared = await self._faults.clear(self._chosen(request))
        return messages.pack(cleared, pb.ClearFaultsResponse)

    @_answers
    async def ListFaults(self, request: pb.ListFaultsRequest) -> pb.ListFaultsResponse:  # noqa: N802
        """Faults, oldest first."""
        registry = self._faults.registry
        found = [*registry.past, *registry] if request.cleared else registry
        return pb.ListFaultsResponse(faults=[messages.pack(record, pb.Fault) for record in found])

    @_streams
    async def HoldLease(self, request: pb.HoldLeaseRequest) -> AsyncGenerator[pb.Lease, None]:  # noqa: N802
        """Lasts until the client disconnects; then its faults are cleared, unless it holds another lease."""
        owner = request.owner
        if not owner:
            raise FabricError("a lease needs an owner")
        if self.leases.total() >= MAX_LEASES:
            raise BusyError(f"There are {MAX_LEASES} leases already: end one of them.")
        self.leases[owner] += 1
        try:
            yield pb.Lease(owner=owner)
            await asyncio.get_running_loop().create_future()  # cancelled when the stream ends
        finally:
            self.leases[owner] -= 1
            if not self.leases[owner]:
                del self.leases[owner]
                await asyncio.shield(self._release(owner))

    async def _release(self, owner: str) -> None:
        try:
            await self._faults.clear(self._faults.registry.of_owner(owner))
        except ControllerError as error:
            _LOG.error("faults of %s stay: %s", owner, error)

    def _chosen(self, request: pb.ClearFaultsRequest) -> list[FaultRecord]:
        """The faults that a request means."""
        which = request.WhichOneof("which")
        registry = self._faults.registry
        if which == "id":
            return [self._faults.get(request.id)]
        if which == "owner":
            return registry.of_owner(request.owner)
        if which == "all" and request.all:
            return list(registry)
        raise FabricError("the request does not say which faults to clear: give an id, a link, an owner, or all")

    @_answers
    async def GetNicCounters(self, request: pb.GetNicCountersRequest) -> pb.GetNicCountersResponse:  # noqa: N802
        """Counters of hosts' NICs."""
        found = await nic_counters.read(self._fabric, self._agents, request.host, queue_pairs=request.queue_pairs)
        return pb.GetNicCountersResponse(
            nics=[
                pb.NicCounters(
                    host=nic.host,
                    counters=nic.counters,
                    ports=[pb.NamedCounters(counters=port) for port in nic.ports],
                    queue_pairs=[pb.QueuePairCounters(qpn=q, counters=c) for q, c in nic.queue_pairs.items()],
                    problem=nic.problem,
                )
                for nic in found
            ]
        )

    # ---- denylists and events ---------------------------------------------------------------------------------------

    @_answers
    async def ListDenied(self, request: pb.ListDeniedRequest) -> pb.ListDeniedResponse:  # noqa: N802
        """Paths that hosts may not use."""
        return pb.ListDeniedResponse(paths=_paths(await self._denylists.read(request.host)))

    @_answers
    async def SetDenied(self, request: pb.SetDeniedRequest) -> pb.SetDeniedResponse:  # noqa: N802
        """Forbid paths or allow them again."""
        if len(request.evs) > MAX_EVS:
            raise FabricError(f"the request names {len(request.evs)} entropy values: {MAX_EVS} are the most")
        evs = frozenset(request.evs)
        found = await self._denylists.set(request.host, request.peer, evs, denied=request.denied)
        verb = "denied" if request.denied else "allowed"
        for host, count in Counter(path.host for path in found).items():
            self._events.publish(EventKind.DENYLIST_CHANGED, host, f"{count} paths {verb}")
        return pb.SetDeniedResponse(paths=_paths(found))

    @_answers
    async def GetClock(self, _request: pb.GetClockRequest) -> pb.Clock:  # noqa: N802
        """Clocks of this machine."""
        return messages.pack(MachineClock.here(), pb.Clock)

    @_streams
    async def WatchEvents(self, _request: pb.WatchEventsRequest) -> AsyncGenerator[pb.Event, None]:  # noqa: N802
        """Events, until the client disconnects."""
        subscription = self._events.subscribe()
        try:
            while True:
                yield messages.pack(await subscription.next(), pb.Event)
        finally:
            self._events.unsubscribe(subscription)


def _paths(found: Iterable[HostDeniedPath]) -> list[pb.DeniedPath]:
    return [messages.pack(path, pb.DeniedPath) for path in found]


def _topology(fabric: Fabric) -> Topology:
    def end(one: LinkEnd) -> LinkEndInfo:
        return LinkEndInfo(one.node, one.port, addressing.interface_name(fabric, one))

    return Topology(
        fabric.name,
        fabric.planes,
        fabric.mtu,
        tuple(SwitchInfo(s.name, s.tier, s.plane, s.index, s.device_id, s.ports) for s in fabric.switches),
        tuple(NicInfo(n.name, n.t0, n.downlink, str(addressing.nic_address(fabric, n))) for n in fabric.nics),
        tuple(LinkInfo(x.name, x.plane, end(x.lower), end(x.upper), x.rate_bps) for x in fabric.links),
    )
