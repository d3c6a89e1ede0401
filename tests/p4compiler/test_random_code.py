"""Random statements do on the embedded switch what they do in Python (`random_code.py`)."""

from __future__ import annotations

import random

import pytest

from tests.p4compiler import random_code
from tests.p4compiler.compiled import result
from tests.seeds import SEED

STATEMENTS = 40


@pytest.mark.parametrize("number", range(6))
def test_random_statements(number: int) -> None:
    print(f"seed {SEED}")
    chance = random.Random(f"{SEED}/{number}")
    frame = chance.randbytes(16)
    code, expected = random_code.program(chance, frame, STATEMENTS)
    out = result(code, local=random_code.LOCALS, declarations=random_code.DECLARATIONS, frame=frame)
    assert out[:8] == expected, code
