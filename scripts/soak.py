"""``make soak``: look for hours where the tests look for seconds.

    python -m scripts.soak                             the swarm for a minute, then every property test
    python -m scripts.soak --seconds 3600 --jobs 2     the swarm for an hour; two processes for either part
    python -m scripts.soak --only properties           the property tests alone
    python -m scripts.soak --seed 17                   the swarm's run of one seed again, and nothing else

Two parts run one after the other, whatever becomes of the first. The *swarm* runs random fabrics, workloads and faults
in the simulated world; options that are not listed here are its own (``python -m simulation.swarm --help``). The
*property tests* of ``tests/mrc_host`` run with 20,000 examples each (hypothesis profile ``soak`` in its conftest),
chosen anew each time; they end by saying which seed chooses the same. A summary ends the output. The status is 0 when
all is well, 1 when either part failed, 2 when the command line makes no sense, 130 after an interrupt.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click

from mrc_common import children

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("swarm", "properties")
USAGE_ERROR = 2
INTERRUPTED = 130


def swarm(options: Iterable[str], jobs: int) -> list[str]:
    """The command that runs the swarm."""
    return [*children.python("simulation.swarm", "--jobs", str(jobs), *options)]


def properties(jobs: int) -> list[str]:
    """The command that runs the property tests."""
    spread = ["--numprocesses", str(jobs)] if jobs > 1 else []
    chosen = ["-m", "hypothesis", "--hypothesis-profile=soak", "-p", "no:cacheprovider", "-q", "--durations=10"]
    return [*children.python("pytest", "tests/mrc_host", *chosen, *spread)]


def soak(commands: dict[str, list[str]]) -> int:
    """Run each of the named commands, print a summary, and return the status."""
    lines: list[str] = []
    failed = False
    status = 0
    for name, command in commands.items():
        print(f"== {name}: {subprocess.list2cmdline(command[1:])}", flush=True)
        start = time.monotonic()
        try:
            status = children.run(command, cwd=ROOT, check=False).returncode
        except KeyboardInterrupt:
            status = INTERRUPTED
        took = time.monotonic() - start
        word = {0: "passed", INTERRUPTED: "was interrupted"}.get(status, f"FAILED with status {status}")
        lines.append(f"{name:<12}{word} after {took:.0f} s")
        failed = failed or status != 0
        if status in (USAGE_ERROR, INTERRUPTED):
            break
    print("\n== soak")
    print("\n".join(lines), flush=True)
    return status if status in (USAGE_ERROR, INTERRUPTED) else int(failed)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    epilog="Other options are the swarm's: python -m simulation.swarm --help",
)
@click.option("--only", type=click.Choice(PARTS), help="Run one part.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes for either part.")
@click.option("--seed", type=int, help="Replay this seed of the swarm, and nothing else.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[SWARM OPTIONS]...")
def main(only: str | None, jobs: int, seed: int | None, options: tuple[str, ...]) -> None:
    """Run random fabrics and faults in the simulated world, then the property tests with 20,000 examples each."""
    if seed is not None:
        if only == "properties":
            raise click.UsageError("--seed is one of the swarm; it does not go with --only properties.")
        only, options = "swarm", ("--seed", str(seed), *options)
    commands = {"swarm": swarm(options, jobs), "properties": properties(jobs)}
    sys.exit(soak({name: command for name, command in commands.items() if only in (None, name)}))


if __name__ == "__main__":
    main()
