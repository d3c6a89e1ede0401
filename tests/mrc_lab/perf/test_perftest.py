import socket
import sys
from pathlib import Path

import pytest

from mrc_host.tools.session import GONE
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric import client_and_server
from mrc_lab.fabric.find_fabric import find_fabric
from mrc_lab.perf import perftest
from tests.mrc_lab.perf.test_hosts import up

__all__ = ["up"]


@pytest.mark.parametrize(
    ("here", "words", "result"),
    [
        ("h3", "", "-d RUN/h3.sock -p unix:RUN/h3.write_bw"),
        ("h1", "h3", "-d RUN/h1.sock unix:RUN/h3.write_bw"),
        ("h1", "-s 64 h3 -a", "-d RUN/h1.sock -s 64 unix:RUN/h3.write_bw -a"),
        (None, "-d h1 h3", "-d RUN/h1.sock unix:RUN/h3.write_bw"),
        (None, "--ib-dev h3 -q 2", "--ib-dev RUN/h3.sock -q 2 -p unix:RUN/h3.write_bw"),
        (None, "-d /x/h1.sock -p unix:/tmp/x", "-d /x/h1.sock -p unix:/tmp/x"),
        (None, "-d /x/h1.sock", "-d /x/h1.sock"),
        ("h1", "fd00:6d:7263:1:1::1 -n 5", "-d RUN/h1.sock unix:RUN/h3.write_bw -n 5"),
        ("h1", "-p 12345", "-d RUN/h1.sock -p 12345"),
        ("h1", "unix:/tmp/meet", "-d RUN/h1.sock unix:/tmp/meet"),
        ("h1", "127.0.0.1 -p 99", "-d RUN/h1.sock 127.0.0.1 -p 99"),
    ],
)
def test_host_names_select_agent_sockets(up, here, words, result):
    run = up("one")
    assert perftest.translate("write_bw", words.split(), run, here) == result.replace("RUN", str(run.path)).split()


def test_outside_a_host_the_nic_must_be_named(up):
    with pytest.raises(ExperimentError, match="say from where to where, as in 'write_lat h1 h3', or whose NIC"):
        perftest.translate("write_lat", ["h3"], up("one"), None)


def test_the_fabric_is_chosen_among_several(up, monkeypatch, tmp_path):
    up("one")
    two, asked = up("two"), []
    monkeypatch.setattr(perftest, "find_fabric", lambda name: find_fabric(name, tmp_path))
    monkeypatch.setitem(perftest.TOOLS, "write_bw", lambda words: asked.extend(words) or 0)
    assert perftest.run_tool("write_bw", ["-d", "h1", "--fabric", "two", "h3"]) == 0
    assert asked == ["-d", f"{two.path}/h1.sock", f"unix:{two.path}/h3.write_bw"]


def test_with_two_fabrics_none_is_chosen_by_default(up, monkeypatch, capsys, tmp_path):
    up("one"), up("two")
    monkeypatch.setattr(perftest, "find_fabric", lambda name: find_fabric(name, tmp_path))
    assert perftest.run_tool("write_bw", ["--fabric", "one", "h1", "--fabric", "two", "h3"]) == 3
    assert capsys.readouterr().err == "write_bw: two fabrics are named, one and two: give one\n"


def test_failures_to_start_are_reported(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(perftest, "this_host", lambda: None)

    def nothing(name):
        raise ExperimentError("No fabric is up.", "Start one.")

    monkeypatch.setattr(perftest, "find_fabric", nothing)
    assert perftest.run_tool("write_bw", ["h3"]) == 3
    assert capsys.readouterr().err == "write_bw: No fabric is up.\nStart one.\n"


def test_a_device_of_another_kind_is_refused(up):
    with pytest.raises(ExperimentError, match=r"has no device 'mlx5_0': give -d one of h1, h2"):
        perftest.translate("write_bw", ["-d", "mlx5_0", "h3"], up("one"), None)


def test_two_host_names_run_both_ends(up, monkeypatch, tmp_path):
    one, ran = up("one"), []
    monkeypatch.setattr(perftest, "find_fabric", lambda name: find_fabric(name, tmp_path))
    monkeypatch.setattr(client_and_server, "run_pair", lambda *arguments: ran.append(arguments[:5]) or 0)
    assert perftest.run_tool("write_bw", ["--fabric", "one", "h1", "h3", "-n", "5"]) == 0
    assert ran == [("write_bw", one, "h1", "h3", ["-n", "5"])]


@pytest.mark.parametrize("words", ["h1 h9", "h9 h1 -n 5"])
def test_an_unknown_host_is_reported_with_the_known_ones(up, monkeypatch, tmp_path, capsys, words):
    up("one")
    monkeypatch.setattr(perftest, "find_fabric", lambda name: find_fabric(name, tmp_path))
    assert perftest.run_tool("write_bw", ["--fabric", "one", *words.split()]) == 3
    complaint, hint = capsys.readouterr().err.splitlines()
    assert complaint == "write_bw: Fabric one has no host h9."
    assert hint.startswith("Its hosts are h1, h2")


def test_ctrl_c_while_both_ends_run_prints_no_traceback(up, monkeypatch, tmp_path):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    up("one")
    monkeypatch.setattr(perftest, "find_fabric", lambda name: find_fabric(name, tmp_path))
    monkeypatch.setattr(client_and_server, "run_pair", interrupted)
    assert perftest.run_tool("write_bw", ["--fabric", "one", "h1", "h3"]) == 130


def test_measuring_a_host_against_itself_is_refused(up):
    with pytest.raises(ExperimentError, match="between two different hosts, not from h1 to itself"):
        client_and_server.run_pair("write_bw", up("one"), "h1", "h1", [], lambda command: 0)


SERVER = """\
import os, socket, sys, time
path = sys.argv[sys.argv.index("-p") + 1].removeprefix("unix:")
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
print({!r}, file=sys.stderr, flush=True)
server.accept()
"""


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Let a program stand for the server, which says something on stderr."""

    def install(words):
        (tmp_path / "server.py").write_text(SERVER.format(words))
        monkeypatch.setattr(
            client_and_server.children, "python", lambda module, *more: [sys.executable, str(tmp_path / "server.py")]
        )

    return install


@pytest.mark.parametrize(
    ("words", "expected"),
    [(f"write_bw: {GONE}", []), ("write_bw: no memory", ["write_bw: no memory"])],
)
def test_server_errors_are_shown_unless_caused_by_the_client(up, server, words, expected):
    server(words)
    printed = []

    def client(command):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(command[-1].removeprefix("unix:"))
            sock.recv(1)
        return 1

    assert client_and_server.run_pair("write_bw", up("one"), "h1", "h3", [], client, printed.append) == 1
    assert printed == expected


def test_a_pair_uses_its_own_rendezvous_point(up, server):
    server("")
    one, met = up("one"), []
    assert (
        client_and_server.run_pair("write_bw", one, "h1", "h3", [], lambda command: met.append(command[-1]) or 0, str)
        == 0
    )
    (point,) = met
    assert point != client_and_server.meeting_point("write_bw", one, "h3")
    assert not Path(point.removeprefix("unix:")).exists()
