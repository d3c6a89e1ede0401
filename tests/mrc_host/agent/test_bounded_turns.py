"""A turn of the agent's loop costs no more for clients that have much, and all turns together cost in proportion.

Cost is counted, not timed: the bytecode instructions of a round of the loop, and the memory it allocates on the way,
which shows copies that C makes without any. Clients are bare sockets, and the test runs the rounds itself.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mrc_host.agent.server import AgentServer
from mrc_host.back_to_back import nic_config
from mrc_host.driver.loop import Loop
from mrc_host.nic import Nic
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.codec import to_json
from mrc_host.verbs.remote.protocol import MessageKind
from mrc_host.verbs_types import CcProfile, QpAddress, QpAttributes, QpType
from tests.seeds import SEED

FEW, MANY = 50, 500
_BYTES_A_STEP = 64  # as much allocated memory costs about as much as one instruction


@dataclass
class Cost:
    """Of the rounds of a loop."""

    dearest: int = 0
    total: int = 0

    def add(self, cost: int) -> None:
        self.dearest = max(self.dearest, cost)
        self.total += cost


class Meter:
    """Counts what a call costs."""

    def __init__(self) -> None:
        self._steps = 0

    def __call__(self, action: Callable[[], object]) -> int:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        self._steps = 0
        earlier = sys.gettrace()
        sys.settrace(self._enter)
        try:
            action()
        finally:
            sys.settrace(earlier)
            allocated = tracemalloc.get_traced_memory()[1] - before
            tracemalloc.stop()
        return self._steps + allocated // _BYTES_A_STEP

    def _enter(self, frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, _argument: Any) -> Any:
        self._steps += 1
        return self._step


class OneAgent:
    """The agent of a real NIC without ports in use, whose loop is run by hand; `cost` is that since `reset`."""

    def __init__(self, folder: Path) -> None:
        self.now = 0
        self.loop = Loop()
        self.nic = Nic(nic_config(0), seed=1)
        self.peer = nic_config(1).address
        self.path = folder / "h1.sock"
        self.server = AgentServer(self.nic, self.loop, self.path, clock=self._clock)
        self.server.start()
        self.meter = Meter()
        self.cost = Cost()

    def _clock(self) -> int:
        self.now += 1_000  # never a millisecond in one round: objects are counted here, not time
        return self.now

    def rounds(self, count: int) -> None:
        """Let the loop go round, counting."""
        for _ in range(count):
            self.cost.add(self.meter(self.loop._round))

    def quietly(self, count: int = 3) -> None:
        """Let it go round, without counting."""
        for _ in range(count):
            self.loop._round()

    def close(self) -> None:
        self.server.close()
        self.loop.close()


class Client:
    """One client's socket."""

    def __init__(self, agent: OneAgent) -> None:
        self.agent = agent
        self._received = b""  # of the answer under way
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.connect(str(agent.path))
        self.sock.send(*protocol.pack_json(MessageKind.HELLO, 1, {"version": protocol.VERSION}))
        agent.quietly()
        self.sock.recv(1 << 16)
        self.sock.setblocking(False)

    def ask(self, op: str, **arguments: Any) -> None:
        """Send a request."""
        self.sock.send(*protocol.pack_json(MessageKind.REQUEST, 7, {"op": op, **arguments}))

    def answer(self) -> Any:
        """The result of the only request under way; BlockingIOError while the rest of it is to come."""
        while True:
            message = self.sock.recv(1 << 16)
            kind, flags, _ = protocol.unpack_header(message)
            if kind == MessageKind.REPLY:
                self._received += message[protocol.HEADER.size :]
                if not flags & protocol.MORE:
                    text, self._received = self._received, b""
                    return json.loads(text)["result"]
            assert kind != MessageKind.ERROR, message

    def call(self, op: str, **arguments: Any) -> Any:
        """Request and result, not counted."""
        self.ask(op, **arguments)
        self.agent.quietly(1)
        return self.answer()

    def counted(self, op: str, **arguments: Any) -> Any:
        """Request and result, counted."""
        self.ask(op, **arguments)
        for _ in range(20 * MANY):
            self.agent.rounds(1)
            try:
                return self.answer()
            except BlockingIOError:
                continue
        raise AssertionError(f"{op} was not answered")


