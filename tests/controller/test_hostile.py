"""What nobody in good faith would send: a clear gRPC error, and the controller goes on."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller import messages
from controller.client import ControllerClient
from controller.events import MAX_SUBSCRIBERS
from controller.fault_limits import EMULATION
from controller.injector import FaultInjector
from controller.messages import message_slot
from controller.proto import controller_v1_pb2 as pb
from controller.proto import path_map_v1_pb2 as map_pb
from controller.proto.controller_v1_pb2_grpc import ControllerStub
from controller.proto.path_map_v1_pb2_grpc import PathMapStub
from controller.server import LARGEST_REQUEST, MAX_REQUESTS, Listening
from controller.service import MAX_LEASES, ControllerService
from controller.values import EventKind
from tests.controller.driven import Links, Switches
from tests.controller.serving import Running, free_port, running
from tests.seeds import SEED
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.faults import KINDS, FaultKind
from topologies.faults.flap import Flap

FABRIC = multi_plane_clos("hostile", planes=2, t0=2, t1=2, hosts=4)
MS = 1_000_000
Code = grpc.StatusCode
REFUSALS = {Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.RESOURCE_EXHAUSTED}


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def one(path: Path, address: str) -> Iterator[Running]:
    with running(FABRIC, Listening(path, address)) as found:
        yield found


@pytest.fixture
def client(one: Running, path: Path) -> Iterator[ControllerClient]:
    with ControllerClient(path) as connected:
        yield connected
        assert connected.faults() == [], "it does not answer any more, or something was left"


@pytest.fixture
def channel(one: Running, path: Path) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"unix:{path}", options=(("grpc.max_send_message_length", -1),)) as opened:
        yield opened


def raw(channel: grpc.Channel, method: str, request: bytes) -> tuple[grpc.StatusCode, str]:
    """Send bytes as a request; status and message."""
    try:
        channel.unary_unary(f"/mrc.controller.v1.Controller/{method}")(request, timeout=20)
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return Code.OK, ""


# ---- bytes


def test_random_bytes_on_the_sockets_do_no_harm(client: ControllerClient, path: Path, address: str) -> None:
    seed = SEED
    print("seed", seed)
    chance = random.Random(seed)
    host, _, port = address.rpartition(":")
    for number in range(40):
        with socket.socket(socket.AF_UNIX if number % 2 else socket.AF_INET) as peer:
            peer.connect(str(path) if number % 2 else (host, int(port)))
            greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if number % 3 else b""
            with contextlib.suppress(OSError):  # it may hang up on us
                peer.sendall(greeting + chance.randbytes(chance.randrange(1, 5000)))


def test_an_oversized_request_is_refused(client: ControllerClient, channel: grpc.Channel) -> None:
    request = pb.SetDeniedRequest(evs=range(1, LARGEST_REQUEST), denied=True).SerializeToString()
    code, details = raw(channel, "SetDenied", request)
    assert code is Code.RESOURCE_EXHAUSTED
    assert str(LARGEST_REQUEST) in details
    assert raw(channel, "SetDenied", pb.SetDeniedRequest(evs=range(5000)).SerializeToString()) == (
        Code.INVALID_ARGUMENT,
        "the request names 5000 entropy values: 4096 are the most",
    )


def test_unknown_fields_are_ignored(client: ControllerClient, channel: grpc.Channel) -> None:
    assert raw(channel, "GetTopology", b"\xfa\x7f\x03abc\x80\x7d\x01") == (Code.OK, "")


@pytest.mark.parametrize("method", ["InjectFault", "ClearFaults", "SetDenied", "GetTopology", "HoldLease"])
def test_malformed_messages_are_invalid_arguments(client: ControllerClient, channel: grpc.Channel, method: str) -> None:
    code, details = raw(channel, method, b"\x0a\xff\xff\xff\xff\xff")
    assert (code, "does not parse" in details) == (Code.INVALID_ARGUMENT, True)
    assert raw(channel, "NoSuchMethod", b"")[0] is Code.UNIMPLEMENTED


# ---- requests


class Refused(Exception):  # noqa: N818 - as gRPC's own
    """Stands for what `abort` raises."""


class Context:
    """Stands for gRPC's."""

    def __init__(self) -> None:
        self.code, self.details = Code.OK, ""

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.code, self.details = code, details
        raise Refused


