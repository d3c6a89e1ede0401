"""A pytest plugin: tests of rooms that only use the transport hold on either one.

`make test` runs them on the compiled one, which is what users have, in half the time. So they are marked
``either_transport``, except those that are marked ``plain_transport``: they patch the transport or plant defects in
it. In other rooms, long tests that only use whole NICs bear the mark themselves. That both transports behave alike is
tested in ``tests/simulation/test_trace.py`` and in ``tests/mrc_host``.

What has a timeout of its own takes long and goes first: begun last, it would keep the other cores waiting.
"""

import functools
from pathlib import Path

import pytest

ROOMS = [Path(__file__).parent / room for room in ("mrc_lab", "simulation", "soak_kill", "swarm")]


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("plain_transport") is None and _in_rooms(item.path):
            item.add_marker(pytest.mark.either_transport)
    items.sort(key=_long, reverse=True)


@functools.cache  # files have many tests
def _in_rooms(file: Path) -> bool:
    return any(room in file.parents for room in ROOMS)


def _long(item: pytest.Item) -> bool:
    return item.get_closest_marker("timeout") is not None and item.get_closest_marker("either_transport") is not None
