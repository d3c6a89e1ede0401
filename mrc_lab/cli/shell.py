"""``mrc shell``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mrc_lab.cli.options import came_up, complete_names, fabric_options, link_rate

if TYPE_CHECKING:
    from rich.console import Console

    from mrc_lab.fabric.emulation import EmulatedWorld

FABRIC_CLOSED = 3  # exit status: the fabric was taken down under the prompt


@click.command(epilog='Example: sudo mrc shell --planes 4 -c "write h1 h3 16M" -c "evs h1"')
@click.argument("attach_to", metavar="[NAME]", required=False, shell_complete=complete_names)
@click.option("--fabric", "attach_by", shell_complete=complete_names, help="The same as NAME.")
@click.option("--name", default="demo", show_default=True, help="Name of the fabric to bring up.")
@fabric_options
@click.option("--command", "-c", "commands", multiple=True, help="Run this line instead of prompting; may be repeated.")
def shell(
    attach_to: str | None, attach_by: str | None, name: str, switch: str, commands: tuple[str, ...], **sizes: Any
) -> int:
    """Bring a fabric up and open the Mininet prompt on it; with NAME, on the fabric that is up under that name.

    Mininet's own commands work; more are listed by help: write, paths, fault, capture, tables.
    Leaving takes down the fabric that this command has brought up; one that was up stays.
    """
    from rich.console import Console

    from mrc_lab.fabric.emulation import EmulatedWorld, running
    from topologies.clos import multi_plane_clos
    from topologies.emulation.attach import attached

    if attach_to and attach_by and attach_to != attach_by:
        raise click.UsageError(f"two fabrics are named, {attach_to} and {attach_by}: say one")
    attach_to = attach_to or attach_by
    if attach_to is not None:
        _check_alone(click.get_current_context())
        with attached(attach_to) as emulation:
            return _converse(EmulatedWorld(emulation), Console(), commands)

    sizes["rate_bps"] = link_rate(sizes["rate_bps"], sizes["hosts"], sizes["planes"])
    fabric = multi_plane_clos(name, **sizes)
    console = Console()
    with running(fabric, switch=switch) as world:
        console.print(
            came_up(fabric, sizes["rate_bps"], world.bring_up["total_s"]),
            highlight=False,
            soft_wrap=True,
        )
        return _converse(world, console, commands)


def _converse(world: EmulatedWorld, console: Console, commands: Sequence[str]) -> int:
    import sys
    from contextlib import closing

    from mrc_lab.prompt.prompt import Prompt

    with closing(Prompt(world, console, sys.stdin)) as prompt:
        try:
            if not commands:
                prompt.converse()
            for line in commands:
                if prompt.onecmd(line) or prompt.fabric_closed:
                    break
        except KeyboardInterrupt:
            if not prompt.fabric_closed:
                raise
        if prompt.fabric_closed:
            return FABRIC_CLOSED
        at_a_terminal = not commands and prompt.isatty()  # whoever sits there has seen what failed
        return int(prompt.failed and not at_a_terminal)


def _check_alone(context: click.Context) -> None:
    """UsageError when options describe a fabric that is there already."""
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name not in ("attach_to", "attach_by", "commands"):
            raise click.UsageError(f"{option.opts[0]} is of no use with a fabric that is up: leave it out, or the name")
