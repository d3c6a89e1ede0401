"""Clients of an agent that make, list, sum up and leave many objects: no turn of its loop costs much.

Costs are counted, in instructions and allocated memory, so a busy machine changes nothing.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.mrc_host.agent.test_bounded_turns import Application, OneAgent

DEAREST = 150_000  # about three times a turn with 16 queue pairs to release or list, or 64 to sum up
ACTS = 6


def attack(chance: random.Random, agent: OneAgent) -> None:
    """Let clients come, ask and go until nothing of them is left."""
    clients: list[Application] = []
    for _ in range(ACTS):
        clients.append(Application(agent, chance.choice((0, 1, 30, 100))))
        act = chance.randrange(4)
        if act == 0:
            clients.pop(chance.randrange(len(clients))).sock.close()
        elif act == 1:
            chance.choice(clients).counted("qps")
        elif act == 2:
            chance.choice(clients).counted("hw_counters")
        else:
            client = chance.choice(clients)
            client.counted("dealloc_pd", pd=client.call("alloc_pd"))
        agent.rounds(2)
    for client in clients:
        client.sock.close()
    while agent.server.sessions or agent.nic._qps.by_qpn:
        agent.rounds(1)
    assert agent.cost.dearest < DEAREST, f"a turn cost {agent.cost.dearest}"


class Fuzzer:
    """Agents, one after the other."""

    def case(self, chance: random.Random) -> None:
        """One agent."""
        with tempfile.TemporaryDirectory(prefix="mrc-fuzz-") as folder:
            agent = OneAgent(Path(folder))
            try:
                attack(chance, agent)
            finally:
                agent.close()

    def close(self) -> None:
        """Nothing is left."""
