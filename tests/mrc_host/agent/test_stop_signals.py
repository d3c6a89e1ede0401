"""Signals end the agent's loop, compiled or not, at whatever moment they come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from mrc_host.agent.stop_signals import SIGNALS, stopped_by_signals
from mrc_host.driver.loop import Loop
from tests.waiting import TIMEOUT_S

# The signal comes within a turn that runs no Python, after which nothing is due: the loop goes to sleep for ever.
JUST_BEFORE_SLEEP = """
import ctypes, functools, os, signal, sys
from mrc_host import compiled
if sys.argv[1] == "compiled" and not compiled.use():
    sys.exit(77)
from mrc_host.agent.stop_signals import stopped_by_signals
from mrc_host.driver.loop import Loop

kill = ctypes.CDLL(None).kill
kill.restype = None
loop = Loop()
with stopped_by_signals(loop):
    loop.add_turn(functools.partial(kill, os.getpid(), int(sys.argv[2])))
    loop.run()
loop.close()
handlers = int(signal.getsignal(signal.SIGTERM)), signal.getsignal(signal.SIGINT).__name__
print("stopped", *handlers, signal.set_wakeup_fd(-1))
"""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("how", ["compiled", "plain"])
def test_a_signal_just_before_the_loop_sleeps_stops_it(how: str, number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", JUST_BEFORE_SLEEP, how, str(int(number))],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("the transport is not compiled")
    assert (done.stdout, done.stderr) == ("stopped 0 default_int_handler -1\n", "")


def test_a_signal_while_the_loop_sleeps_and_many_at_once_stop_it() -> None:
    for signals in ([signal.SIGTERM], [signal.SIGINT, signal.SIGTERM] * 500):
        loop = Loop()
        with stopped_by_signals(loop):
            loop.call_soon(lambda signals=signals: [os.kill(os.getpid(), number) for number in signals])
            loop.run()
        loop.close()
