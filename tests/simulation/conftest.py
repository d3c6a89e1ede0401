"""Tests of this room hold on either transport; `make test` runs them on the compiled one, in half the time.

So they are marked ``either_transport``, except those that are marked ``plain_transport``: they plant defects in the
transport. That both transports behave alike is tested in ``test_trace.py`` and in ``tests/mrc_host``.
"""

from pathlib import Path

import pytest

ROOM = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if ROOM in item.path.parents and item.get_closest_marker("plain_transport") is None:
            item.add_marker(pytest.mark.either_transport)
