"""``mrc shell``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrc_lab.cli.fabric_argument import (
    came_up,
    fabric_options,
    fabric_to_make,
    made,
    making_given,
    management_option,
    p4_option,
    program_for,
    web_option,
)

if TYPE_CHECKING:
    from rich.console import Console

    from mrc_lab.fabric.emulation import EmulatedWorld

FABRIC_CLOSED = 3  # exit status: the fabric was taken down under the prompt


@click.command(epilog='Example: sudo mrc shell --planes 4 -c "write h1 h3 16M" -c "evs h1"')
@fabric_to_make("the only one that is up, else demo")
@fabric_options
@p4_option
@management_option
@web_option
@click.option(
    "--command", "-c", "commands", multiple=True, help="Run this command instead of prompting; may be repeated."
)
def shell(
    fabric: str | None,
    switch: str,
    wire: str,
    p4: Path | None,
    management_network: bool,
    web: bool,
    commands: tuple[str, ...],
    **sizes: Any,
) -> int:
    """Open the Mininet prompt on a fabric: one that is up, or one that this command brings up.

    A fabric file or options for the size bring a fabric up; a name alone means one that is up. All of Mininet's
    commands work; 'help' lists more: write, paths, fault, capture, tables. On exit, a fabric that this command has
    brought up is taken down; one that was already up stays up.
    """
    from mrc_lab.fabric.emulation import EmulatedWorld, running
    from mrc_lab.terminal.console import console
    from topologies.emulation.attach import attached

    attach_to = _up_already(fabric)
    if attach_to is not None:
        with attached(attach_to) as emulation:
            if not commands:
                console().print(f"fabric {attach_to}, which stays up when you leave", soft_wrap=True)
            return _converse(EmulatedWorld(emulation), console(), commands, web)
    wanted = made(fabric, "demo", sizes)
    program = program_for(wanted, p4)
    with running(wanted, switch=switch, wire=wire, management_network=management_network, program=program) as world:
        console().print(came_up(wanted, world.bring_up["total_s"]), soft_wrap=True)
        return _converse(world, console(), commands, web)


def _up_already(given: str | None) -> str | None:
    """The name of the fabric to open the prompt on, or None to bring one up.

    Raises UsageError if options describe a fabric that is already up, ExperimentError if a named fabric is not up.
    """
    from mrc_lab.fabric.find_fabric import find_fabric, in_state, is_file, name_of
    from topologies.emulation.run_directory import FabricState, RunDirectory

    options = making_given()
    if given is None:
        return find_fabric(None).name if not options and in_state(FabricState.UP) else None
    name = name_of(given)
    if RunDirectory(name).state() is FabricState.UP:
        if options:
            raise click.UsageError(
                f"{options[0]} does not apply to a fabric that is already up: leave it out, or the name"
            )
        return name
    return None if options or is_file(given) else find_fabric(name).name


def _converse(world: EmulatedWorld, console: Console, commands: Sequence[str], web: bool) -> int:
    from contextlib import ExitStack

    with ExitStack() as undo:
        if web:
            from mrc_lab.fabric.live_view import web_beside

            click.echo(undo.enter_context(web_beside(world.fabric.name)).address)
        return _prompt(world, console, commands)


def _prompt(world: EmulatedWorld, console: Console, commands: Sequence[str]) -> int:
    from contextlib import closing

    from mrc_lab.prompt import standard_input
    from mrc_lab.prompt.prompt import Prompt

    with standard_input.owned() as stdin, closing(Prompt(world, console, stdin)) as prompt:
        try:
            if not commands:
                prompt.converse()
                prompt.wait_if_closing()
            for line in commands:
                if prompt.onecmd(line) or prompt.fabric_closed:
                    break
                prompt.wait_if_closing()
        except KeyboardInterrupt:
            if not prompt.fabric_closed:
                raise
        if prompt.fabric_closed:
            return FABRIC_CLOSED
        at_a_terminal = not commands and prompt.isatty()  # the user has seen what failed
        return int(prompt.failed and not at_a_terminal)