def make_service() -> tuple[Any, FaultInjector, Links]:
    links, switches = Links(lambda: 0), Switches()
    events: Any = SimpleNamespace(publish=lambda *_: None)
    any_links: Any = links
    fleet: Any = switches
    injector = FaultInjector(FABRIC, switches, links, events)
    return ControllerService(FABRIC, fleet, any_links, events=events, injector=injector), injector, links


TEXT = st.one_of(
    st.sampled_from(["", "*", "h1@p0", "h*", "t0-0:t1-1@p1", "t1-0@p0", "h1", "t0-*", "[", "[!", "h1@p0\n", "\x1b[2J"]),
    st.text(max_size=20),
    st.text(st.sampled_from("*?[]!a"), max_size=300),
)
REAL = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, 0.5, 1e-300, math.nan, math.inf, -1.0]))
INT64 = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([0, 1, -1, 10 * MS, 10**9, (1 << 63) - 1, -(1 << 63)])
)
UINT64 = st.one_of(st.integers(0, (1 << 64) - 1), st.sampled_from([0, 8000, 10**6]))
UINT32 = st.integers(0, (1 << 32) - 1)
VALUE = st.one_of(
    st.builds(pb.FaultParameter, text=TEXT),
    st.builds(pb.FaultParameter, whole=UINT64),
    st.builds(pb.FaultParameter, real=REAL),
    st.builds(pb.FaultParameter, flag=st.booleans()),
    st.just(pb.FaultParameter()),
)
FITTING = {
    "real": st.builds(pb.FaultParameter, real=REAL),
    "flag": st.builds(pb.FaultParameter, flag=st.booleans()),
    "whole": st.builds(pb.FaultParameter, whole=UINT64),
    "text": st.builds(pb.FaultParameter, text=TEXT),
}


def of_kind(kind: FaultKind) -> st.SearchStrategy[Any]:
    """Mostly with parameters that it has, of the type that they have."""
    names = {p.name: FITTING[message_slot(p.type)] for p in kind.all_parameters}
    given = st.fixed_dictionaries({}, optional=names)
    return st.builds(pb.FaultKind, kind=st.sampled_from(sorted(kind.names())), parameters=given)


KIND = st.one_of(
    *map(of_kind, KINDS.values()),
    st.builds(
        pb.FaultKind, kind=st.one_of(TEXT, st.sampled_from(sorted(KINDS))), parameters=st.dictionaries(TEXT, VALUE)
    ),
    st.just(pb.FaultKind()),
)
INJECT = st.builds(
    pb.InjectFaultRequest,
    fault=KIND, start_after_ns=INT64, start_at_ns=INT64, duration_ns=INT64, owner=TEXT,
)  # fmt: skip
CLEAR = st.one_of(
    st.builds(pb.ClearFaultsRequest, id=TEXT),
    st.builds(pb.ClearFaultsRequest, link_pattern=TEXT),
    st.builds(pb.ClearFaultsRequest, owner=TEXT),
    st.builds(pb.ClearFaultsRequest, all=st.booleans()),
    st.just(pb.ClearFaultsRequest()),
)


async def ask(method: Any, request: Any) -> Context:
    context = Context()
    with contextlib.suppress(Refused):
        await method(request, context)
    if context.code is not Code.OK:
        assert context.code in REFUSALS, (context.code, context.details)
        assert context.details
        assert context.details.isprintable(), repr(context.details)
    return context


