"""BMv2 JSON written differently, with the same meaning: the embedded switch does what it does with p4c's.

Tables and frames are those of the comparison with BMv2 (`tests/p4runtime_shim/differential/`).
"""

from __future__ import annotations

import random

from p4runtime_shim.pipeline import Pipeline
from tests.p4runtime_shim.differential import embedded
from tests.p4runtime_shim.differential.scenarios import SCENARIOS, draw
from tests.p4runtime_shim.differential.vectors import program_text
from tests.p4runtime_shim.rewritten_json import rewritten

FRAMES = 25


class Fuzzer:
    """Each case compiles a program."""

    def case(self, chance: random.Random) -> None:
        name = chance.choice(sorted(SCENARIOS))
        vector = draw(name, chance, FRAMES)
        expected = embedded.run(vector)
        changed = Pipeline.load(rewritten(program_text(name), chance))
        assert embedded.run(vector, changed) == expected, name

    def close(self) -> None:
        pass
