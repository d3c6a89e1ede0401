"""Programs of perftest and ibverbs-utils in hosts of a fabric: one alone, or a client and a server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mrc_host import verbs
from mrc_host.libibverbs.build import is_current, missing
from mrc_lab.fabric.emulation import EmulatedWorld
from tests.waiting import until
from topologies.emulation import host_environment, namespaces

_TOOLS = ("ib_write_bw", "ib_write_lat", "ibv_devices", "ibv_devinfo")
_ABSENT = [tool for tool in _TOOLS if shutil.which(tool) is None]
MARKS = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(
        not is_current(), reason=f"libibverbs is not built: {missing() or 'python -m mrc_host.libibverbs'}"
    ),
]
needs_perftest = pytest.mark.skipif(
    bool(_ABSENT), reason=f"apt-get install perftest ibverbs-utils: no {', '.join(_ABSENT)}"
)


def start(world: EmulatedWorld, host: str, *command: str, **environment: str) -> subprocess.Popen[str]:
    """Start a command in a host, as ``mrc exec`` does."""
    pid = world.emulation.run.shells()[host].pid
    known = {**os.environ, **host_environment.variables(world.emulation.run, host), **environment}
    return subprocess.Popen(
        [*namespaces.enter_host(pid), *command], env=known, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _listens(world: EmulatedWorld, host: str, port: int) -> bool:
    table = world.emulation.host(host).cmd("cat", "/proc/net/tcp", "/proc/net/tcp6")
    return any(
        f":{port:04X}" in line.split()[1] and line.split()[3] == "0A"
        for line in table.splitlines()
        if line.strip()[:1].isdigit()
    )


@contextmanager
def pair(
    world: EmulatedWorld,
    command: str,
    source: str = "h1",
    destination: str = "h3",
    port: int = 18515,
    other: str = "",
    **more: str,
) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """Client and server of a tool of perftest, both killed in the end if they still run.

    The server's command is the client's, or `other`.
    """
    words = [*command.split(), "-p", str(port)]
    with start(world, destination, *(other or command).split(), "-p", str(port), **more) as server:
        try:
            until(lambda: _listens(world, destination, port), "the server to listen")
            with start(world, source, *words, destination, **more) as client:
                try:
                    yield client, server
                finally:
                    client.kill()
        finally:
            server.kill()


def table_of(
    client: subprocess.Popen[str], server: subprocess.Popen[str], texts: tuple[str, str] | None = None
) -> list[list[str]]:
    """Rows of numbers that the client printed; both have succeeded. `texts` are what both printed, if it was read."""
    printed, other = texts or (client.communicate()[0], server.communicate()[0])
    assert (client.returncode, server.returncode) == (0, 0), printed + other
    return [line.split() for line in printed.splitlines() if line.strip()[:1].isdigit()]


@contextmanager
def cut(world: EmulatedWorld, link: str) -> Iterator[None]:
    """`link` is down."""
    world.link_down(link)
    try:
        yield
    finally:
        world.link_up(link)


def queue_pairs(world: EmulatedWorld, host: str) -> int:
    """How many there are on a host's NIC."""
    with verbs.open(world.emulation.socket(host)) as context:
        return context.hw_counters()["queue_pairs"]
