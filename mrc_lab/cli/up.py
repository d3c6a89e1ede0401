"""``mrc up`` and ``mrc down``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrc_lab.cli.fabric_argument import (
    ONLY_ONE,
    came_up,
    fabric_name,
    fabric_options,
    fabric_to_make,
    made,
    management_option,
    p4_option,
    program_for,
    web_option,
)

if TYPE_CHECKING:
    from topologies.fabric import Fabric

DRAWING = "-"
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, resolve_path=True)


@click.command(epilog="Example: sudo mrc up lab --planes 4 --hosts 8")
@fabric_to_make("demo")
@fabric_options
@p4_option
@management_option
@web_option
@click.option("--restart", is_flag=True, help="Restart crashed processes: controller, switches, hosts' agents.")
@click.option(
    "--listen", "address", default="", help="host:port on which the controller also listens, for 'mrc fault'."
)
@click.option("--plugin", "plugin", multiple=True, metavar="FILE", help="Python file that agents run; may be repeated.")
@click.option("--congestion", metavar="NAME", help="Congestion control of MRC on all hosts, perhaps a plugin's.")
@click.option("--path-selection", metavar="NAME", help="Path selection of MRC on all hosts, a plugin's.")
@click.option("--token-file", type=_FILE, help="File with the token that clients must present.")
@click.option("--tls-cert", type=_FILE, help="File with the certificate (PEM) for --listen.")
@click.option("--tls-key", type=_FILE, help="File with the private key (PEM) for --listen.")
@click.option(
    "--show", is_flag=False, flag_value=DRAWING, metavar="[FILE.svg]", help="Draw the fabric, and do not bring it up."
)
def up(
    fabric: str | None,
    show: str | None,
    switch: str,
    wire: str,
    p4: Path | None,
    management_network: bool,
    web: bool,
    restart: bool,
    plugin: tuple[str, ...],
    congestion: str | None,
    path_selection: str | None,
    address: str,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    **sizes: Any,
) -> None:
    """Bring up a fabric and its controller in the background, with a given size or from a file.

    'mrc shell NAME' opens a prompt on it, the performance tests take it as --fabric NAME, and 'mrc down NAME' takes it
    down. Several fabrics can be up at once under different names.

    The controller listens on a UNIX socket in /run/mrc/NAME, and with --listen also on TCP. For any address but
    loopback it then requires a token and TLS.

    Prompts and 'mrc fault watch' report crashed processes, and 'mrc doctor' lists them. With --restart they are
    restarted: no table entry and no queue pair is lost, except those of a crashed agent.

    A --plugin is run by the agents of the hosts, which start as root: name only files that you trust
    (docs/extending.md).

    With --show the fabric is only drawn, as text or into an SVG file; this needs no root.
    """
    from mrc_lab.fabric.daemon import bring_up
    from mrc_lab.terminal.progress import progress
    from topologies.emulation import requirements
    from topologies.emulation.switch_kind import SwitchSelection

    if show is not None and show != DRAWING and not show.endswith(".svg"):
        fabric, show = the_fabric_after_show(fabric, show), DRAWING
    wanted = SwitchSelection.parse(switch).applied(made(fabric, "demo", sizes))
    if show is not None:
        draw_fabric(wanted, show)
        return
    if note := delays_left_out(wanted, switch):
        click.echo(f"Warning: {note}", err=True)
    files = {"--token-file": token_file, "--tls-cert": tls_cert, "--tls-key": tls_key}
    more = [word for option, file in files.items() if file for word in (option, str(file))]
    if address or more:
        from controller.server import Listening

        Listening(None, address, token_file, tls_cert, tls_key).check()
        more += ["--listen", address] if address else []
    requirements.check(switch=switch, kernel_switches=bool(wanted.kernel_switches))
    program = program_for(wanted, p4)
    nics = nic_settings(plugin, congestion, path_selection)
    with progress(f"fabric {wanted.name}") as line:
        took = bring_up(
            wanted,
            switch,
            more,
            wire=wire,
            restart=restart,
            management_network=management_network,
            nic_settings=nics,
            program=program,
            progress=line.report,
        )
    click.echo(came_up(wanted, took["total_s"]))
    if web:
        from mrc_lab.fabric.live_view import web_detached

        click.echo(web_detached(wanted.name))


def nic_settings(plugins: Sequence[str], congestion: str | None, path_selection: str | None) -> dict[str, Any]:
    """Transport settings of NICs for these options; MrcError for a plugin or a name that is wrong."""
    from mrc_host import plugins as loader
    from mrc_host.transport import algorithms

    given: dict[str, Any] = {"plugins": [loader.load(plugin) for plugin in plugins]} if plugins else {}
    if congestion is not None:
        algorithms.find({**algorithms.ALGORITHMS, **loader.CONGESTION_CONTROLS}, congestion, True)
        given["congestion"] = congestion
    if path_selection is not None:
        loader.make_path_selection(path_selection)
        given["path_selection"] = path_selection
    return given


def the_fabric_after_show(fabric: str | None, word: str) -> str:
    """The fabric, where the word after --show is meant to be that; UsageError if there is one already."""
    if fabric is not None:
        raise click.UsageError(f"--show draws into a file that ends in .svg, and {word!r} does not")
    return word


def draw_fabric(fabric: Fabric, show: str) -> None:
    """Print the drawing, or write it to an SVG file; ExperimentError when that cannot be written."""
    if show == DRAWING:
        from mrc_lab.fabric.draw import draw

        click.echo(draw(fabric), nl=False)
        return
    from mrc_common.written_files import write_text
    from mrc_lab.errors import ExperimentError
    from topologies.drawing import svg

    try:
        write_text(show, svg(fabric, names=True) + "\n")
    except OSError as error:
        raise ExperimentError(f"{show} cannot be written: {error.strerror}") from None
    click.echo(f"fabric {fabric.name} is drawn in {show}")


def delays_left_out(fabric: Fabric, switch: str) -> str:
    """What to say of link delays that nobody makes: BMv2, or Linux at both ends; nothing if there are none."""
    from topologies.emulation.switch_kind import SwitchKind, program_of
    from topologies.fault_targets import delaying_end

    delayed = [link for link in fabric.links if link.delay_ns]
    if program_of(switch) is SwitchKind.BMV2 and delayed:
        return "links of BMv2 have no delay but this machine's: the file's are left out."
    if any(delaying_end(fabric, link.lower) is None for link in delayed):
        return "links with no end at a P4 switch have no delay but this machine's: the file's are left out."
    return ""


@click.command(epilog="Example: sudo mrc down lab")
@fabric_name(ONLY_ONE)
def down(name: str | None) -> None:
    """Take down a fabric that 'mrc up' has brought up, or what is left of it.

    Fabrics of running prompts, demos and experiments are not touched.
    """
    import os

    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric.daemon import take_down
    from mrc_lab.fabric.find_fabric import to_take_down
    from topologies.emulation.attach import up_now

    if os.geteuid() != 0:
        raise ExperimentError("taking a fabric down needs root", "Run the same command with sudo.")
    name = to_take_down(name)
    if not take_down(name):
        raise ExperimentError(f"there is no fabric {name}", f"Now {up_now()}.")
    click.echo(f"fabric {name} is down")
