"""What holds for every test.

Programs under test are interrupted as from a terminal; tests that a shell started in the background would pass on to
them that SIGINT is ignored.
"""

import signal
from collections.abc import Generator

import pytest

pytest_plugins = [
    "tests.budget",
    "tests.either_transport",
    "tests.garbage",
    "tests.hypothesis_profiles",
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


@pytest.fixture
def plugins_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test's plugins register is gone after it."""
    from mrc_host import plugins

    for name in ("CONGESTION_CONTROLS", "PATH_SELECTIONS", "WORKLOADS", "_origin", "_loaded"):
        monkeypatch.setattr(plugins, name, dict(getattr(plugins, name)))
