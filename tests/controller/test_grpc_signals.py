"""Ctrl-C in the midst of gRPC: it arrives, and what was open is closed."""

from __future__ import annotations

import _thread
import contextlib
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from controller.client import ControllerClient
from controller.grpc_signals import run_in_thread
from controller.server import Listening
from tests.controller.serving import running
from tests.seeds import SEED
from topologies.clos import multi_plane_clos

MAIN = threading.main_thread()


def interrupt(after: float = 0.0) -> None:
    """Ctrl-C after a time; in a thread begun by one C function, since those of ``threading`` cannot be interrupted."""
    time.sleep(after)
    assert MAIN.ident is not None
    signal.pthread_kill(MAIN.ident, signal.SIGINT)


def test_run_in_thread_returns_or_raises_in_the_caller():
    assert run_in_thread(lambda: threading.current_thread() is MAIN) is False
    with pytest.raises(ZeroDivisionError):
        run_in_thread(lambda: 1 // 0)


def test_outside_the_main_thread_the_call_runs_directly():
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(run_in_thread(threading.current_thread) is thread))
    thread.start()
    thread.join()
    assert found == [True]


def test_an_interrupt_ends_the_wait_but_not_the_call():
    go_on, done = threading.Event(), threading.Event()

    def work() -> None:
        interrupt()
        go_on.wait()
        done.set()

    with pytest.raises(KeyboardInterrupt):
        run_in_thread(work)
    assert not done.is_set()
    go_on.set()
    assert done.wait(30)


def test_an_interrupt_ends_reading_of_a_stream(tmp_path: Path):
    with (
        running(multi_plane_clos(planes=1), Listening(tmp_path / "socket")),
        ControllerClient(tmp_path / "socket") as client,
    ):

        def read() -> None:
            _thread.start_new_thread(interrupt, ())
            next(events)

        with client.events() as events:
            next(events)  # the subscription holds, and nothing else happens
            with pytest.raises(KeyboardInterrupt):
                read()
        assert client.faults() == [], "the connection serves on"


def test_a_client_interrupted_at_any_time_still_closes(tmp_path: Path):
    seed = SEED
    print("seed", seed)
    chance = random.Random(seed)

    def work() -> None:
        while True:
            with ControllerClient(tmp_path / "socket") as client, client.lease("somebody"):
                client.faults()

    with running(multi_plane_clos(planes=1), Listening(tmp_path / "socket")):
        for _ in range(40):
            with contextlib.suppress(KeyboardInterrupt):
                _thread.start_new_thread(interrupt, (chance.uniform(0.0, 0.03),))
                work()
