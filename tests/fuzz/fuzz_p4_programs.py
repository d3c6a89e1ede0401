"""Random well-typed P4 statements: the embedded switch computes what Python does."""

from __future__ import annotations

import random

from tests.p4compiler import random_code
from tests.p4compiler.compiled import result


class Fuzzer:
    """Each case is a program of some statements."""

    def case(self, chance: random.Random) -> None:
        frame = chance.randbytes(16)
        code, expected = random_code.program(chance, frame, chance.randint(1, 25))
        out = result(code, local=random_code.LOCALS, declarations=random_code.DECLARATIONS, frame=frame)
        assert out[:8] == expected, f"{out[:8].hex()} instead of {expected.hex()} by\n{code}"

    def close(self) -> None:
        pass
