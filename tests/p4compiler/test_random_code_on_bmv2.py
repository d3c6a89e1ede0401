"""Random statements do on BMv2 what they do in Python (`random_code.py`)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

import p4compiler
from tests.p4compiler import random_code
from tests.p4compiler.compiled import around
from tests.p4runtime_shim.differential import real
from tests.p4runtime_shim.differential.real import Bmv2
from tests.seeds import SEED

PROGRAMS, STATEMENTS = 40, 25

pytestmark = [
    pytest.mark.root,
    pytest.mark.bmv2,
    pytest.mark.skipif(real.MISSING is not None, reason=str(real.MISSING)),
]


@pytest.fixture(scope="module")
def bmv2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bmv2]:
    with real.bmv2(Path(tmp_path_factory.mktemp("bmv2"))) as switch:
        yield switch


def test_random_statements(bmv2: Bmv2) -> None:
    print(f"seed {SEED}")
    for number in range(PROGRAMS):
        chance = random.Random(f"{SEED}/{number}")
        frame = chance.randbytes(16)
        code, expected = random_code.program(chance, frame, STATEMENTS)
        text = around(code, local=random_code.LOCALS, declarations=random_code.DECLARATIONS)
        made = p4compiler.compile_text(text)
        out = bmv2.frame(text_format.Parse(made.p4info, p4i.P4Info()), made.json, 1, frame)
        assert [data[:16] for data in out.get("1", [])] == [expected.hex()], code
