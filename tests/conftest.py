"""What holds for every test.

Programs under test are interrupted as from a terminal; tests that a shell started in the background would pass on to
them that SIGINT is ignored.
"""

import signal

import pytest

pytest_plugins = ["tests.budget", "tests.either_transport", "tests.garbage", "tests.hypothesis_profiles"]


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def plugins_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test's plugins register is gone after it."""
    from mrc_host import plugins

    for name in ("CONGESTION_CONTROLS", "PATH_SELECTIONS", "WORKLOADS", "_origin", "_loaded"):
        monkeypatch.setattr(plugins, name, dict(getattr(plugins, name)))
