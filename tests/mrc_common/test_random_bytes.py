from __future__ import annotations

import random

import pytest

from mrc_common import random_bytes
from mrc_common.random_bytes import fill


@pytest.mark.parametrize("length", [0, 1, 3, 4, 63, 64, 65, 1000])
def test_the_bytes_are_those_of_randbytes(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    monkeypatch.setattr(random_bytes, "_PIECE", 64)
    memory = bytearray(length)
    fill(memoryview(memory), random.Random(5))
    assert memory == random.Random(5).randbytes(length)
