"""``mrc restart``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mrc_lab.cli.fabric_argument import ONLY_ONE, fabric_name


@click.command(epilog="Example: sudo mrc restart lab h3")
@click.argument("words", metavar="[FABRIC] [PROCESS]...", nargs=-1, type=click.UNPROCESSED)
@fabric_name(ONLY_ONE, words=True)
def restart(words: Sequence[str], name: str | None) -> None:
    """Restart processes of a fabric that 'mrc up' has brought up; without a name, those that have crashed.

    Processes are hosts' agents (h3, or "h[1-4]" for several), the controller, and switches (one process for all, or one
    each). One that still runs is ended first. No table entry is lost, and no queue pair but those of a restarted agent.
    """
    import os

    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric import restart_requests
    from mrc_lab.fabric.find_fabric import find_fabric, is_file, is_there, name_of, the_one

    if os.geteuid() != 0:
        raise ExperimentError("restarting a process needs root", "Run the same command with sudo.")
    named, processes = [] if name is None else [name], list(words)
    if processes and (is_file(processes[0]) or is_there(processes[0])):
        named.append(processes.pop(0))
    try:
        meant = the_one(named, name_of)
    except ExperimentError as error:
        raise click.UsageError(str(error)) from None
    run = find_fabric(meant)
    chosen = [found for process in processes for found in restart_requests.processes_of(run, process)]
    processes = list(dict.fromkeys(chosen)) or restart_requests.exited(run)
    if not processes:
        click.echo(f"all processes of fabric {run.name} run; name one to restart it all the same")
    for process in processes:
        seconds = restart_requests.ask(run, process)
        click.echo(f"process {process} was restarted in {seconds:.2f} s")
