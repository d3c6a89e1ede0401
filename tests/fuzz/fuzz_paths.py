"""Random worlds for path selection (``tests.simulation.random_paths``): what it should never do."""

from __future__ import annotations

import random

from tests.simulation import random_paths


class Fuzzer:
    """Asks one of the questions in each case."""

    def case(self, chance: random.Random) -> None:
        chance.choice(random_paths.QUESTIONS)(chance)

    def close(self) -> None:
        pass
