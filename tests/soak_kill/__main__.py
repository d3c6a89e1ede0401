"""``python -m tests.soak_kill``: kill processes of a fabric at random times, and see that nothing is silently wrong.

    python -m tests.soak_kill                        five minutes with a new seed, which is printed
    python -m tests.soak_kill --seed 7               replays the same failures
    python -m tests.soak_kill --switch embedded-per-process

Needs root. Ends with status 0 when all is well, 1 when something was wrong, 3 when the fabric does not come up.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

import click

from mrc_common import strict_json, units
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import the_one
from mrc_lab.fabric.switch_option import SwitchChoice
from topologies.emulation import switch_kind
from topologies.emulation.errors import EmulationError
from topologies.emulation.switch_kind import SwitchKind
from topologies.errors import FabricError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, help="Seed for failures and data (default: random, printed).")
@click.option(
    "--seconds", type=click.FloatRange(1), default=300.0, show_default=True, help="Duration of the test in seconds."
)
@click.option("--hosts", type=click.IntRange(2), default=4, show_default=True, help="Hosts; each writes to the next.")
@click.option("--rate", default="10M", show_default=True, help="Rate of every link.")
@click.option(
    "--switch",
    type=SwitchChoice((SwitchKind.EMBEDDED, SwitchKind.EMBEDDED_PER_PROCESS)),
    default=switch_kind.DEFAULT,
    show_default=True,
    help="Switches in one process, or one process each.",
)
@click.option("--fabric", "--name", "names", multiple=True, help="Name of the fabric. [default: soak]")
def main(seed: int | None, seconds: float, hosts: int, rate: str, switch: str, names: tuple[str, ...]) -> None:
    """Kill processes of a fabric at random times during verified traffic."""
    from tests.soak_kill.kill_plan import kills, processes
    from tests.soak_kill.run import Soak
    from topologies.clos import multi_plane_clos

    try:
        name = the_one(names, str) or "soak"
        rate_bps = units.RATE.word(rate)
    except (ExperimentError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    click.echo(f"seed {seed}")
    try:
        fabric = multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=hosts, rate_bps=rate_bps)
        with tempfile.TemporaryDirectory() as folder:
            soak = Soak(fabric, switch, seed, Path(folder), click.echo)
            began = time.monotonic()
            verdict = asyncio.run(soak.play(kills(seed, processes(fabric, SwitchKind(switch))), seconds=seconds))
    except (EmulationError, ExperimentError, FabricError) as error:
        click.echo(f"soak: {error}", err=True)
        sys.exit(3)
    summary = {**verdict.summary(), "seconds": round(time.monotonic() - began, 1)}
    click.echo(strict_json.dumps(strict_json.finite(summary)))
    if verdict.wrong:
        click.echo(f"{len(verdict.wrong)} things were wrong; again: python -m tests.soak_kill --seed {seed}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
