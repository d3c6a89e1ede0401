from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.p4src.device import Device
from tests.p4src.scene import DMAC, SMAC, forwarding


@pytest.fixture
def device() -> Iterator[Device]:
    """A switch that forwards uSIDs and has a member of the ECMP selector for each port."""
    made = Device()
    made.write(*forwarding())
    made.group({port: (port, DMAC[port], SMAC[port]) for port in range(1, 5)}, {})
    yield made
    made.switch.close()
