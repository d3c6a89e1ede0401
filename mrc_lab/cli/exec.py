"""``mrc exec``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import click

from mrc_lab.cli.fabric_argument import ONLY_ONE, fabric_name

_SEPARATOR = "--"
_NOT_FOUND = 127  # as shells have it


@click.command(
    "exec",
    epilog="Example: sudo mrc exec lab h1 -- ping -c 1 h3",
    context_settings={"allow_interspersed_args": False},  # options behind the host are the command's
)
@click.argument("words", metavar="[FABRIC] HOST [--] COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--devices-per-plane", is_flag=True, help="RDMA programs see a device for each plane, too: mrc0_p0 ...")
@fabric_name(ONLY_ONE, words=True)
def exec_(words: Sequence[str], name: str | None, devices_per_plane: bool) -> int:
    """Run a command inside a host, or a switch that the kernel is, of a fabric that is up; without one, a shell.

    Other hosts are known by name: h3 on the management network, h3-p0 in plane 0 of the fabric. MRC_FABRIC, MRC_HOST
    and MRC_AGENT (the socket of the host's NIC) are in the command's environment, and programs for RDMA, such as
    ib_write_bw, find the NIC. It needs root. The exit status is that of the command.
    """
    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric.find_fabric import find_fabric
    from topologies.emulation import host_environment, namespaces
    from topologies.loader import load_file

    if os.geteuid() != 0:
        raise ExperimentError("running commands inside a host needs root", "Run the same command with sudo.")
    name, host, command = divided(words, name)
    run = find_fabric(name)
    fabric = load_file(run.fabric_file)
    is_switch = fabric.is_kernel(host)
    host = host if is_switch else fabric.nic(host).name
    shell = run.shell(host)
    if shell is None:
        raise ExperimentError(f"{host} of fabric {run.name} is gone", "Take the fabric down.")
    command = command or [os.environ.get("SHELL") or "bash"]
    if shutil.which(command[0]) is None:
        click.echo(f"There is no command {command[0]} here.", err=True)
        return _NOT_FOUND
    argv = [*namespaces.enter_host(shell.pid), *command]
    more = {} if is_switch else host_environment.variables(run, host)
    if devices_per_plane:
        more.update(host_environment.PLANE_DEVICES)
    return os.execvpe(argv[0], argv, {**os.environ, **more})


def divided(words: Sequence[str], name: str | None) -> tuple[str | None, str, list[str]]:
    """The fabric (None: the only one), the host and the command; UsageError if there is no host.

    Before ``--`` stand a fabric and a host, or a host alone. Without it, the first word is a fabric's if there is one
    of that name and none is named otherwise.
    """
    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric.find_fabric import is_file, is_there, name_of, the_one

    before = list(words[: words.index(_SEPARATOR)]) if _SEPARATOR in words[:3] else None
    with_fabric = len(before) == 2 if before is not None else name is None and (is_file(words[0]) or is_there(words[0]))
    if before == [] or (with_fabric and len(words) < 2):
        raise click.UsageError("say in which host, as in: mrc exec lab h1 -- ip -br addr")
    try:
        named = the_one([word for word in (name, words[0] if with_fabric else None) if word is not None], name_of)
    except ExperimentError as error:
        raise click.UsageError(str(error)) from None
    first = 1 if with_fabric else 0
    command = list(words[first + 1 :])
    return named, words[first], command[1:] if command[:1] == [_SEPARATOR] else command
