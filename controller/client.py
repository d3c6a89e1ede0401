"""Blocking client of the controller.

    with ControllerClient("/run/mrc/demo/controller.sock") as controller:
        controller.link_down("t0-0:t1-1@p0")
        busiest = max(controller.links("t0-*:t1-*@p*"), key=lambda link: link.upward.packets)
        controller.link_up("t0-0:t1-1@p0")

Every failure is a :class:`ControllerError`. Ctrl-C may come at any time (see ``grpc_signals``). Do
not fork while a client is open, since gRPC has threads: open it after Mininet's nodes are up.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from controller import messages
from controller.errors import ControllerError
from controller.grpc_signals import ThreadedStream, run_in_thread
from controller.proto import controller_v1_pb2 as pb
from controller.proto import controller_v1_pb2_grpc as pb_grpc
from controller.values import (
    CHANGE_REQUESTS,
    SWITCH_TIMEOUT_S,
    Cleared,
    EntryWords,
    Event,
    FleetStatus,
    HandEntryInfo,
    HostDeniedPath,
    LinkStatus,
    MachineClock,
    NicCounters,
    SwitchCounters,
    SwitchTables,
    TableChange,
    Topology,
)
from mrc_common import named_files
from topologies.errors import FabricError
from topologies.faults import Fault
from topologies.faults.link_down import LinkDown
from topologies.faults.record import FaultRecord
from topologies.p4_program import P4Program

DEFAULT_TIMEOUT_S = 10.0
# A change is made at switches that may be slow, and taken back if one cannot make it.
_LONGEST_CHANGE_S = 2 * CHANGE_REQUESTS * SWITCH_TIMEOUT_S
_LARGEST_REPLY = 64 << 20


class ControllerClient:
    """A connection to the controller on a UNIX socket, or on any gRPC address given as ``host:port``.

    `token` is what the controller was started with, if it was; `tls_ca` a PEM file with the certificate that vouches
    for the controller's, which also turns TLS on.
    """

    def __init__(
        self,
        socket: Path | str,
        *,
        token: str = "",
        tls_ca: Path | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        text = str(socket)
        self._target = text if ":" in text and "/" not in text else f"unix:{text.removeprefix('unix:')}"
        self._timeout_s = timeout_s
        self._tls_ca = tls_ca
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        options = [
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", _LARGEST_REPLY),
        ]
        if tls_ca is None:
            channel = run_in_thread(lambda: grpc.insecure_channel(self._target, options=options))
        else:
            credentials = grpc.ssl_channel_credentials(_read(tls_ca))
            channel = run_in_thread(lambda: grpc.secure_channel(self._target, credentials, options=options))
        self._held = [channel]  # what is destroyed with the channel, where nothing interrupts
        self._stub = self._hold(pb_grpc.ControllerStub)
        self._health = self._hold(health_pb2_grpc.HealthStub)

    def _hold(self, stub: Any) -> Any:
        """A service's stub, as long as the connection is open."""
        self._held.append(stub(self._held[0]))
        return weakref.proxy(self._held[-1])

    def __enter__(self) -> ControllerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        held = self._held

        def end() -> None:
            if held:
                held[0].close()
                held.clear()

        run_in_thread(end)

    def wait_listening(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait until the controller takes requests; ControllerError if it does not in time."""
        request = health_pb2.HealthCheckRequest()
        try:
            run_in_thread(
                lambda: self._health.Check(request, timeout=timeout_s, metadata=self._metadata, wait_for_ready=True)
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise ControllerError(self._silent()) from None

    # ---- looking --------------------------------------------------------------------------------------------------

    def topology(self) -> Topology:
        """What the fabric consists of."""
        return messages.unpack(self._call(self._stub.GetTopology, pb.GetTopologyRequest()), Topology)

    def status(self) -> FleetStatus:
        """State of every switch; ``ready`` when each holds exactly what it should."""
        return messages.unpack(self._call(self._stub.GetStatus, pb.GetStatusRequest()), FleetStatus)

    def reconcile(self) -> FleetStatus:
        """Have every switch's entries compared and repaired now; returns the outcome."""
        return messages.unpack(self._change(self._stub.Reconcile, pb.ReconcileRequest()), FleetStatus)

    def tables(self, pattern: str = "", *, entries: bool = False) -> list[SwitchTables]:
        """Tables of the switches that match, or of all, as they are now; with every entry if wanted."""
        reply = self._call(self._stub.GetTables, pb.GetTablesRequest(pattern=pattern, entries=entries))
        return [messages.unpack(switch, SwitchTables) for switch in reply.switches]

    def counters(self, pattern: str = "") -> list[SwitchCounters]:
        """Drops by reason and port counters of the switches that match, or of all."""
        reply = self._call(self._stub.GetCounters, pb.GetCountersRequest(pattern=pattern))
        return [messages.unpack(switch, SwitchCounters) for switch in reply.switches]

    def change_table(self, pattern: str, change: TableChange, words: EntryWords) -> list[str]:
        """Change an entry by hand on the switches that match, or on none of them; returns their names."""
        request = pb.ChangeTableRequest(
            pattern=pattern,
            change=change.name,
            table=words.table,
            match=words.match,
            action=words.action,
            args=words.args,
            priority=words.priority,
        )
        return list(self._change(self._stub.ChangeTable, request).switches)

    def hand_entries(self, pattern: str = "") -> list[HandEntryInfo]:
        """Entries that were changed by hand on the switches that match, or on all."""
        reply = self._call(self._stub.ListHandEntries, pb.ListHandEntriesRequest(pattern=pattern))
        return [messages.unpack(entry, HandEntryInfo) for entry in reply.entries]

    def restore_tables(self, pattern: str = "") -> int:
        """Take all changes by hand back; returns how many there were."""
        return int(self._change(self._stub.RestoreTables, pb.RestoreTablesRequest(pattern=pattern)).changes)

    def load_program(self, program: P4Program) -> None:
        """Have all switches run another program, with what they hold, or none of them."""
        request = pb.LoadProgramRequest(name=program.name, json=program.json.encode(), p4info=program.p4info.encode())
        self._change(self._stub.LoadProgram, request)

    def links(self, pattern: str = "") -> list[LinkStatus]:
        """State, traffic and faults of the links that match, or of all."""
        reply = self._call(self._stub.ListLinks, pb.ListLinksRequest(pattern=pattern))
        return [messages.unpack(link, LinkStatus) for link in reply.links]

    # ---- faults ---------------------------------------------------------------------------------------------------

    def inject(
        self,
        fault: Fault,
        *,
        after_ns: int = 0,
        at_ns: int = 0,
        duration_ns: int = 0,
        owner: str = "",
    ) -> FaultRecord:
        """Make a fault: now, after a time, or at a time of CLOCK_MONOTONIC; until cleared, or for a time."""
        try:
            request = pb.InjectFaultRequest(
                fault=messages.pack_kind(fault),
                start_after_ns=after_ns,
                start_at_ns=at_ns,
                duration_ns=duration_ns,
                owner=owner,
            )
        except (FabricError, ValueError) as error:
            raise ControllerError(str(error)) from None
        return messages.unpack(self._change(self._stub.InjectFault, request), FaultRecord)

    def link_down(self, pattern: str, *, owner: str = "") -> FaultRecord:
        """Cut the links that match, both directions; they stay cut until the fault is cleared."""
        return self.inject(LinkDown(pattern), owner=owner)

    def link_up(self, pattern: str) -> Cleared:
        """Take every fault off the links that match and take them up, whatever took them down.

        A fault stays on the others of its links.
        """
        return self._clear(pb.ClearFaultsRequest(link_pattern=pattern))

    def faults(self, *, cleared: bool = False) -> list[FaultRecord]:
        """Faults that are pending or active, oldest first; before them, if wanted, those cleared last."""
        reply = self._call(self._stub.ListFaults, pb.ListFaultsRequest(cleared=cleared))
        return [messages.unpack(fault, FaultRecord) for fault in reply.faults]

    def clear(self, fault_id: str) -> Cleared:
        """Clear one fault."""
        return self._clear(pb.ClearFaultsRequest(id=fault_id))

    def clear_owner(self, owner: str) -> Cleared:
        """Clear all faults of an owner."""
        return self._clear(pb.ClearFaultsRequest(owner=owner))

    def clear_all(self) -> Cleared:
        """Clear all faults."""
        return self._clear(pb.ClearFaultsRequest(all=True))

    @contextlib.contextmanager
    def lease(self, owner: str) -> Iterator[None]:
        """For as long as the body runs, and this process: the faults of `owner` are cleared when it ends."""
        request = pb.HoldLeaseRequest(owner=owner)
        with contextlib.closing(
            ThreadedStream(lambda: self._stub.HoldLease(request, metadata=self._metadata))
        ) as stream:
            with self._sentences():
                next(stream)
            yield

    def nic_counters(self, host: str = "", *, queue_pairs: bool = False) -> list[NicCounters]:
        """Counters of the NICs of hosts that match, or of all, by name (docs/counters.md)."""
        request = pb.GetNicCountersRequest(host=host, queue_pairs=queue_pairs)
        return [
            NicCounters(
                nic.host,
                dict(nic.counters),
                tuple(dict(port.counters) for port in nic.ports),
                {pair.qpn: dict(pair.counters) for pair in nic.queue_pairs},
                nic.problem,
            )
            for nic in self._call(self._stub.GetNicCounters, request).nics
        ]

    # ---- denylists and events -------------------------------------------------------------------------------------

    def denied(self, host: str = "") -> list[HostDeniedPath]:
        """Paths that the hosts that match, or all, may not use."""
        reply = self._call(self._stub.ListDenied, pb.ListDeniedRequest(host=host))
        return [messages.unpack(path, HostDeniedPath) for path in reply.paths]

    def deny(self, host: str, peer: str, evs: Iterable[int]) -> list[HostDeniedPath]:
        """Forbid hosts that match paths to peers that match; returns the paths."""
        return self._set_denied(host, peer, evs, denied=True)

    def allow(self, host: str = "", peer: str = "", evs: Iterable[int] = ()) -> list[HostDeniedPath]:
        """Undo :meth:`deny`, for some entropy values or all."""
        return self._set_denied(host, peer, evs, denied=False)

    @contextlib.contextmanager
    def events(self, *, timeout_s: float | None = None) -> Iterator[Iterator[Event]]:
        """Everything that happens from now on, the first being that the subscription holds; leave to end it.

        With `timeout_s` it ends by itself after that time.
        """
        request = pb.WatchEventsRequest()

        def begin() -> Any:
            return self._stub.WatchEvents(request, metadata=self._metadata, timeout=timeout_s)

        def read() -> Iterator[Event]:
            with self._sentences():
                try:
                    for message in stream:
                        yield messages.unpack(message, Event)
                except grpc.RpcError as error:
                    if timeout_s is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                        raise

        with contextlib.closing(ThreadedStream(begin)) as stream:
            yield read()

    def clock(self) -> MachineClock:
        """The clocks of the controller's machine now: what times of faults and events mean."""
        return messages.unpack(self._call(self._stub.GetClock, pb.GetClockRequest()), MachineClock)

    def _set_denied(self, host: str, peer: str, evs: Iterable[int], *, denied: bool) -> list[HostDeniedPath]:
        try:
            request = pb.SetDeniedRequest(host=host, peer=peer, evs=evs, denied=denied)
        except ValueError:
            raise ControllerError("An entropy value has 32 bits.") from None
        reply = self._call(self._stub.SetDenied, request)
        return [messages.unpack(path, HostDeniedPath) for path in reply.paths]

    def _clear(self, request: pb.ClearFaultsRequest) -> Cleared:
        return messages.unpack(self._change(self._stub.ClearFaults, request), Cleared)

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        with self._sentences():
            return run_in_thread(lambda: method(request, timeout=self._timeout_s, metadata=self._metadata))

    def _change(self, method: Any, request: Any) -> Any:
        """A call that waits for switches: as long as a change may take, while the controller answers other calls."""
        timeout_s = _LONGEST_CHANGE_S + self._timeout_s
        call = run_in_thread(lambda: method.future(request, timeout=timeout_s, metadata=self._metadata))
        try:
            return run_in_thread(lambda: self._result(call))
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                silent = f"has not finished in {timeout_s:g} s" if run_in_thread(call.done) else "does not answer now"
                raise ControllerError(
                    f"The controller at {self._target} {silent}, but may go on with it:"
                    " 'mrc fault list' shows what it has done, 'mrc doctor' lists crashed and stopped processes."
                ) from None
            with self._sentences():
                raise

    def _result(self, call: Any) -> Any:
        """What a call returns; DEADLINE_EXCEEDED when the controller answers nothing at all meanwhile."""
        while True:
            with contextlib.suppress(grpc.FutureTimeoutError):
                return call.result(timeout=self._timeout_s)
            self._health.Check(health_pb2.HealthCheckRequest(), timeout=self._timeout_s, metadata=self._metadata)

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise ControllerError(self._silent(details or "")) from None
            raise ControllerError(details or code.name) from None

    def _silent(self, details: str = "") -> str:
        where = f"The controller at {self._target}"
        if self._target.startswith("unix:"):
            return f"{where} does not answer: is the fabric up? 'mrc doctor' lists crashed and stopped processes."
        if self._tls_ca is None:
            return f"{where} does not answer: is it up, or does it want TLS (the file of its certificate)?"
        if any(word in details.lower() for word in ("ssl", "tls", "certificate", "handshake")):
            return f"{where} has another certificate than {self._tls_ca} vouches for, or does not use TLS."
        return f"{where} does not answer: is it up?"


def _read(path: Path) -> bytes:
    try:
        return named_files.read_bytes(path)
    except OSError as error:
        raise ControllerError(f"{path} cannot be read: {error.strerror}.") from None
