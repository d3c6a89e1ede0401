"""Denylists over hosts whose NICs are stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controller import denylists
from controller.denylists import Denylists
from controller.errors import ControllerError
from controller.values import HostDeniedPath
from mrc_host import verbs_types
from mrc_host.verbs.errors import AgentLostError
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError

FABRIC = multi_plane_clos("deny", planes=1, t0=1, t1=0, hosts=3)
HOSTS = FABRIC.nic_names
EVS = (0x1, 0x2)


def address(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class Nic:
    """The controller's side of a NIC."""

    def __init__(self, name: str) -> None:
        self.forbidden: list[verbs_types.DeniedPath] = []
        self._peers = [
            verbs_types.DestinationInfo(name=peer, address=address(peer), evs=EVS, planes=(0, 0))
            for peer in HOSTS
            if peer != name
        ]

    def destinations(self) -> list[verbs_types.DestinationInfo]:
        return self._peers

    def denied(self) -> list[verbs_types.DeniedPath]:
        return list(self.forbidden)

    def deny(self, peer: bytes, ev: int) -> None:
        self.forbidden.append(verbs_types.DeniedPath(peer, ev))

    def allow(self, peer: bytes, ev: int) -> None:
        self.forbidden.remove(verbs_types.DeniedPath(peer, ev))


@pytest.fixture
def nics(monkeypatch: pytest.MonkeyPatch) -> dict[str, Nic]:
    found = {name: Nic(name) for name in HOSTS}

    @contextmanager
    def opened(path: str, **_: float) -> Iterator[Nic]:
        if path not in found:
            raise AgentLostError("nobody listens there")
        yield found[path]

    monkeypatch.setattr(denylists.verbs, "open_controller", opened)
    return found


@pytest.fixture
def lists() -> Denylists:
    return Denylists(FABRIC, "{name}")


def test_paths_are_denied_read_and_allowed_again(lists: Denylists, nics: dict[str, Nic]) -> None:
    denied = asyncio.run(lists.set("h1", "", [1, 2, 99], denied=True))
    assert denied == [HostDeniedPath("h1", peer, ev) for peer in ("h2", "h3") for ev in EVS]
    assert asyncio.run(lists.read("")) == denied
    assert asyncio.run(lists.read("h2")) == []
    assert asyncio.run(lists.set("h1", "h2", [1], denied=False)) == [HostDeniedPath("h1", "h2", 1)]
    assert asyncio.run(lists.set("", "", [], denied=False)) == denied[1:]
    assert nics["h1"].forbidden == []


def test_patterns_choose_hosts_and_peers(lists: Denylists, nics: dict[str, Nic]) -> None:
    asyncio.run(lists.set("h[1,2]", "h3", [2], denied=True))
    assert {name: len(nic.forbidden) for name, nic in nics.items()} == {"h1": 1, "h2": 1, "h3": 0}


def test_a_denied_path_to_an_unknown_peer_is_listed(lists: Denylists, nics: dict[str, Nic]) -> None:
    nics["h1"].forbidden.append(verbs_types.DeniedPath(bytes(16), 5))
    assert asyncio.run(lists.read("h1")) == [HostDeniedPath("h1", "00" * 16, 5)]
    asyncio.run(lists.set("", "", [], denied=False))
    assert nics["h1"].forbidden == []


@pytest.mark.parametrize(
    ("host", "peer", "evs", "message"),
    [
        ("h9", "", [1], "h9"),
        ("h1", "h9", [1], "h9"),
        ("h1", "h1", [1], "no path from 'h1' to 'h1' has the entropy value 0x1"),
        ("", "", [0x99], r"no path from '\*' to '\*' has the entropy value 0x99"),
        ("h1", "", [], "names no entropy value"),
    ],
)
def test_unknown_hosts_peers_and_paths_are_reported(
    lists: Denylists, nics: dict[str, Nic], host: str, peer: str, evs: list[int], message: str
) -> None:
    with pytest.raises(FabricError, match=message):
        asyncio.run(lists.set(host, peer, evs, denied=True))


@pytest.mark.parametrize("evs", [[], [1]])
def test_allowing_an_unknown_peer_is_refused_but_not_one_without_a_name(
    lists: Denylists, nics: dict[str, Nic], evs: list[int]
) -> None:
    asyncio.run(lists.set("h1", "h2", [1], denied=True))
    with pytest.raises(FabricError, match="no NIC that matches 'h22'"):
        asyncio.run(lists.set("h1", "h22", evs, denied=False))
    nics["h1"].forbidden.append(verbs_types.DeniedPath(bytes(16), 5))
    asyncio.run(lists.set("h1", "00" * 16, [], denied=False))
    assert nics["h1"].forbidden == [verbs_types.DeniedPath(address("h2"), 1)]


def test_an_agent_that_has_exited_is_named(lists: Denylists, nics: dict[str, Nic]) -> None:
    del nics["h2"]
    with pytest.raises(ControllerError, match="agent of h2 cannot be asked: nobody listens there"):
        asyncio.run(lists.read(""))


def test_without_agents_the_error_says_what_to_do() -> None:
    with pytest.raises(ControllerError, match="start it with --agents"):
        asyncio.run(Denylists(FABRIC, "").read("h1"))
