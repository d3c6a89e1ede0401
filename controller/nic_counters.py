"""Counters of hosts' NICs, asked of their agents (docs/counters.md).

Agents are asked in threads, since their connections block, and several at once, so that those that do not answer are
waited for together. Such an agent is named in its host's `problem`, and the others are read all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from controller.errors import NoAgentsError
from controller.values import AGENT_TIMEOUT_S, NicCounters
from mrc_host.errors import MrcError, NotFoundError
from mrc_host.verbs.remote.connection import AgentConnection
from topologies.fabric import Fabric

MAX_AT_ONCE = 16  # agents


async def read(fabric: Fabric, sockets: str, pattern: str, *, queue_pairs: bool) -> list[NicCounters]:
    """Counters of every host that matches (empty: all), with those of each queue pair if `queue_pairs`.

    `sockets` is the path of an agent's socket, with ``{name}`` for its host. FabricError when no host matches,
    ControllerError when the controller knows of no agents.
    """
    names = [nic.name for nic in fabric.find_nics(pattern or "*")]
    if not sockets:
        raise NoAgentsError
    return await asyncio.to_thread(_of_hosts, names, sockets, queue_pairs)


def _of_hosts(names: Sequence[str], sockets: str, queue_pairs: bool) -> list[NicCounters]:
    with ThreadPoolExecutor(min(len(names), MAX_AT_ONCE)) as threads:
        return list(threads.map(lambda name: _of_host(name, sockets.format(name=name), queue_pairs), names))


def _of_host(name: str, socket: str, queue_pairs: bool) -> NicCounters:
    try:
        with closing(AgentConnection(socket, timeout_s=AGENT_TIMEOUT_S)) as agent:
            qpns = [qp.qpn for qp in agent.qps()] if queue_pairs else []
            read = {qpn: _of_pair(agent, qpn) for qpn in qpns}
            pairs = {qpn: counters for qpn, counters in read.items() if counters}
            return NicCounters(name, agent.hw_counters(), agent.port_counters(), pairs)
    except (MrcError, OSError) as error:
        return NicCounters(name, {}, (), {}, f"The agent of {name} cannot be asked: {error}")


def _of_pair(agent: AgentConnection, qpn: int) -> Mapping[str, int]:
    """Counters of a queue pair; none when it was destroyed since: the NIC's, which are read later, have them."""
    try:
        return agent.hw_counters(qpn)
    except NotFoundError:
        return {}
