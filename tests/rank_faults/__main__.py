"""Random faults of ranks: ``python -m tests.rank_faults --runs 200``, or one run again: ``--seed 17``.

Each run has a seed, which is printed with what is wrong; ``-v`` prints what happens in all. Ends with one line of JSON;
status 1 if something was wrong.
"""

from __future__ import annotations

import json
import random
import sys
import time

import click

from tests.rank_faults.run import play
from tests.rank_faults.scenario import draw_scenario


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--runs", type=click.IntRange(1), help="How many. [default: as many as there is time for]")
@click.option("--seconds", type=click.FloatRange(0), default=60.0, show_default=True, help="How long to try.")
@click.option("--from", "first", type=int, help="The first seed. [default: drawn]")
@click.option("--seed", type=int, help="Try the run of this seed alone.")
@click.option("-v", "--verbose", is_flag=True, help="Print what happens.")
def main(runs: int | None, seconds: float, first: int | None, seed: int | None, verbose: bool) -> None:
    """Form and use groups of ranks while something fails."""
    if first is None:
        first = random.SystemRandom().randrange(2**32)
    if seed is not None:
        first, runs = seed, 1
    print(f"rank faults: runs from seed {first}", flush=True)
    end = time.monotonic() + seconds
    tried = failed = longest = 0
    slowest_s = 0.0
    while tried < runs if runs is not None else not tried or time.monotonic() < end:
        scenario, said = draw_scenario(first + tried), []
        start = time.monotonic()
        wrong, operation_s = play(scenario, print if verbose else said.append)
        longest = max(longest, round(1000 * (time.monotonic() - start)))
        slowest_s = max(slowest_s, operation_s)
        if wrong:
            print("\n".join((f"--seed {scenario.seed}: {'; '.join(wrong)}", *said)), flush=True)
            failed += 1
        tried += 1
    result = {"cases": tried, "seed": first, "crashes": failed, "longest_case_ms": longest}
    print(json.dumps({**result, "longest_operation_s": round(slowest_s, 1)}), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
