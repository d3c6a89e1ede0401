"""``mrc demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mrc_lab.cli.fabric_argument import SIZES, fabric_options, fabric_to_make, made


@click.command(epilog="Example: sudo mrc demo --hosts 8 --planes 4")
@fabric_to_make("demo")
@fabric_options
@click.option("--steps", type=int, help="Training steps per run. [default: as many as the faults need]")
@click.option("--fault-seconds", "fault_s", default=5.0, show_default=True, help="How long each link stays down.")
@click.option("--batch", default=64, show_default=True, help="Samples per step over all hosts.")
@click.option("--seed", default=1, show_default=True, help="Seed for initial weights and the order of samples.")
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder for results."
)
def demo(fabric: str | None, **options: Any) -> int:
    """Train over RoCE and over MRC while links are cut.

    Brings up a fabric, trains the same small network twice, cuts a T0-T1 link and a NIC's link in the middle of each
    run, and ends with a summary and a folder of results.
    """
    from rich.console import Console

    from mrc_lab.demo.coordinator import Demo
    from mrc_lab.demo.settings import DemoSettings
    from mrc_lab.fabric.emulation import running

    wanted = made(fabric, "demo", {name: options.pop(name) for name in SIZES})
    settings = DemoSettings.with_enough_steps(
        name=wanted.name,
        hosts=len(wanted.nics),
        planes=wanted.planes,
        t0=wanted.t0_count,
        t1=wanted.t1_count,
        rate_bps=wanted.links[0].rate_bps,
        **options,
    )
    return Demo(settings, Console(), lambda fabric: running(fabric, switch=settings.switch), wanted).run()
