"""Who gives way when a server has as many connections as it takes, and that there is no server without this limit."""

from __future__ import annotations

import ast
import random
from collections import Counter
from pathlib import Path

import pytest

from mrc_common.connection_limits import AcceptedConnection, OpenConnections
from tests.seeds import SEED

ROOT = Path(__file__).parents[2]
ROOMS = ("controller", "mrc_common", "mrc_host", "mrc_lab", "p4runtime_shim", "simulation", "topologies")

_LISTENS = {
    "listen", "create_server", "start_server", "start_unix_server", "create_unix_server", "add_insecure_port",
    "add_secure_port", "TCPSite", "UnixSite", "SockSite", "HTTPServer", "ThreadingHTTPServer", "TCPServer",
}  # fmt: skip
_ACCEPTS = {"accept", "sock_accept"}
_NO_SOCKETS = {"self", "watch", "queue", "_queue"}  # one listens for crashes and completions there
_LIMITS = {"mrc_common.limited_server", "mrc_common.connection_limits"}
_OTHERWISE = {
    "mrc_common/unix_sockets.py": "only makes the socket; who accepts on it is found by itself",
    "mrc_common/grpc_endpoint.py": "only binds; the server gets its options where it is made (below)",
    "mrc_host/tools/session.py": "takes one client, as perftest does, and closes the listener",
    "mrc_lab/torch_jobs/replica_groups.py": "never accepts: it finds a free port, which PyTorch's store then takes",
    "mrc_lab/fabric/restart_requests.py": "its owner's alone, and one client at a time, for some seconds at most",
    "topologies/emulation/ownership.py": "never accepts: that it listens is all it says",
}


class Watched:
    """Connections by number, and which of them were closed."""

    def __init__(self, maximum: int, **options: int | bool) -> None:
        self.limits = OpenConnections(maximum, **options)  # type: ignore[arg-type]
        self.closed: list[int] = []
        self.made: list[AcceptedConnection] = []

    def admit(self, owner: str, *, busy: bool = False) -> bool:
        number = len(self.made)
        connection = AcceptedConnection(owner, lambda: self.closed.append(number), busy=busy)
        self.made.append(connection)
        return self.limits.admit(connection).taken


def test_the_oldest_idle_connection_of_the_greediest_gives_way() -> None:
    watched = Watched(4)
    for owner in ("a", "b", "a", "b"):
        assert watched.admit(owner)
    assert watched.admit("b")
    assert watched.closed == [1], "of owners with as many, the newcomer's own"
    assert watched.admit("c")
    assert watched.closed == [1, 0]


def test_a_user_with_all_connections_busy_shuts_nobody_out() -> None:
    watched = Watched(4)
    assert all(watched.admit("a", busy=True) for _ in range(4))
    assert not watched.admit("a")
    assert watched.admit("b", busy=True)
    assert watched.admit("c")
    assert watched.closed == [0, 1]
    assert not watched.admit("a"), "it has as many as any"
    assert watched.closed == [0, 1]


def test_an_ended_connection_makes_room() -> None:
    watched = Watched(1, replaces=False)
    assert watched.admit("a")
    assert not watched.admit("b")
    watched.limits.ended(watched.made[0])
    watched.limits.ended(watched.made[0])
    assert watched.admit("b")
    assert not watched.closed


def test_no_owner_has_more_than_its_share() -> None:
    watched = Watched(10, share=3)
    assert [watched.admit("a") for _ in range(4)] == [True, True, True, False]
    assert watched.admit("b")


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_random_owners_never_exceed_the_limit_and_each_gets_its_part(seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    maximum, owners = rng.randrange(2, 40), [f"o{number}" for number in range(rng.randrange(1, 8))]
    watched = Watched(maximum)
    for _ in range(400):
        connection = rng.choice(watched.made) if watched.made else None
        if connection is not None and rng.random() < 0.2:
            watched.limits.ended(connection)
        before = Counter(one.owner for one in watched.made if one in watched.limits)
        owner = rng.choices(owners, range(1, len(owners) + 1))[0]
        taken = watched.admit(owner, busy=rng.random() < 0.3)
        is_open = [one for one in watched.made if one in watched.limits]
        assert len(is_open) == len(watched.limits) <= maximum
        assert taken == (watched.made[-1] in watched.limits)
        if not taken:
            assert before[owner] + 2 > max(before.values()), "refused although another had more"


def _calls(tree: ast.AST) -> set[str]:
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {getattr(function, "attr", getattr(function, "id", "")) for function in functions}


def _listens(tree: ast.AST) -> bool:
    """Whether there is a call that makes a listening socket, or accepts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            whose = ast.unparse(node.func.value).rpartition(".")[2] if isinstance(node.func, ast.Attribute) else ""
            if name in _LISTENS and not (name == "listen" and whose in _NO_SOCKETS):
                return True
            if name in _ACCEPTS:
                return True
    return False


def _imports(tree: ast.AST) -> set[str]:
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_every_server_has_the_limits() -> None:
    """A new listener uses LimitedServer or OpenConnections, or is in the list above with a reason."""
    found, without = set(), set()
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(file.read_text())
            name = str(file.relative_to(ROOT))
            if _listens(tree):
                found.add(name)
                if not _imports(tree) & _LIMITS and name != "mrc_common/limited_server.py":
                    without.add(name)
    assert without - set(_OTHERWISE) == set(), "these listen without mrc_common.connection_limits"
    assert set(_OTHERWISE) <= found, "these do not listen any more"
    assert {"mrc_host/agent/server.py", "mrc_common/limited_server.py"} <= found, "the search finds nothing"


def test_every_server_of_grpc_has_the_limits() -> None:
    found = 0
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(file.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("grpc.aio.server", "grpc.server"):
                    found += 1
                    assert "grpc_options" in _calls(tree), f"{file} makes a server of gRPC without grpc_options"
    assert found >= 2
