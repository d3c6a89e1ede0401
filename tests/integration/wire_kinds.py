"""What a test runs on that is about any wire: veth in the first ring of tests, both in the second."""

import pytest

WIRES = ("veth", pytest.param("ring", marks=pytest.mark.second_ring))
