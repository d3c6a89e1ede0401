"""Command line of the fuzzers: prints the seed first and ends with one line of JSON; status 1 after a crash."""

from __future__ import annotations

import random
import sys

import click

from tests.fuzz import harness


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", type=click.Choice(harness.NAMES))
@click.option("--seconds", type=click.FloatRange(0), default=60.0, show_default=True, help="How long to try.")
@click.option("--seed", type=int, help="Chooses the cases; random unless given.")
@click.option("--case", "only", type=click.IntRange(0), help="Try this case of the seed alone.")
def main(name: str, seconds: float, seed: int | None, only: int | None) -> None:
    """Attack NAME with random input."""
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    print(f"{name}: seed {seed}", flush=True)
    try:
        make = harness.load(name)
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"The fuzzer {name} needs {error.name}, which is not installed: run 'scripts/install dev'."
        ) from None
    if only is None:
        result = harness.run(name, make, seed, seconds=seconds)
    else:
        result = harness.run(name, make, seed, first=only, most=1)
    print(result.json(), flush=True)
    sys.exit(1 if result.crashes else 0)


if __name__ == "__main__":
    main()
