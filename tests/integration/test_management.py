"""The management network and ``mrc exec``: hosts reach each other by name, whatever happens to the fabric."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_host import compiled
from mrc_lab.cli.main import run
from tests.integration.names import own
from topologies.clos import multi_plane_clos
from topologies.emulation import management, namespaces
from topologies.emulation.bring_up import emulated

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

MRC = Path(sys.executable).with_name("mrc")
_SERVE = (
    "import socket; s = socket.create_server(('', 5000)); print('ready', flush=True); c, a = s.accept(); print(a[0])"
)


class Lab:
    """A fabric that is up, and commands inside its hosts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def inside(self, host: str, *command: str, status: int = 0) -> str:
        """What a command inside a host prints, errors included."""
        done = subprocess.run(
            [MRC, "exec", self.name, host, "--", *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == status, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    name = own("mgmt")
    assert run(["up", "--name", name, "--hosts", "4", "--t0", "2", "--t1", "1", "--rate", "20M"]) == 0
    try:
        yield Lab(name)
    finally:
        assert run(["down", name]) == 0


def test_hosts_resolve_each_others_names(lab: Lab) -> None:
    fabric = multi_plane_clos(lab.name, hosts=4, planes=2, t0=2, t1=1)
    assert lab.inside("h1", "getent", "hosts", "h3").split() == [str(management.address(fabric.nic("h3"))), "h3"]
    looked_up = "import socket, sys; print(socket.getnameinfo((sys.argv[1], 80), socket.NI_NAMEREQD)[0])"
    third = str(management.address(fabric.nic("h3")))
    assert lab.inside("h1", sys.executable, "-c", looked_up, third) == "h3\n"
    assert lab.inside("h1", sys.executable, "-c", looked_up, f"::ffff:{third}") == "h3-mgmt\n", "as torch's store does"
    assert lab.inside("h1", "hostname").strip() == "h1" != socket.gethostname()
    assert "localhost" in lab.inside("h1", "getent", "hosts", "localhost")


def test_management_tcp_connections_survive_a_fabric_outage(lab: Lab) -> None:
    links = [f"h3@p{plane}" for plane in range(2)]
    for link in links:
        assert run(["fault", "add", lab.name, link, "down"]) == 0
    try:
        with subprocess.Popen(
            [MRC, "exec", lab.name, "h3", "--", sys.executable, "-c", _SERVE], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            lab.inside("h1", sys.executable, "-c", "import socket; socket.create_connection(('h3', 5000))")
            assert server.stdout.read().strip() == lab.inside("h3", "getent", "hosts", "h1").split()[0]
        assert "0 received" in lab.inside("h1", "ping", "-c", "1", "-W", "1", "h3-p0", status=1)
    finally:
        assert run(["fault", "clear", lab.name, "all"]) == 0


def test_planes_have_host_names(lab: Lab) -> None:
    assert "1 received" in lab.inside("h1", "ping", "-c", "1", "-W", "2", "h3-p1")


def test_commands_find_their_host_in_the_environment(lab: Lab) -> None:
    output = lab.inside("h2", "sh", "-c", 'echo "$MRC_FABRIC $MRC_HOST"; test -S "$MRC_AGENT"')
    assert output.split() == [lab.name, "h2"]


def test_the_exit_status_of_a_command_is_returned(lab: Lab) -> None:
    lab.inside("h1", "sh", "-c", "exit 7", status=7)
    assert "There is no command no-such-command" in lab.inside("h1", "no-such-command", status=127)
    assert "no NIC that matches 'h9'" in lab.inside("h9", "true", status=3)


def test_the_prompt_lets_hosts_resolve_names(lab: Lab) -> None:
    lines = ("h1 getent hosts h3", "h1 hostname", "h1 kill -9 $$", "h1 hostname")
    done = subprocess.run(
        [MRC, "shell", lab.name, *(word for line in lines for word in ("-c", line))],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    first, second, *_, last = [line for line in done.stdout.splitlines() if line != compiled.outdated()]
    assert first.split()[1:] == ["h3"]
    assert second == last == "h1"  # a shell that has been killed comes back in the same namespaces


def test_the_management_network_is_isolated(lab: Lab) -> None:
    other = own("mgmt-b")
    assert run(["up", "--name", other, "--hosts", "2", "--t0", "2", "--t1", "1", "--rate", "20M"]) == 0
    try:
        # Both have the same addresses, so what answers is one's own.
        assert lab.inside("h1", "getent", "hosts", "h2") == Lab(other).inside("h1", "getent", "hosts", "h2")
        assert "0 received" in Lab(other).inside("h1", "ping", "-c", "1", "-W", "1", "198.18.0.4", status=1)
        routes = subprocess.run(["ip", "route", "get", "198.18.0.1"], capture_output=True, text=True).stdout
        assert "mgmt" not in routes
    finally:
        assert run(["down", other]) == 0


def test_the_management_network_can_be_left_out() -> None:
    fabric = multi_plane_clos(own("mgmt-off"), hosts=2, planes=1, t0=2, t1=1, rate_bps=20_000_000)
    with emulated(fabric, agents=False, management_network=False) as emulation:
        assert management.INTERFACE not in emulation.host("h1").cmd("ip", "-br", "link")
        assert emulation.host("h1").cmd("getent", "hosts", "h2").split()[0] == emulation.host("h2").IP()


def test_the_machine_keeps_its_own_hosts_file() -> None:
    before = Path("/etc/hosts").read_bytes(), socket.gethostname()
    fabric = multi_plane_clos(own("mgmt-name"), hosts=2, planes=1, t0=2, t1=1, rate_bps=20_000_000)
    with emulated(fabric, agents=False) as emulation:
        shell = emulation.run.shells()["h1"]
        assert namespaces.run_inside(shell.pid, socket.gethostname, kinds=("uts",)) == "h1"
        assert (Path("/etc/hosts").read_bytes(), socket.gethostname()) == before
    assert (Path("/etc/hosts").read_bytes(), socket.gethostname()) == before
