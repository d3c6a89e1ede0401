"""Random tables and packets on BMv2 and on the embedded switch, now; BMv2 runs p4c's output and our compiler's."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.p4compiler.compiled import compiled
from tests.p4runtime_shim.differential import embedded, real
from tests.p4runtime_shim.differential.real import Bmv2, Bmv2Error
from tests.p4runtime_shim.differential.scenarios import SCENARIOS, draw

pytestmark = [
    pytest.mark.root,
    pytest.mark.bmv2,
    pytest.mark.skipif(real.MISSING is not None, reason=str(real.MISSING)),
]
SETTINGS = settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def bmv2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bmv2]:
    with real.bmv2(Path(tmp_path_factory.mktemp("bmv2"))) as switch:
        yield switch


@pytest.mark.parametrize("compiler", ["p4c", "p4compiler"])
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_bmv2_and_the_embedded_switch_have_the_same_outcome(name: str, compiler: str, bmv2: Bmv2) -> None:
    json = compiled(name).json if compiler == "p4compiler" else None

    @SETTINGS
    @given(st.randoms(use_true_random=False), st.integers(1, 25))
    def same(rng: random.Random, count: int) -> None:
        vector = draw(name, rng, count)
        ours, count = embedded.run(vector)
        assert ours == bmv2.run(vector, count, json)

    same()


def test_a_crashed_bmv2_is_reported_and_replaced(bmv2: Bmv2) -> None:
    vector = draw("forward", random.Random("dies"), 10)
    ours, count = embedded.run(vector)
    assert bmv2.run(vector, count) == ours
    assert bmv2.process is not None
    os.kill(bmv2.process.pid, signal.SIGKILL)
    with pytest.raises(Bmv2Error, match=r"(?s)forward: .*BMv2 has ended with status -9; its last lines: \S*\n  \S"):
        bmv2.run(vector, count)
    assert bmv2.run(vector, count) == ours
