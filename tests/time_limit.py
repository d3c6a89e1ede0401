"""What happens to a test that hangs: its stacks are printed, its children killed, and it fails.

pytest-timeout knows each test's limit, but stops counting when a test fails, so one that hangs while it tidies up hangs
for ever; so does one whose code resets the timer, waits for a child, or runs in C. So the time is kept by another
process, the *keeper* (``tests/time_limit_keeper.py``), whatever happens to this one: from the setup of a test to the
end of its teardown, and while pytest ends. When the limit has passed the keeper

1. has this process print the stacks of its threads, those of its Python children too, kills all children, and has
   the test fail with an exception in its main thread;
2. does it again if the test, or what follows it, still runs after a time of grace (``--grace``);
3. after another such time kills this process. xdist says which test that was, and goes on in a new process.

If this process crashes, the keeper kills its children as well. It knows them by their parents, or by a variable of
their environment, so a daemon that has left its parent is found.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import uuid
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

import pytest
import pytest_timeout

from mrc_common import children
from tests.time_limit_keeper import ENDING, FAIL_SIGNAL, MARK, STACKS_SIGNAL

if TYPE_CHECKING:
    from types import FrameType

_END_S: Final = 120.0  # pytest ends, whatever fixtures and threads are left


class TimeLimit:
    """The end of this process that the keeper watches."""

    def __init__(self, grace_s: float, *, worker: bool) -> None:
        self._grace_s = grace_s
        self._worker = worker  # of xdist, which lets it live until all others are done, and then ends it
        self._process = os.getpid()  # a forked child tells the keeper nothing
        self._limit_s = 0.0  # of the present test
        self._interruptible = False  # pytest takes an exception for the test's
        self._stderr = os.dup(2)  # pytest does not capture it yet
        self._keeper = self._start()
        faulthandler.register(STACKS_SIGNAL, file=self._stderr, all_threads=True)
        signal.signal(FAIL_SIGNAL, self._fail)

    def _start(self) -> int:
        """The keeper's input. It is no child of this process: a test may wait for all of its children."""
        mark = uuid.uuid4().hex
        os.environ.pop(MARK, None)  # that of a pytest which runs this one
        keeper = children.popen(
            children.python("tests.time_limit_keeper", str(self._process), mark, str(self._grace_s)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            start_new_session=True,
        )
        os.environ[MARK] = mark
        assert keeper.stdin is not None
        keeper.wait()
        return os.dup(keeper.stdin.fileno())

    def _tell(self, what: str, limit_s: float | None) -> None:
        if os.getpid() == self._process:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._keeper, (json.dumps([what, limit_s]) + "\n").encode())

    def _fail(self, _number: int, _frame: FrameType | None) -> None:
        """The handler of the keeper's signal, which may come just after the test has ended."""
        __tracebackhide__ = True
        if self._interruptible:
            pytest.fail(f"The test took longer than {self._limit_s:g} s: standard error has the stacks.")
        print(end="", flush=True)  # pytest's summary, before the keeper kills it

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
        """Instead of pytest-timeout's own."""
        self._limit_s = settings.timeout
        if not pytest_timeout.is_debugging():
            self._tell(item.nodeid, settings.timeout)
        return True

    def pytest_enter_pdb(self) -> None:
        """Whoever looks at a test takes as long as they like."""
        self._tell("", None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> bool:
        """Asked for when a test fails, too: what follows may hang as well."""
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            self._tell("", None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def _phase(self) -> Generator[None, object, object]:
        self._interruptible = True
        try:
            return (yield)
        finally:
            self._interruptible = False

    pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _phase

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, None, None]:
        self._tell(ENDING, None if self._worker else _END_S)
        yield


def _runs_tests(config: pytest.Config) -> bool:
    """Whether this process does, and not workers of xdist that it starts, and nobody debugs them."""
    if config.getoption("usepdb") or config.getoption("collectonly"):
        return False
    return hasattr(config, "workerinput") or config.getoption("dist", "no") == "no"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--grace", type=float, default=30.0, metavar="SECONDS", help="for what follows a test that has hung"
    )


def pytest_configure(config: pytest.Config) -> None:
    if _runs_tests(config):
        config.pluginmanager.register(TimeLimit(config.getoption("grace"), worker=hasattr(config, "workerinput")))
