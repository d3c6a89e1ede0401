"""Paths that are denied through the agent: for good, or leased for as long as a client is there."""

from __future__ import annotations

import pytest

from mrc_host.errors import MrcError
from mrc_host.verbs.remote.connection import AgentConnection
from tests.mrc_host.agent.conftest import Agents

PEER = "fd00:6d:7263::2"


def denied(observer: AgentConnection) -> set[int]:
    return {int(path["ev"]) for path in observer.request("denied_paths")}


def test_leased_denials_end_with_the_last_lease_holder(agents: Agents) -> None:
    observer = AgentConnection(agents.paths[0])
    one, two = (AgentConnection(agents.paths[0]) for _ in range(2))
    for ev in (1, 2):
        one.request("deny_path", peer=PEER, ev=ev, denied=True, leased=True)
    two.request("deny_path", peer=PEER, ev=2, denied=True, leased=True)
    assert denied(observer) == {1, 2}
    one.close()
    agents.turn()
    assert denied(observer) == {2}
    two.request("deny_path", peer=PEER, ev=2, denied=False, leased=True)
    assert denied(observer) == set()


def test_permanent_denials_survive_the_end_of_a_lease(agents: Agents) -> None:
    observer, map_ = (AgentConnection(agents.paths[0]) for _ in range(2))
    observer.request("deny_path", peer=PEER, ev=1, denied=True)
    for ev in (1, 2, 3):
        map_.request("deny_path", peer=PEER, ev=ev, denied=True, leased=True)
    observer.request("deny_path", peer=PEER, ev=2, denied=True)  # now for good
    observer.request("deny_path", peer=PEER, ev=3, denied=False)  # the last word
    map_.request("deny_path", peer=PEER, ev=1, denied=False, leased=True)
    assert denied(observer) == {1, 2}
    map_.close()
    agents.turn()
    assert denied(observer) == {1, 2}


def test_a_refused_lease_leaves_nothing(agents: Agents) -> None:
    client = AgentConnection(agents.paths[0])
    for wrong in ({"leased": 1}, {"denied": "yes"}, {"ev": -1}, {"peer": "h2"}):
        with pytest.raises(MrcError):
            client.request("deny_path", **{"peer": PEER, "ev": 1, "denied": True, "leased": True} | wrong)
    assert denied(client) == set()