@pytest.mark.second_ring
@given(st.lists(st.one_of(INJECT, CLEAR), max_size=6))
@example([pb.InjectFaultRequest(fault=messages.pack_kind(Flap("*", 10 * MS, 10**9, random=True)))] * 6)
def test_random_requests_succeed_or_are_refused_with_a_message(requests: list[Any]) -> None:
    async def scenario() -> None:
        service, injector, links = make_service()
        for request in requests:
            method = service.InjectFault if isinstance(request, pb.InjectFaultRequest) else service.ClearFaults
            await ask(method, request)
            context: Any = Context()
            listed = await service.ListFaults(pb.ListFaultsRequest(cleared=True), context)
            pb.ListFaultsResponse.FromString(listed.SerializeToString())
        await ask(service.ClearFaults, pb.ClearFaultsRequest(all=True))
        assert (list(injector.registry), links.down, links.shapes) == ([], set(), {})
        await injector.close(keep=False)

    asyncio.run(scenario())


@pytest.mark.parametrize("rate", [math.nan, math.inf, -math.inf, -1.0, 1e300, 1e-300])
def test_a_path_map_with_an_impossible_rate_is_refused(channel: grpc.Channel, rate: float) -> None:
    stub: Any = PathMapStub
    with pytest.raises(grpc.RpcError) as caught:
        stub(channel).Start(map_pb.StartRequest(rate=rate), timeout=20)
    assert caught.value.code() in REFUSALS
    assert "\n" not in caught.value.details()


@pytest.mark.parametrize(("method", "says"), [("ClearFaults", "which faults"), ("InjectFault", "names no fault")])
def test_empty_requests_are_refused(channel: grpc.Channel, method: str, says: str) -> None:
    code, details = raw(channel, method, b"")
    assert code is Code.INVALID_ARGUMENT
    assert says in details


# ---- too much of something


@pytest.mark.parametrize(
    ("kind", "parameters", "details"),
    [
        ("loss", {"link": "x" * 1_000_000}, "link has 1000000 characters: 256 are the most"),
        ("loss", {"link": "*", "towards": "*a" * 400_000}, "towards has 800000 characters: 256 are the most"),
        ("loss", {"x" * 1_000_000: "h1@p0"}, "a name in parameters has 1000000 characters: 256 are the most"),
        ("port_down", {"node": "h1\x1b[2J"}, "node has characters that cannot be shown"),
    ],
)
def test_texts_in_a_fault_are_bounded(
    client: ControllerClient, channel: grpc.Channel, kind: str, parameters: dict[str, str], details: str
) -> None:
    fault = pb.FaultKind(kind=kind, parameters={k: pb.FaultParameter(text=v) for k, v in parameters.items()})
    request = pb.InjectFaultRequest(fault=fault).SerializeToString()
    assert raw(channel, "InjectFault", request) == (Code.INVALID_ARGUMENT, details)


def test_concurrent_requests_keep_to_the_limit_on_link_changes() -> None:
    async def scenario() -> None:
        service, injector, _ = make_service()
        request = flap("h1@p0", down=10 * MS, up=10 * MS)
        asked = await asyncio.gather(*(ask(service.InjectFault, request) for _ in range(100)))
        assert [context.code for context in asked].count(Code.OK) == EMULATION.max_changes_per_s // 100
        await injector.close(keep=False)

    asyncio.run(scenario())


def flap(link: str, **more: Any) -> Any:
    return pb.InjectFaultRequest(fault=messages.pack_kind(Flap(link, **more)))


