"""``mrc fault`` against a controller whose links only remember."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from controller.client import ControllerClient
from controller.server import Listening
from controller.values import EventKind
from mrc_lab.cli.main import run
from tests.controller.serving import TOKEN, Running, certificate, free_port, running, token_file
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("line", planes=2, t0=2, t1=2, hosts=4)
MRC = Path(sys.executable).with_name("mrc")
Fault = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.sock"


@pytest.fixture
def one(path: Path) -> Iterator[Running]:
    with running(FABRIC, Listening(path)) as found:
        yield found


@pytest.fixture
def fault(one: Running, path: Path, capsys: pytest.CaptureFixture[str]) -> Fault:
    def line(*words: str) -> tuple[int, str, str]:
        status = run(["fault", *words, "--address", str(path)])
        return status, *capsys.readouterr()

    return line


def test_faults_are_added_listed_and_cleared(fault: Fault, one: Running) -> None:
    assert fault("add", "h1@p0", "down") == (0, "fault f1: h1@p0 down\n", "")
    status, printed, _ = fault("add", "h2@p0", "flap", "2s", "25%", "random", "7", "at", "+3600s", "owner", "me")
    assert status == 0
    assert re.search(
        r"fault f2: h2@p0 flap down 500 ms up 1.5 s random seed 7 \(pending, begins [\d:]{8}, in 3", printed
    )
    assert one.links.down == {"h1@p0"}
    assert fault("list")[1].count("\n") == 2
    assert fault("clear", "f1") == (0, "cleared: f1\n", "")
    assert one.links.down == set()
    assert fault("clear", "owner", "me") == (0, "cleared: f2\n", "")
    assert fault("list") == (0, "no faults\n", "")
    assert fault("list", "--all")[1].count("(cleared)") == 2
    fault("add", "h1@p*", "down")
    assert fault("clear", "link", "h1@p1")[1] == "up: h1@p1; f3 stays on h1@p0\n"
    assert one.links.down == {"h1@p0"}
    assert re.fullmatch(r"fault f3: h1@p0 down \(since \d\d:\d\d:\d\d\)\n", fault("list")[1])
    (row,) = json.loads(fault("list", "--json")[1])
    assert (row["fault"], row["state"], row["links"]) == ("f3", "active", ["h1@p0"])
    assert datetime.fromisoformat(row["start_time"]) <= datetime.now().astimezone()
    assert fault("clear", "link", "h1@p0")[1] == "up: h1@p0; cleared: f3\n"
    assert fault("clear", "all") == (0, "there was no fault\n", "")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["add"], 2, "Missing argument"),
        (["add", "h1@p0"], 2, "use it like this"),
        (["add", "h1@p0", "sideways"], 2, "'sideways' is no kind of fault"),
        (["add", "h1@p0", "loss", "200%"], 2, "is 200%, but must be above 0 % and at most 100 %"),
        (["add", "h1@p0", "flap", "1ms"], 3, "10 ms or more"),
        (["add", "h9@p0", "down"], 3, "no link that matches 'h9@p0': did you mean"),
        (["clear"], 2, "Missing argument"),
        (["clear", "owner"], 2, "fault clear owner NAME"),
        (["clear", "f77"], 3, "There is no fault f77"),
        (["watch", "--for", "long"], 2, "a time such as"),
        (["list", "--token-file", "/nowhere"], 3, "The token cannot be read from /nowhere"),
    ],
)
def test_exit_statuses_distinguish_errors(fault: Fault, words: list[str], status: int, message: str) -> None:
    found, printed, errors = fault(*words)
    assert (found, printed) == (status, "")
    assert message in errors
    assert "Traceback" not in errors


def test_a_fabric_that_is_not_running_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fault", "list", "--fabric", "nosuch"]) == 3
    assert "Fabric nosuch is not up" in capsys.readouterr().err


def test_faults_are_added_over_the_network_with_certificate_and_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cert, key = certificate(tmp_path)
    where, token = f"localhost:{free_port()}", token_file(tmp_path, TOKEN)
    with running(FABRIC, Listening(None, where, token, cert, key)):
        tls = ("--address", where, "--tls-ca", str(cert))
        assert run(["fault", "add", "h1@p0", "down", *tls, "--token-file", str(token)]) == 0
        assert capsys.readouterr().out == "fault f1: h1@p0 down\n"
        assert run(["fault", "list", *tls]) == 3
        assert capsys.readouterr().err == "mrc: The controller wants a token: give the file it was started with.\n"


def test_watch_prints_events_for_a_time(fault: Fault, one: Running) -> None:
    assert fault("watch", "--for", "0.2s")[0] == 0
    one.call(lambda: one.events.publish(EventKind.LINK_DOWN, "h1@p0"))
    assert fault("watch", "--for", "0.2s")[1].count("\n") == 1, "an event of before was printed"


@contextmanager
def program(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """It ends with the test, whatever becomes of that."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_held_fault_ends_with_its_command(one: Running, path: Path, end: signal.Signals) -> None:
    command = [MRC, "fault", "add", "h1@p0", "down", "--hold", "--address", str(path)]
    watching = [MRC, "fault", "watch", "--address", str(path)]
    with ControllerClient(path) as client, program(watching) as watch:
        assert watch.stdout is not None
        assert "subscribed" in watch.stdout.readline()
        with program(command) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == f"fault f1: h1@p0 down [mrc-fault-{holder.pid}]\n"
            assert one.links.down == {"h1@p0"}
            os.kill(holder.pid, end)
            assert holder.wait(20) == (130 if end is signal.SIGINT else -end)
        events = [watch.stdout.readline().split()[1:4] for _ in range(3)]
        assert events == [["fault", "added", "fault"], ["fault", "active", "fault"], ["fault", "cleared", "fault"]]
        assert client.faults() == []
        watch.send_signal(signal.SIGINT)
        assert watch.wait(20) == 130
