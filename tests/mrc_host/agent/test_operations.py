"""Verbs asked of an agent: what is not as declared is refused with a message, and affects nobody else."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mrc_host import verbs
from mrc_host.errors import InvalidArgumentError, MrcError, NotFoundError
from mrc_host.path_probes import ProbePath, ProbePlan
from mrc_host.verbs import AgentLostError, RejectedError
from mrc_host.verbs.declaration import Descriptor
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.agent_verbs import VERBS, AgentVerbs, EventScope
from mrc_host.verbs.remote.codec import CodecError, to_json
from mrc_host.verbs.remote.connection import AgentConnection
from mrc_host.verbs.remote.protocol import MessageKind
from mrc_host.verbs_types import Access, CcProfile, EvProfile, QpAddress, QpAttributes, QpState, QpType
from tests.mrc_host.agent.clients import End, connected, ended, raw
from tests.mrc_host.agent.conftest import Agents
from tests.mrc_host.agent.test_hostile import memfd

WRONG: tuple[Any, ...] = (
    None, True, -1, 1 << 70, 10**4000, 1.5, float("nan"), "x", "\ud800", "9" * 5000, "x" * 30_000, [], {}, [None],
    {"a": 1}, [[[[[]]]]],
)  # fmt: skip


def good_arguments(end: End) -> dict[str, dict[str, Any]]:
    """For each verb that takes arguments, some that are right or nearly so."""
    pd, cq, qpn = end.pd.number, end.cq.number, end.qp.qpn
    peer, path = "fd00:6d:7263::2", ProbePath(0, bytes(16), bytes(16), 1)
    remote = to_json(QpAddress(bytes(16), 5, 0))
    return {
        "dealloc_pd": {"pd": pd},
        "deregister_memory": {"lkey": end.mr.info.lkey},
        "destroy_cq": {"cq": cq},
        "create_qp": {"pd": pd, "qp_type": "mrc", "send_cq": cq, "recv_cq": cq, "attributes": {}},
        "connect_qp": {"qpn": qpn, "remote": remote},
        "modify_qp": {"qpn": qpn, "state": "init", "changes": {}, "remote": remote},
        "post_recv": {"qpn": qpn, "wr_ids": [5]},
        "destroy_qp": {"qpn": qpn},
        "qp_address": {"qpn": qpn},
        "query_qp": {"qpn": qpn},
        "qp_state": {"qpn": qpn},
        "qp_counters": {"qpn": qpn},
        "qp_paths": {"qpn": qpn},
        "hw_counters": {"qpn": qpn},
        "port_states": {"peer": peer},
        "deny_path": {"peer": peer, "ev": 1, "denied": True, "leased": True},
        "create_ev_profile": {"profile": to_json(EvProfile())},
        "destroy_ev_profile": {"number": 1},
        "create_cc_profile": {"name": "mine", "profile": to_json(CcProfile("dcqcn"))},
        "destroy_cc_profile": {"name": "mine"},
        "probe": {"peer": peer, "ev": 1, "timeout": 1},
        "start_probing": {"plan": to_json(ProbePlan((path,), 1_000_000))},
        "register_memory": {"pd": pd, "length": 10, "access": 3, "offset": 0, "address": 4097},
        "create_cq": {"capacity": 1},
        "completions_waiting": {"qpn": qpn},
        "posts_waiting": {"qpn": qpn},
        "delays": {"measure": True},
        "events": {"since": 0},
        "subscribe": {"scope": "own"},
        "trace": {"path": ""},
        "modify_ev_format": {"number": 1, "change": {"state": "offline", "mode": "srv6", "widths": [32]}},
        "programmed_ev_format": {"number": 1},
        "modify_ev_profile": {"number": 1, "change": {"state": "offline", "mode": "explicit", "count": 2}},
        "programmed_ev_profile": {"number": 1},
        "replace_evs": {"number": 1, "replacements": [{"old": None, "new": {"ev": 1, "port": 0}}]},
        "deny_ev": {"number": 1, "ev": 1, "denied": True},
        "programmed_evs": {"number": 0, "first": 0, "ev": None},
        "modify_cc_profile": {"number": 1, "change": {"state": "offline", "controlled": True}},
        "programmed_cc_profile": {"number": 1},
        "enable_port": {"number": 0, "enabled": False},
        "port_enabled": {"number": 0},
    }


class Asker:
    """A client that asks whatever it likes, in the place of an application that has some objects."""

    def __init__(self, agents: Agents) -> None:
        self.end = End(agents.paths[0])
        self.connection: AgentConnection = self.end.provider.connection
        self.arguments = good_arguments(self.end)

    def says(self, op: Any, arguments: dict[str, Any]) -> str:
        """The message that refuses a request; nothing where it was carried out."""
        try:
            self.connection.request(op, **arguments)
        except MrcError as error:
            return str(error)
        return ""


@pytest.mark.parametrize("name", sorted(VERBS))
def test_any_argument_value_is_accepted_or_refused(agents: Agents, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """For each argument of each verb, with the others right."""
    takes = [one.name for one in VERBS[name].parameters.values() if not isinstance(one.rule, Descriptor)]
    asker = Asker(agents)
    good = asker.arguments.get(name, {})
    assert good.keys() == set(takes), "add the verb's arguments to good_arguments"
    for wrong in takes:
        for value in WRONG:
            error = asker.says(name, {**good, wrong: value})
            assert "failed to carry out this request" not in error
            assert len(error) < 400
    assert caplog.records == [] or not any(record.exc_info for record in caplog.records)
    assert asker.connection.info().name == "h1"


@pytest.mark.parametrize("name", sorted(name for name, verb in VERBS.items() if verb.parameters))
def test_missing_arguments_are_named(agents: Agents, name: str) -> None:
    asker = Asker(agents)
    for parameter in VERBS[name].parameters.values():
        if parameter.required and not isinstance(parameter.rule, Descriptor):
            rest = {key: value for key, value in asker.arguments[name].items() if key != parameter.name}
            assert asker.says(name, rest) == f"{name} needs {parameter.name!r}."


@pytest.mark.parametrize("name", sorted(VERBS))
def test_undeclared_arguments_are_refused(agents: Agents, name: str) -> None:
    asker = Asker(agents)
    fds = [memfd(10)] if name == "register_memory" else []
    given = {"fd": fds[0]} if fds else {}
    before = agents.call(lambda: list(agents.nics[0].modified))
    error = asker.says(name, {**asker.arguments.get(name, {}), **given, "port": 1})
    assert error == f"{name} takes no 'port'."
    assert agents.call(lambda: agents.nics[0].modified) == before
    assert asker.end.qp.state is QpState.RESET
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize(
    "op",
    ["", "x" * 60_000, "call", "holds", "check_controller", "__init__", "_nic", "post_send", "op", None, 5, [], {}],
)
def test_unknown_verbs_are_refused_briefly(agents: Agents, op: Any) -> None:
    error = Asker(agents).says(op, {})
    assert error.startswith("The agent knows no operation ")
    assert len(error) < 100


def test_a_descriptor_number_in_json_is_refused(agents: Agents) -> None:
    """A number that a client names is not one of the agent's own descriptors."""
    asker, fd = Asker(agents), memfd(4096)
    request = {"op": "register_memory", "pd": asker.end.pd.number, "length": 10, "access": 3, "fd": fd}
    for fds, expected in (([], "needs exactly one descriptor"), ([fd], "takes no 'fd'"), ([fd, fd], "exactly one")):
        with closing(raw(agents.paths[0])) as sock:
            pd = {"op": "alloc_pd"}
            sock.send(protocol.pack_json(MessageKind.REQUEST, 1, pd)[0])
            request["pd"] = protocol.unpack_json(sock.recv(1 << 16)[8:])["result"]
            socket.send_fds(sock, protocol.pack_json(MessageKind.REQUEST, 2, request), fds)
            assert expected in protocol.unpack_json(sock.recv(1 << 16)[8:])["message"]
    os.close(fd)


