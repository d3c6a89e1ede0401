"""A forwarding state on a fake switch and on the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.entities import Switch


@pytest.fixture(params=[sample.fake, sample.real], ids=["fake", "engine"])
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    under = request.param()
    yield Switch(under)
    under.close()
