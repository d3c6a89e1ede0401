"""What a test runs on that is about any wire."""

import pytest

from mrc_host import compiled

WIRES = (
    "veth",
    pytest.param("ring", marks=pytest.mark.skipif(not compiled.available(), reason="the transport is not compiled")),
)
