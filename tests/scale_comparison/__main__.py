"""Random scenarios on both backends: ``python -m tests.scale_comparison --seconds 60``, or one again: ``--seed 17``.

Every 16th has 256 hosts and every 256th 1,024; the others have 16 to 64. The seed of a scenario is printed with what
the backends disagree about. Ends with one line of JSON; status 1 if they did.
"""

from __future__ import annotations

import json
import random
import sys
import time

import click

from tests.scale_comparison.compare import differences
from tests.scale_comparison.scenario import draw


def hosts_of(number: int) -> int | None:
    """Hosts of the scenario of this number; None: its seed decides."""
    return 1024 if number % 256 == 255 else 256 if number % 16 == 15 else None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seconds", type=click.FloatRange(0), default=60.0, show_default=True, help="How long to try.")
@click.option("--seed", type=int, help="Try the scenario of this seed alone.")
@click.option("--hosts", type=click.IntRange(16), help="Hosts of every scenario.")
@click.option("-v", "--verbose", is_flag=True, help="Print every file.")
def main(seconds: float, seed: int | None, hosts: int | None, verbose: bool) -> None:
    """Compare the scale backend with packets in random scenarios."""
    first = random.SystemRandom().randrange(2**32) if seed is None else seed
    print(f"scale comparison: scenarios from seed {first}", flush=True)
    end = time.monotonic() + seconds
    tried = failed = longest = 0
    while not tried or (seed is None and time.monotonic() < end):
        size = hosts or (hosts_of(tried) if seed is None else None)
        scenario = draw(first + tried, size)
        if verbose:
            print(f"seed {scenario.seed}:\n{scenario.text}", flush=True)
        start = time.monotonic()
        wrong = differences(scenario)
        longest = max(longest, round(1000 * (time.monotonic() - start)))
        if wrong:
            again = f"--seed {scenario.seed}" + (f" --hosts {size}" if size else "")
            print(f"{again}: {'; '.join(wrong)}", flush=True)
            failed += 1
        tried += 1
    print(json.dumps({"cases": tried, "seed": first, "crashes": failed, "longest_case_ms": longest}), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
