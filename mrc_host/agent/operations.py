"""What a client may ask for in a REQUEST, one function an operation.

Each function is given the server, the client's session, the request's arguments and the descriptors that came with it,
and returns a value for the reply. It raises MrcError for anything the client did wrong, which becomes an ERROR reply. A
client names protection domains, queues, queue pairs and regions by number; only its own are accepted, except where an
operation just looks (see :data:`OPERATIONS` and the docstrings).

What changes the NIC for others, takes what others wait for, or writes files is the controller's (:data:`CONTROL`), and
refused to a client that came in by the applications' socket.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable
from typing import Any

from mrc_host.agent import descriptors
from mrc_host.agent.codec import format_bytes, from_json
from mrc_host.agent.services import AgentServices
from mrc_host.agent.session import Pair, Queue, Region, Session
from mrc_host.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, StateError
from mrc_host.probing import ProbePlan, ProbeReport
from mrc_host.values import Access, CcProfile, EvProfile, MemoryRegionInfo, QpAddress, QpAttributes, QpState, QpType
from mrc_host.verbs.errors import RefusedError

MAX_OBJECTS = 65536  # of each kind and client, so that a runaway client does not exhaust the agent
MAX_REGION = 1 << 40

Arguments = dict[str, Any]
Operation = Callable[[AgentServices, Session, Arguments, list[int]], Any]


def execute(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """Carry out one request."""
    name = arguments.get("op")
    operation = OPERATIONS.get(name) if isinstance(name, str) else None
    if operation is None:
        raise RefusedError(f"The agent knows no operation {name!r}.")
    if name in CONTROL and not session.control:
        raise _for_controller(server, str(name))
    return operation(server, session, arguments, fds)


# -- protection domains and memory ---------------------------------------------------------------------------------


def create_pd(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> int:
    """Number of a new protection domain, unique on this NIC."""
    _limit(session.holdings.pds, "protection domains")
    pd = server.next_pd()
    session.holdings.pds.add(pd)
    return pd


def destroy_pd(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """Forget a protection domain that nothing uses any more."""
    pd = _own(arguments, "pd", session.holdings.pds, "protection domain")
    holdings = session.holdings
    if any(pair.pd == pd for pair in holdings.pairs.values()) or pd in holdings.region_pds.values():
        raise StateError(f"Protection domain {pd} still has queue pairs or memory regions.")
    holdings.pds.discard(pd)


def register_memory(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> MemoryRegionInfo:
    """Map the memfd that came along and register it with the NIC."""
    pd = _own(arguments, "pd", session.holdings.pds, "protection domain")
    length = _integer(arguments, "length", 1, MAX_REGION)
    access = from_json(Access, arguments.get("access"), "access")
    _limit(session.holdings.regions, "memory regions")
    if len(fds) != 1:
        raise InvalidArgumentError("Registering memory needs exactly one descriptor.")
    if not descriptors.may_map(fds[0]):
        raise ResourceExhaustedError(descriptors.NONE_LEFT)
    memory = _map(fds[0], length)
    view = memoryview(memory)
    region = Region(memory, view)
    try:
        info = server.nic.register_memory(pd, view, access)
    except BaseException:
        region.close()
        raise
    session.holdings.regions[info.lkey] = region
    session.holdings.region_pds[info.lkey] = pd
    return info


def deregister_memory(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """End a registration and unmap the memory."""
    lkey = _own(arguments, "lkey", session.holdings.regions, "memory region")
    server.nic.deregister_memory(lkey)
    session.holdings.regions.pop(lkey).close()
    session.holdings.region_pds.pop(lkey, None)


def _map(fd: int, length: int) -> mmap.mmap:
    """Map a memfd that nobody can shrink under us (touching the lost pages would kill the agent with SIGBUS)."""
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise InvalidArgumentError("The descriptor is not a memfd that allows sealing.") from None
    if not seals & fcntl.F_SEAL_SHRINK:
        raise InvalidArgumentError("The memfd is not sealed against shrinking (F_SEAL_SHRINK).")
    if os.fstat(fd).st_size < length:
        raise InvalidArgumentError(f"The memfd has {os.fstat(fd).st_size} bytes, less than the region's {length}.")
    try:
        return mmap.mmap(fd, length, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except (OSError, ValueError) as error:
        raise ResourceExhaustedError(f"The agent cannot map {length} bytes: {error}.") from None


# -- completion queues ---------------------------------------------------------------------------------------------


def create_cq(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> int:
    """Number of a new completion queue."""
    _limit(session.holdings.queues, "completion queues")
    capacity = _integer(arguments, "capacity", 1, 1 << 31)
    cq = server.nic.create_cq(capacity)
    session.holdings.queues[cq] = Queue(cq, capacity, capacity)
    server.owners[cq] = session
    return cq


def destroy_cq(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """End a completion queue."""
    cq = _own(arguments, "cq", session.holdings.queues, "completion queue")
    server.nic.destroy_cq(cq)
    del session.holdings.queues[cq]
    server.owners.pop(cq, None)


# -- queue pairs ---------------------------------------------------------------------------------------------------


def create_qp(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> int:
    """QPN of a new queue pair."""
    holdings = session.holdings
    _limit(holdings.pairs, "queue pairs")
    pd = _own(arguments, "pd", holdings.pds, "protection domain")
    send_cq = _own(arguments, "send_cq", holdings.queues, "completion queue")
    recv_cq = _own(arguments, "recv_cq", holdings.queues, "completion queue")
    kind = from_json(QpType, arguments.get("type"), "type")
    attributes = from_json(QpAttributes, arguments.get("attributes"), "attributes")
    qpn = server.nic.create_qp(pd, kind, send_cq, recv_cq, attributes)
    holdings.pairs[qpn] = Pair(qpn, kind.value, send_cq, recv_cq, pd)
    return qpn


def connect_qp(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """Bring a queue pair to RTS."""
    qpn = _own(arguments, "qpn", session.holdings.pairs, "queue pair")
    remote = from_json(QpAddress, arguments.get("remote"), "remote")
    server.nic.connect_qp(qpn, remote, server.clock())
    session.holdings.pairs[qpn].remote = f"{server.destination_name(remote.address)}:{remote.qpn}"


def modify_qp(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """One step in a queue pair's life."""
    qpn = _own(arguments, "qpn", session.holdings.pairs, "queue pair")
    state = from_json(QpState, arguments.get("state"), "state")
    given = arguments.get("remote")
    remote = None if given is None else from_json(QpAddress, given, "remote")
    changes = arguments.get("changes", {})
    if not isinstance(changes, dict):
        raise InvalidArgumentError("changes are an object of attributes by name.")
    decoded = from_json(QpAttributes, changes, "changes")
    if state is QpState.RESET and not changes and remote is None:  # with either it is refused and changes nothing
        session.flush_posts(qpn)
    server.nic.modify_qp(qpn, state, server.clock(), {name: getattr(decoded, name) for name in changes}, remote=remote)
    pair = session.holdings.pairs[qpn]
    if remote is not None:
        pair.remote = f"{server.destination_name(remote.address)}:{remote.qpn}"
    elif state is QpState.RESET:
        pair.remote = ""


