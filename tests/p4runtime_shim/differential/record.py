"""``python -m tests.p4runtime_shim.differential.record [PROGRAM...]``: ask BMv2 again and write recorded/*.jsonl.

Vectors come from fixed seeds. A vector on which the embedded switch differs is written too, and named: the test that
reads the files will fail until somebody has found out who is right.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from tests.p4runtime_shim.differential import embedded, real
from tests.p4runtime_shim.differential.scenarios import SCENARIOS, draw
from tests.p4runtime_shim.differential.vectors import FOLDER, to_line

VECTORS = 3
FRAMES = 25


def main(names: list[str]) -> int:
    """Record the programs named, or all; the exit status."""
    if real.MISSING is not None:
        print(real.MISSING, file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    differing = 0
    with tempfile.TemporaryDirectory() as directory, real.bmv2(Path(directory)) as switch:
        for name in names or sorted(SCENARIOS):
            lines = []
            seed = 0
            while len(lines) < VECTORS:
                seed += 1
                vector = draw(name, random.Random(f"{name} {seed}"), FRAMES)
                ours, count = embedded.run(vector)
                if count < FRAMES // 4:
                    continue  # says too little
                recorded = switch.run(vector, count)
                if recorded != ours:
                    differing += 1
                    print(f"{name}, seed {seed}: the switches differ", file=sys.stderr)
                lines.append(to_line(vector, recorded))
            (FOLDER / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
