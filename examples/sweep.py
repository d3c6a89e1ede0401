"""A sweep from Python: how completion times of a write depend on its length and on how many paths it takes.

``mrc sweep`` runs every combination in the simulated world and leaves a table in JSON Lines, which takes nothing but
``json`` to read (docs/experiments.md). Run it with ``.venv/bin/python examples/sweep.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean

EXPERIMENT = """
title: Paths and lengths
fabric: {planes: 2, t0: 2, t1: 4, hosts: 4, rate: 100G}
transport: {type: mrc, paths: 2}
workload: {kind: permutation, message: 64K, total: 1M}
duration: 2ms
"""


def main() -> None:
    """Run the sweep in a temporary folder and print a line for each combination."""
    with tempfile.TemporaryDirectory() as name:
        file, output = Path(name, "trial.yaml"), Path(name, "sweep")
        file.write_text(EXPERIMENT)
        choices = ("--set", "transport.paths=2,8", "--set", "workload.message=16K,256K", "--seeds", "1-2")
        mrc = Path(sys.executable).with_name("mrc")
        subprocess.run([mrc, "sweep", file, *choices, "--output", output], check=True)
        with (output / "table.jsonl").open() as table:
            rows = [json.loads(line) for line in table]
    found: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        found.setdefault((row["set.transport.paths"], row["set.workload.message"]), []).append(
            row["completion_time_ns.median"]
        )
    for (paths, message), medians in sorted(found.items()):
        print(f"{paths} paths, {message}: {mean(medians) / 1000:.1f} us in the median, over {len(medians)} seeds")


if __name__ == "__main__":
    main()
