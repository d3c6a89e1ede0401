"""How long property tests look: ``pytest --hypothesis-profile=ci`` or ``soak``; otherwise quick, with 50 examples.

The quick profile and ``ci`` choose the same examples on every run: none fails by its luck. ``soak`` chooses others
each time and says which seed repeats them. Only the option chooses: hypothesis would load ``ci`` by itself where the
environment variable CI is set, so that the same command took several times as long there as elsewhere. None explains
failures line by line: that traces every call and makes a failing test many times slower on Python 3.11. None has a
deadline for an example, or minds slow or large drawing: how long these take says how busy the machine is.
"""

import random

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

_PHASES = [phase for phase in Phase if phase is not Phase.explain]
_HANGS_S = 3600  # thousands of examples take minutes on a busy machine, and the timeout is there for what never ends
_SOAK_HANGS_S = 6 * 3600
_SEED = random.SystemRandom().getrandbits(64)

_COMMON = settings(
    deadline=None,
    print_blob=True,
    phases=_PHASES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("default", parent=_COMMON, max_examples=50, derandomize=True, database=None)
settings.register_profile("ci", parent=_COMMON, max_examples=1_000, derandomize=True, database=None)
settings.register_profile("soak", parent=_COMMON, max_examples=20_000, derandomize=False)
settings.load_profile("default")  # before pytest's option is looked at


def _soaking(config: pytest.Config) -> bool:
    return bool(config.getoption("--hypothesis-profile") == "soak")


def _chosen_here(config: pytest.Config) -> bool:
    return _soaking(config) and config.getoption("--hypothesis-seed") is None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    hangs = _SOAK_HANGS_S if _soaking(config) else _HANGS_S
    for item in items:
        if item.get_closest_marker("hypothesis"):
            item.add_marker(pytest.mark.timeout(hangs))
            if _chosen_here(config):
                seed(_SEED)(item.obj)  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _chosen_here(config):
        terminalreporter.write_line(f"Repeat this soak with --hypothesis-profile=soak --hypothesis-seed={_SEED}")
