"""``mrc shell``."""

from __future__ import annotations

from typing import Any

import click

from experiments.cli.options import fabric_options


@click.command(epilog='Example: sudo mrc shell --planes 4 -c "write h1 h3 16M" -c "evs h1"')
@fabric_options
@click.option("--command", "-c", "commands", multiple=True, help="Run this line instead of prompting; may be repeated.")
def shell(name: str, switch: str, commands: tuple[str, ...], **sizes: Any) -> int:
    """Bring a fabric up and open the Mininet prompt on it.

    Mininet's own commands work; more are listed by help: write, qps, evs, links, fault. Leaving takes the fabric down.
    """
    import sys
    from contextlib import closing

    from rich.console import Console

    from experiments.capacity import carried_rate
    from experiments.cli.prompt import Prompt
    from experiments.emulation import running
    from topologies.clos import multi_plane_clos

    sizes["rate_bps"] = sizes["rate_bps"] or carried_rate(sizes["hosts"], sizes["planes"])
    fabric = multi_plane_clos(name, **sizes)
    console = Console()
    with running(fabric, switch=switch) as world:
        console.print(
            f"fabric {name}: {sizes['planes']} planes, {len(fabric.switches)} switches, {sizes['hosts']} hosts,"
            f" {sizes['rate_bps'] / 1e6:g} Mbit/s a link, up and verified in {world.bring_up['total_s']:.2f} s",
            highlight=False,
            soft_wrap=True,
        )
        with closing(Prompt(world, console, sys.stdin)) as prompt:
            if not commands:
                prompt.converse()
                return 0
            for line in commands:
                prompt.onecmd(line)
            return 1 if prompt.failed else 0
