"""Marks of interfaces, and whether the owner of one is alive."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from topologies.emulation import ownership
from topologies.emulation.ownership import Mark

CLAIM = """
import sys
from topologies.emulation import ownership
with ownership.claimed("lab") as mark:
    print(mark.word, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def claimant() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def word(claimant: subprocess.Popen[str]) -> str:
    assert claimant.stdout is not None
    return claimant.stdout.readline().strip()


def test_an_alias_parses_back():
    mark = Mark("lab-2", "0123456789abcdef")
    assert ownership.parse(str(mark)) == mark
    assert len(str(mark)) < 256, "IFALIASZ"


@pytest.mark.parametrize("alias", [None, "", "uplink to the lab", "mrc-testbed fabric=lab owner=", "x{}", "{} "])
def test_other_aliases_are_not_marks(alias: str | None):
    mark = Mark("lab", "0123456789abcdef")
    assert ownership.parse(alias.format(mark) if alias else alias) is None


def test_an_owner_lives_until_it_is_killed(claimant: subprocess.Popen[str]):
    mark = Mark("lab", word(claimant))
    assert ownership.owner(mark) == claimant.pid
    claimant.kill()
    claimant.wait()
    assert ownership.owner(mark) is None


def test_a_released_mark_has_no_owner():
    with ownership.claimed("lab") as mark:
        assert ownership.owner(mark) == os.getpid()
    assert ownership.owner(mark) is None


def test_an_owner_stays_alive_however_often_it_is_queried(claimant: subprocess.Popen[str]):
    """Nobody answers, and the queue of a listening socket has an end."""
    mark = Mark("lab", word(claimant))
    found = {ownership.owner(mark) for _ in range(5000)}
    assert found <= {claimant.pid, 0}


def test_marks_of_two_fabrics_differ():
    with ownership.claimed("lab") as one, ownership.claimed("lab") as other:
        assert one != other


@pytest.mark.skipif(os.geteuid() != 0, reason="acting as another user needs root")
def test_a_listener_of_another_user_does_not_keep_a_leftover_alive(claimant: subprocess.Popen[str]):
    mark = Mark("lab", word(claimant))
    claimant.kill()
    claimant.wait()
    code = (
        "import os, socket, sys\nos.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\n"
        f"s.bind({ownership.address(mark)!r})\ns.listen()\nprint('up', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as squatter:
        assert squatter.stdout is not None
        assert squatter.stdout.readline() == "up\n"
        assert ownership.owner(mark) is None
        squatter.kill()


def test_the_ownership_socket_is_abstract():
    with ownership.claimed("lab") as mark, socket.socket(socket.AF_UNIX) as other:
        assert ownership.address(mark).startswith(b"\0")
        with pytest.raises(OSError, match="in use"):
            other.bind(ownership.address(mark))
