"""``mrc up`` and ``mrc down``."""

from __future__ import annotations

from typing import Any

import click

from experiments.cli.options import fabric_options


@click.command(epilog="Example: sudo mrc up --name lab --planes 4 --hosts 8")
@fabric_options
def up(name: str, switch: str, **sizes: Any) -> None:
    """Bring a fabric up in the background, with its controller, by name.

    'mrc shell NAME' opens a prompt on it, and the performance tests find it by --fabric NAME; 'mrc down NAME' takes it
    down. Several can be up at once under different names.
    """
    from experiments.capacity import carried_rate
    from experiments.standing import bring_up
    from topologies.clos import multi_plane_clos
    from topologies.emulation import requirements

    sizes["rate_bps"] = sizes["rate_bps"] or carried_rate(sizes["hosts"], sizes["planes"])
    fabric = multi_plane_clos(name, **sizes)
    requirements.check(switch=switch)
    took = bring_up(fabric, switch)
    click.echo(
        f"fabric {name}: {sizes['planes']} planes, {len(fabric.switches)} switches, {sizes['hosts']} hosts,"
        f" {sizes['rate_bps'] / 1e6:g} Mbit/s a link, up and verified in {took['total_s']:.2f} s"
    )


@click.command(epilog="Example: sudo mrc down lab")
@click.argument("name", default="demo")
def down(name: str) -> None:
    """Take the fabric NAME down that 'mrc up' has brought up, or what is left of it.

    NAME is demo unless another is given. A fabric of a prompt, a demo or an experiment that is running is left alone.
    """
    import os

    from experiments.errors import ExperimentError
    from experiments.standing import take_down
    from topologies.emulation.attach import up_now

    if os.geteuid() != 0:
        raise ExperimentError("taking a fabric down needs root", "Run the same command with sudo.")
    if not take_down(name):
        raise ExperimentError(f"there is no fabric {name}", f"Now {up_now()}.")
    click.echo(f"fabric {name} is down")