def destroy_qp(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """End a queue pair."""
    qpn = _own(arguments, "qpn", session.holdings.pairs, "queue pair")
    session.flush_posts(qpn)
    server.nic.destroy_qp(qpn, server.clock())
    del session.holdings.pairs[qpn]


def posts_waiting(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> list[Any]:
    """(QPN, how many of its posts wait here until the NIC has room), of `qpn` or of all that have such."""
    waiting = session.posts_waiting()
    if "qpn" not in arguments:
        return list(waiting.items())
    qpn = _own(arguments, "qpn", session.holdings.pairs, "queue pair")
    return [(qpn, waiting.get(qpn, 0))]


# -- looking -------------------------------------------------------------------------------------------------------


def qp_address(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """What the other end needs to connect to a queue pair of the client's own."""
    return server.nic.qp_address(_own(arguments, "qpn", session.holdings.pairs, "queue pair"))


def qp_state(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """State of a queue pair, anybody's."""
    return server.nic.qp_state(_known_qp(server, arguments))


def qp_counters(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """Counters of a queue pair, anybody's."""
    return server.nic.qp_counters(_known_qp(server, arguments))


def qp_paths(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """Paths of a queue pair, anybody's."""
    return server.nic.qp_paths(_known_qp(server, arguments))


def nic_counters(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """Counters of the NIC."""
    return dict(server.nic.nic_counters())


def hw_counters(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """All counters of queue pair `qpn`, anybody's, or of the NIC (docs/counters.md)."""
    qpn = _known_qp(server, arguments) if "qpn" in arguments else None
    return server.nic.hw_counters(qpn, server.clock())


def port_counters(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """All counters of each port (docs/counters.md)."""
    return server.nic.port_counters()


def info(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """The NIC's name and address, its destinations, and the agent's process id."""
    config = server.nic.config
    destinations = [{"name": d.name, "address": format_bytes(d.address)} for d in config.destinations]
    return {"name": config.name, "address": config.address, "pid": os.getpid(), "destinations": destinations}


def ports(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """State and counters of the NIC's ports."""
    return server.ports()


def delays(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """How long the machine delayed frames at the NIC's ports (:mod:`mrc_host.driver.delays`), of what was measured.

    With `measure` delays are measured from now on (True), or no more (False, the start), whoever asked before.
    """
    if "measure" in arguments:
        if not session.control:
            raise _for_controller(server, "delays with measure")
        server.measure_delays(from_json(bool, arguments["measure"], "measure"))
    return server.delays()


def qps(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """All queue pairs of all clients: who has them, where they lead, state and counters."""
    return [
        {
            "qpn": pair.qpn,
            "client": other.name,
            "type": pair.kind,
            "remote": pair.remote,
            "state": server.nic.qp_state(pair.qpn).value,
            "counters": server.nic.qp_counters(pair.qpn),
        }
        for other in server.sessions
        for pair in other.holdings.pairs.values()
    ]


def events(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """Recent asynchronous events numbered above `since` (0: all that are kept)."""
    since = _integer(arguments, "since", 0, 1 << 62)
    return [event for event in server.recent_events if event["number"] > since]


def subscribe(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """Have events sent: "own" (the NIC's ports, and this client's queue pairs), "all", or "" for none."""
    scope = arguments.get("scope")
    if scope not in ("own", "all", ""):
        raise InvalidArgumentError(f"Events are subscribed as 'own', 'all' or '', not {scope!r}.")
    if scope == "all" and not session.control:
        raise _for_controller(server, "subscribe to all events")
    session.events = scope


def deny_path(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """Controller's denylist: take one path to a peer out of use for every queue pair, or allow it again.

    With `leased` the path is denied while this client is connected, and `denied` False only ends its own lease.
    """
    path = from_json(bytes, arguments.get("peer"), "peer"), _integer(arguments, "ev", 0, (1 << 32) - 1)
    denied = from_json(bool, arguments.get("denied"), "denied")
    if not from_json(bool, arguments.get("leased", False), "leased"):
        server.denials.set(path, denied)
    elif denied:
        server.denials.lease(path, session)
    else:
        server.denials.end(path, session)


def denied_paths(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """The denylist."""
    return server.nic.control.denied_paths()


def create_ev_profile(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> int:
    """Number of a new EV profile. It belongs to the NIC and outlives the client."""
    return server.nic.control.create_ev_profile(from_json(EvProfile, arguments.get("profile"), "profile"))


def destroy_ev_profile(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """Forget an EV profile that no queue pair has."""
    server.nic.control.destroy_ev_profile(_integer(arguments, "number", 0, 1 << 62))


def ev_profiles(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """All EV profiles, each with its number."""
    return list(server.nic.control.ev_profiles().items())


def create_cc_profile(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """A new CC profile under a name. It belongs to the NIC and outlives the client."""
    name = from_json(str, arguments.get("name"), "name")
    server.nic.control.create_cc_profile(name, from_json(CcProfile, arguments.get("profile"), "profile"))


def destroy_cc_profile(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """Forget a CC profile that no queue pair names."""
    server.nic.control.destroy_cc_profile(from_json(str, arguments.get("name"), "name"))


def cc_profiles(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """All CC profiles, each with its name."""
    return list(server.nic.control.cc_profiles().items())


def probe(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> int:
    """Send an endpoint probe; the result is an event of type "probe" with the number returned."""
    peer = from_json(bytes, arguments.get("peer"), "peer")
    ev, timeout = _integer(arguments, "ev", 0, (1 << 32) - 1), _integer(arguments, "timeout", 1, 1 << 62)
    return server.nic.control.probe(peer, ev, server.clock(), timeout)


def start_probing(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """Send path probes by `plan`, whoever asked for others before, for as long as this client is connected."""
    server.nic.control.start_probing(from_json(ProbePlan, arguments.get("plan"), "plan"), server.clock())
    server.probing_session = session


def stop_probing(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> None:
    """Send no more path probes."""
    server.nic.control.stop_probing()


def probe_report(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> ProbeReport:
    """Path probes sent and arrived since the last report, whoever took that."""
    return server.nic.control.probe_report()


def port_states(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """State of the NIC's ports, or of those of `peer` as it last told."""
    given = arguments.get("peer")
    return server.nic.control.port_states(None if given is None else from_json(bytes, given, "peer"))


def destinations(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> Any:
    """Every NIC to which there are paths, with their entropy values."""
    return server.nic.control.destinations()


def trace(server: AgentServices, session: Session, arguments: Arguments, fds: list[int]) -> str:
    """Write the event trace to the descriptor that came along from now on; `path` is what that file is called.

    An empty `path` ends the trace; without one nothing changes. The agent opens no file that a client names, whatever
    rights it has. The reply is where the trace goes then, "" for nowhere.
    """
    if "path" in arguments:
        path = from_json(str, arguments["path"], "path")
        if path and not fds:
            raise InvalidArgumentError("A trace needs the descriptor of its file, open for writing.")
        server.trace_to(path, os.dup(fds[0]) if path else None)
    return server.trace_path


OPERATIONS: dict[str, Operation] = {
    operation.__name__: operation
    for operation in (
        create_pd,
        destroy_pd,
        register_memory,
        deregister_memory,
        create_cq,
        destroy_cq,
        create_qp,
        connect_qp,
        modify_qp,
        destroy_qp,
        posts_waiting,
        qp_address,
        qp_state,
        qp_counters,
        qp_paths,
        nic_counters,
        hw_counters,
        port_counters,
        info,
        ports,
        delays,
        qps,
        events,
        subscribe,
        deny_path,
        denied_paths,
        create_ev_profile,
        destroy_ev_profile,
        ev_profiles,
        create_cc_profile,
        destroy_cc_profile,
        cc_profiles,
        probe,
        start_probing,
        stop_probing,
        probe_report,
        port_states,
        destinations,
        trace,
    )
}


CONTROL = frozenset(
    operation.__name__
    for operation in (
        deny_path,
        create_ev_profile,
        destroy_ev_profile,
        create_cc_profile,
        destroy_cc_profile,
        probe,
        start_probing,
        stop_probing,
        probe_report,
        trace,
    )
)


# -- arguments -----------------------------------------------------------------------------------------------------


def _integer(arguments: Arguments, key: str, low: int, high: int) -> int:
    value = arguments.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidArgumentError(f"{key} is an integer from {low} to {high}, not {value!r}.")
    return value


def _own(arguments: Arguments, key: str, own: Any, what: str) -> int:
    number = arguments.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or number not in own:
        raise NotFoundError(f"This client has no {what} {number!r}.")
    return number


def _known_qp(server: AgentServices, arguments: Arguments) -> int:
    qpn = arguments.get("qpn")
    if isinstance(qpn, int) and any(qpn in session.holdings.pairs for session in server.sessions):
        return qpn
    raise NotFoundError(f"There is no queue pair {qpn!r}.")


def _limit(collection: Any, what: str) -> None:
    if len(collection) >= MAX_OBJECTS:
        raise ResourceExhaustedError(f"A client has at most {MAX_OBJECTS} {what}.")


def _for_controller(server: AgentServices, what: str) -> RefusedError:
    return RefusedError(
        f"{what!r} is for the controller, not for applications: use {server.control_path}, which the agent's own user "
        "alone may open."
    )
