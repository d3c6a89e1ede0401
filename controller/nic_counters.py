"""Counters of hosts' NICs, asked of their agents (docs/counters.md).

Agents are asked one after the other in a thread, since their connections block. One that does not answer is named in
its host's `problem`, and the others are read all the same.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from fnmatch import fnmatchcase

from controller.errors import NoAgentsError
from controller.values import NicCounters
from mrc_host.agent.connection import AgentConnection
from mrc_host.errors import MrcError, NotFoundError
from topologies.fabric import Fabric


async def read(fabric: Fabric, sockets: str, pattern: str, *, queue_pairs: bool) -> list[NicCounters]:
    """Counters of every host that matches (empty: all), with those of each queue pair if `queue_pairs`.

    `sockets` is the path of an agent's socket, with ``{name}`` for its host. FabricError when no host matches,
    ControllerError when the controller knows of no agents.
    """
    names = [name for name in fabric.nic_names if fnmatchcase(name, pattern or "*")]
    if not names:
        fabric.nic(pattern)
    if not sockets:
        raise NoAgentsError
    return await asyncio.to_thread(lambda: [_of_host(name, sockets.format(name=name), queue_pairs) for name in names])


def _of_host(name: str, socket: str, queue_pairs: bool) -> NicCounters:
    try:
        with closing(AgentConnection(socket)) as agent:
            qpns = [int(qp["qpn"]) for qp in agent.request("qps")] if queue_pairs else []
            read = {qpn: _of_pair(agent, qpn) for qpn in qpns}
            pairs = {qpn: counters for qpn, counters in read.items() if counters}
            ports = tuple(agent.request("port_counters"))
            return NicCounters(name, agent.request("hw_counters"), ports, pairs)
    except (MrcError, OSError) as error:
        return NicCounters(name, {}, (), {}, f"The agent of {name} cannot be asked: {error}")


def _of_pair(agent: AgentConnection, qpn: int) -> dict[str, int]:
    """Counters of a queue pair; none when it was destroyed since: the NIC's, which are read later, have them."""
    try:
        counters: dict[str, int] = agent.request("hw_counters", qpn=qpn)
    except NotFoundError:
        return {}
    return counters