def test_link_changes_per_second_are_bounded() -> None:
    async def scenario() -> None:
        service, injector, _ = make_service()
        allowed = 0
        while (context := await ask(service.InjectFault, flap("h1@p0", down=10 * MS, up=10 * MS))).code is Code.OK:
            allowed += 1
        assert allowed == EMULATION.max_changes_per_s // 100
        assert context.code is Code.RESOURCE_EXHAUSTED
        assert "more often than" in context.details
        slow = flap("*", down=3600 * 1000 * MS, up=3600 * 1000 * MS, random=True)
        assert (await ask(service.InjectFault, slow)).code is Code.RESOURCE_EXHAUSTED
        await ask(service.ClearFaults, pb.ClearFaultsRequest(all=True))
        assert (await ask(service.InjectFault, slow)).code is Code.OK
        await injector.close(keep=False)

    asyncio.run(scenario())


@pytest.mark.second_ring
def test_thousands_of_random_flaps_are_bounded() -> None:
    async def scenario() -> int:
        service, injector, _ = make_service()
        slow = flap("*", down=3600 * 1000 * MS, up=3600 * 1000 * MS, random=True)
        codes = [(await ask(service.InjectFault, slow)).code for _ in range(3000)]
        assert codes[-1] is Code.RESOURCE_EXHAUSTED
        tasks = len(asyncio.all_tasks())
        await injector.close(keep=False)
        return tasks

    assert asyncio.run(scenario()) < 2500


@pytest.mark.second_ring
def test_thousands_of_subscribers_and_leases_are_bounded(
    client: ControllerClient, channel: grpc.Channel, one: Running
) -> None:
    stub = ControllerStub(channel)  # type: ignore[no-untyped-call]
    with contextlib.ExitStack() as stack:
        streams = [stub.WatchEvents(pb.WatchEventsRequest()) for _ in range(MAX_SUBSCRIBERS)]
        leases = [stub.HoldLease(pb.HoldLeaseRequest(owner=f"o{number}")) for number in range(MAX_LEASES)]
        for stream in (*streams, *leases):
            stack.callback(stream.cancel)
            next(stream)
        seen: set[tuple[grpc.StatusCode, str]] = set()
        for method, request in (
            ("WatchEvents", pb.WatchEventsRequest()),
            ("HoldLease", pb.HoldLeaseRequest(owner="x")),
        ):
            for stream in [getattr(stub, method)(request) for _ in range(500)]:
                with pytest.raises(grpc.RpcError) as caught:
                    next(stream)
                seen.add((caught.value.code(), caught.value.details()))
        assert {code for code, _ in seen} == {Code.RESOURCE_EXHAUSTED}
        assert {"There are 64 subscribers of events already: end one of them."} < {details for _, details in seen}
        assert client.faults() == []
    until(lambda: one.leases() == 0)
    with client.lease("again"), client.events() as events:
        assert next(events).kind is EventKind.SUBSCRIBED


def first_status(stream: Any) -> grpc.StatusCode:
    """What a stream begins with."""
    try:
        next(stream)
    except grpc.RpcError as error:
        return error.code()
    return Code.OK


def test_thousands_of_streams_of_other_services_are_bounded(client: ControllerClient, channel: grpc.Channel) -> None:
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
    streams = [watch(b"") for _ in range(MAX_REQUESTS + 200)]
    try:
        outcomes = [first_status(stream) for stream in streams]
        assert set(outcomes) == {Code.OK, Code.RESOURCE_EXHAUSTED}
        assert outcomes.count(Code.RESOURCE_EXHAUSTED) >= 200
    finally:
        for stream in streams:
            stream.cancel()

    def answers() -> bool:
        with contextlib.suppress(Exception):
            return client.faults() == []
        return False

    until(answers)


@pytest.mark.second_ring
def test_a_subscriber_that_never_reads_takes_bounded_memory(channel: grpc.Channel, one: Running) -> None:
    stream = ControllerStub(channel).WatchEvents(pb.WatchEventsRequest())
    next(stream)

    def flood() -> None:
        for number in range(200_000):
            one.events.publish(EventKind.LINK_UP, f"link {number}")

    one.call(flood)  # one call: nothing can be sent meanwhile
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(4):
        one.call(flood)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50_000, f"{grown} KiB for 800,000 events that nobody reads"
    stream.cancel()