def test_deeply_nested_json_does_no_harm(agents: Agents) -> None:
    bystander = End(agents.paths[0])
    for depth in (100, 900, 990, 2000):
        with closing(raw(agents.paths[0])) as sock:
            body = '{"op":"create_cq","capacity":' + "[" * depth + "]" * depth + "}"
            sock.send(protocol.HEADER.pack(MessageKind.REQUEST, 0, 0, 1) + body.encode())
            assert sock.recv(1 << 16)
    assert bystander.qp.state is QpState.RESET


def test_an_oversized_request_is_refused_by_the_client(agents: Agents) -> None:
    path = ProbePath(0, bytes(16), bytes(16), 1)
    with closing(AgentConnection(agents.paths[0])) as agent:
        with pytest.raises(InvalidArgumentError, match="at most 65536 bytes"):
            agent.start_probing(ProbePlan((path,) * 4096, 1_000_000))
        assert agent.info().name == "h1"


def test_verbs_of_a_connection_are_typed(agents: Agents) -> None:
    a, b = connected(agents)
    a.qp.write(a.mr, b.mr.remote)
    a.cq.wait(10)
    with closing(AgentConnection(agents.paths[0], client="typed")) as agent:
        info = agent.info()
        assert (info.name, info.address, info.pid) == ("h1", agents.nics[0].config.address, os.getpid())
        assert [(nic.name, nic.address) for nic in info.destinations] == [("h2", agents.nics[1].config.address)]
        (row,) = agent.qps()
        assert (row.qpn, row.type, row.state) == (a.qp.qpn, QpType.MRC, QpState.RTS)
        assert (row.remote, row.counters.data_sent) == (f"h2:{b.qp.qpn}", 1)
        assert agent.hw_counters(a.qp.qpn) == agent.hw_counters() == {"tx_data_packets": 0}
        assert agent.port_counters() == ({"link_up": 1}, {"link_up": 1})
        number = agent.create_ev_profile(EvProfile())
        assert agent.ev_profiles() == {number: EvProfile()}
        agent.create_cc_profile("mine", CcProfile("dcqcn"))
        assert agent.cc_profiles() == {"mine": CcProfile("dcqcn")}
        assert agent.posts_waiting() == {}
        agent.subscribe(EventScope.ALL)
        agents.call(lambda: agents.nics[0].port_changed(1, False, 11))
        agents.turn()
        assert [event["number"] for event in agent.events(0)] == [1]
        with pytest.raises(NotFoundError, match="This client has no queue pair"):
            agent.posts_waiting(a.qp.qpn)
        with pytest.raises(NotFoundError, match="There is no queue pair 5"):
            agent.qp_state(5)


