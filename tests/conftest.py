"""What holds for every test.

Programs under test are interrupted as from a terminal; tests that a shell started in the background would pass on to
them that SIGINT is ignored.
"""

import signal
import sys
from collections.abc import Generator
from typing import Any

import pytest

pytest_plugins = [
    "tests.budget",
    "tests.either_transport",
    "tests.garbage",
    "tests.hypothesis_profiles",
    "tests.rings",
    "tests.time_limit",
]


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """A test that leaves its own handler of Ctrl-C behind would have others wait for an interrupt that never comes."""
    yield
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pytest.fail("The test left another handler of SIGINT behind.", pytrace=False)


_REGISTRIES = ("CONGESTION_CONTROLS", "PATH_SELECTIONS", "WORKLOADS", "_origin", "_loaded")


def _registries() -> dict[str, dict[Any, Any]]:
    """What plugins register, if anything here has loaded the module."""
    module = sys.modules.get("mrc_host.plugins")
    return {} if module is None else {name: getattr(module, name) for name in _REGISTRIES}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """What a test's plugins register is gone after it, or names in messages would depend on the tests before."""
    before = {name: dict(found) for name, found in _registries().items()}
    try:
        return (yield)
    finally:
        for name, found in _registries().items():
            if found != before.get(name, {}):
                found.clear()
                found.update(before.get(name, {}))