class Application(Client):
    """A client with a protection domain, a completion queue and `count` queue pairs."""

    def __init__(self, agent: OneAgent, count: int, **attributes: Any) -> None:
        super().__init__(agent)
        self.attributes = attributes
        self.pd, self.cq = self.call("alloc_pd"), self.call("create_cq", capacity=4096)
        self.qps = [self.create() for _ in range(count)]

    def create(self, call: Callable[..., Any] | None = None) -> int:
        qpn: int = (call or self.call)(
            "create_qp", pd=self.pd, qp_type="mrc", send_cq=self.cq, recv_cq=self.cq, attributes=self.attributes
        )
        return qpn

    def connect(self, qpn: int, remote: int) -> None:
        self.call("connect_qp", qpn=qpn, remote=to_json(QpAddress(self.agent.peer, remote, remote)))


Scenario = Callable[[OneAgent, int], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


@scenario
def creating_one_more_queue_pair(agent: OneAgent, held: int) -> None:
    application = Application(agent, held)
    application.create(application.counted)


@scenario
def destroying_one(agent: OneAgent, held: int) -> None:
    application = Application(agent, held)
    application.counted("destroy_qp", qpn=application.qps[held // 2])


@scenario
def destroying_one_after_many_others(agent: OneAgent, held: int) -> None:
    application = Application(agent, 1)
    for _ in range(20 * held):
        agent.nic.destroy_qp(agent.nic.create_qp(1, QpType.MRC, application.cq, application.cq, QpAttributes()), 1)
    agent.cost.add(agent.meter(lambda: agent.nic.destroy_qp(application.qps[0], 1)))


@scenario
def deallocating_another_protection_domain(agent: OneAgent, held: int) -> None:
    application = Application(agent, held)
    application.counted("dealloc_pd", pd=application.call("alloc_pd"))


@scenario
def listing_all_queue_pairs(agent: OneAgent, held: int) -> None:
    application = Application(agent, held)
    listed = application.counted("qps")
    assert [one["qpn"] for one in listed] == application.qps


@scenario
def summing_up_all_counters(agent: OneAgent, held: int) -> None:
    application = Application(agent, held)
    assert application.counted("hw_counters")["queue_pairs"] == held


@scenario
def ending_with_queue_pairs(agent: OneAgent, held: int) -> None:
    application = Application(agent, held)
    application.sock.close()
    agent.rounds(held)
    assert not agent.nic._qps.by_qpn


@scenario
def ending_with_completion_queues(agent: OneAgent, held: int) -> None:
    application = Application(agent, 0)
    for _ in range(held):
        application.call("create_cq", capacity=1)
    application.sock.close()
    agent.rounds(held)
    assert not agent.server.owners


@scenario
def ending_with_nothing_while_another_has_completion_queues(agent: OneAgent, held: int) -> None:
    application, other = Application(agent, 0), Client(agent)
    for _ in range(held):
        application.call("create_cq", capacity=1)
    other.sock.close()
    agent.rounds(3)


@scenario
def a_peer_says_that_one_queue_pair_is_gone(agent: OneAgent, held: int) -> None:
    application = Application(agent, held)
    for remote, qpn in enumerate(application.qps, 100):
        application.connect(qpn, remote)
    peer = agent.nic._peers.get(agent.peer)
    assert peer is not None
    agent.cost.add(agent.meter(lambda: peer.remote_gone(100, 0, 0, 5)))


@scenario
def removing_a_profile_that_nobody_uses(agent: OneAgent, held: int) -> None:
    application = Application(agent, held)
    agent.nic.control.create_cc_profile("mine", CcProfile("none"))
    application.counted("destroy_cc_profile", name="mine")


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[Callable[[int], OneAgent]]:
    made: list[OneAgent] = []

    def make(number: int) -> OneAgent:
        folder = tmp_path / str(number)
        folder.mkdir()
        made.append(OneAgent(folder))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_turn_costs_the_same_however_much_a_client_has(name: str, make_agent: Callable[[int], OneAgent]) -> None:
    few, many = make_agent(FEW), make_agent(MANY)
    SCENARIOS[name](few, FEW)
    SCENARIOS[name](many, MANY)
    print(name, few.cost, many.cost)
    assert many.cost.dearest <= 2 * few.cost.dearest + 500
    assert many.cost.total <= 1.5 * MANY / FEW * few.cost.total


@pytest.mark.second_ring
@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_a_random_mixture_of_clients_never_makes_a_turn_dear(seed: int, make_agent: Callable[[int], OneAgent]) -> None:
    from tests.fuzz.fuzz_agent_turns import attack  # it uses this module

    print("seed", seed)
    attack(random.Random(seed), make_agent(0))