def test_an_exception_in_a_verb_is_answered_and_logged_and_the_agent_continues(
    agents: Agents, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = connected(agents)

    def broken(qpn: int) -> QpState:
        raise ZeroDivisionError("a defect")

    with caplog.at_level(logging.ERROR, "mrc.agent"):
        monkeypatch.setattr(agents.nics[0], "qp_state", broken)
        with pytest.raises(RejectedError, match="The agent failed to carry out this request; see its log"):
            _ = a.qp.state
        monkeypatch.setattr(agents.nics[0], "qp_state", lambda qpn: object())  # JSON has no form for it
        with pytest.raises(RejectedError, match="The agent failed"):
            _ = a.qp.state
    assert "ZeroDivisionError: a defect" in caplog.text
    a.qp.write(a.mr, b.mr.remote)
    verbs.check(a.cq.wait(10))


def test_a_client_that_disconnects_before_the_response_leaves_nothing(agents: Agents) -> None:
    before = len(os.listdir("/proc/self/fd"))
    fd = memfd(4096)
    for _ in range(20):
        sock = raw(agents.paths[0])
        for number, (op, arguments) in enumerate(
            (("alloc_pd", {}), ("create_cq", {"capacity": 8}), ("register_memory", {"pd": 1, "length": 9, "access": 3}))
        ):
            socket.send_fds(sock, protocol.pack_json(MessageKind.REQUEST, number, {"op": op, **arguments}), [fd])
        sock.close()
    agents.turn()
    os.close(fd)
    agents.turn()
    nic = agents.nics[0]
    assert agents.call(lambda: (agents.servers[0].sessions, nic.queues, nic.regions)) == ((), {}, {})
    assert len(os.listdir("/proc/self/fd")) <= before


def test_two_clients_get_their_own_responses(agents: Agents) -> None:
    one, two = (AgentConnection(agents.paths[0]) for _ in range(2))
    for agent in (one, two) * 3:
        number = agent.create_cq(4)
        with pytest.raises(NotFoundError, match="This client has no"):
            (two if agent is one else one).destroy_cq(number)
        agent.destroy_cq(number)
    with pytest.raises(NotFoundError):
        one.register_memory(77, 10, Access.LOCAL_WRITE, 0)
    one.close()
    assert two.create_cq(4)
    two.close()


@pytest.fixture
def liar(tmp_path: Path) -> Iterator[Callable[[Callable[[int], list[bytes]]], AgentConnection]]:
    """Makes connections to agents that greet, answer the first request as given, and stay unless they send half."""
    ends: list[Any] = []

    def connect(answer: Callable[[int], list[bytes]]) -> AgentConnection:
        path = tmp_path / f"{len(ends)}.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            sock = listener.accept()[0]
            with sock, listener:
                _, _, number = protocol.unpack_header(sock.recv(1 << 16))
                hello = {"version": protocol.VERSION, "name": "h1", "address": "::"}
                sock.send(protocol.pack_json(MessageKind.HELLO, number, hello)[0])
                _, _, number = protocol.unpack_header(sock.recv(1 << 16))
                messages = answer(number)
                for message in messages:
                    sock.send(message)
                if not protocol.unpack_header(messages[-1])[1] & protocol.MORE:
                    sock.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        connection = AgentConnection(path)
        ends.append((thread, connection))
        return connection

    yield connect
    for thread, connection in ends:
        connection.close()
        thread.join(10)


@pytest.mark.parametrize("result", [None, 5, "rts", [], [5], {"qpn": 1}, [{"qpn": "x"}], {"1": 2}])
@pytest.mark.parametrize("ask", [AgentVerbs.qps, AgentVerbs.info, AgentVerbs.ev_profiles, AgentVerbs.port_counters])
def test_undeclared_response_values_are_an_error(liar: Any, ask: Any, result: Any) -> None:
    agent = liar(lambda number: protocol.pack_json(MessageKind.REPLY, number, {"result": result}))
    if result == [] and ask is not AgentVerbs.info and ask is not AgentVerbs.ev_profiles:
        assert ask(agent) == ()
        return
    with pytest.raises(CodecError, match=f"At {ask.verb.name}"):
        ask(agent)


def test_a_truncated_response_is_an_error(liar: Any) -> None:
    def half(number: int) -> list[bytes]:
        return protocol.pack_json(MessageKind.REPLY, number, {"result": ["x" * 100_000]})[:1]

    with pytest.raises(AgentLostError):
        liar(half).qps()


def test_a_truncated_request_only_closes_its_connection(agents: Agents) -> None:
    bystander = End(agents.paths[0])
    (message,) = protocol.pack_json(MessageKind.REQUEST, 1, {"op": "create_cq", "capacity": 8})
    for length in (1, 7, 8, 9, len(message) - 1):
        sock = raw(agents.paths[0])
        sock.send(message[:length])
        assert ended(sock)
    assert agents.call(lambda: len(agents.nics[0].queues)) == 1
    assert bystander.qp.state is QpState.RESET


def test_modify_qp_changes_only_the_given_attributes(agents: Agents) -> None:
    end = End(agents.paths[0])
    end.provider.modify_qp(end.qp.qpn, QpState.INIT, {"ev_profile": 1, "congestion_window": 9000})
    ((_, state, changes, remote),) = agents.call(lambda: agents.nics[0].modified)
    assert (state, changes, remote) == (QpState.INIT, {"ev_profile": 1, "congestion_window": 9000}, None)
    assert QpAttributes(**changes).congestion_window == 9000
    with pytest.raises(InvalidArgumentError, match="unknown key 'speed'"):
        end.provider.modify_qp(end.qp.qpn, QpState.INIT, {"speed": 1})
