"""Random worlds of congestion control: ``python -m tests.congestion --seconds 60``, or one again: ``--seed 17``.

A seed gives one world of each kind: path lengths, and an incast. It is printed with what is wrong in them. Ends with
one line of JSON; status 1 if a world failed.
"""

from __future__ import annotations

import json
import random
import sys
import time

import click

from tests.congestion import incasts, path_lengths

KINDS = {"path lengths": path_lengths.check, "incast": incasts.check}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seconds", type=click.FloatRange(0), default=60.0, show_default=True, help="How long to try.")
@click.option("--seed", type=int, help="Try the worlds of this seed alone.")
def main(seconds: float, seed: int | None) -> None:
    """Try random worlds."""
    first = random.SystemRandom().randrange(2**32) if seed is None else seed
    print(f"congestion: worlds from seed {first}", flush=True)
    end = time.monotonic() + seconds
    tried = failed = longest = 0
    seed_tried = first
    while not tried or (seed is None and time.monotonic() < end):
        for kind, check in KINDS.items():
            start = time.monotonic()
            wrong = check(seed_tried)
            longest = max(longest, round(1000 * (time.monotonic() - start)))
            if wrong:
                print(f"seed {seed_tried}, {kind}: {wrong}", flush=True)
                failed += 1
            tried += 1
        seed_tried += 1
    print(json.dumps({"cases": tried, "seed": first, "crashes": failed, "longest_case_ms": longest}), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
