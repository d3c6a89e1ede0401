"""Drivers that are started, and closed behind the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.mrc_host.driver.rig import Rig


@pytest.fixture
def rigs() -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**options: object) -> Rig:
        made.append(Rig(**options))  # type: ignore[arg-type]
        made[-1].driver.start()
        return made[-1]

    yield make
    for rig in made:
        rig.close()
