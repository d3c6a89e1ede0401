"""The fabric argument of commands: one rule for all of them.

A command takes a fabric as its argument or by ``--fabric`` (``--name`` is the same); if it is given twice, both must be
the same. A value that ends in ``.yaml`` is a fabric file, anything else a name. A command for a fabric that is up takes
the one of that name (or of the file's name), or by default the only one that is up. A command that brings a fabric up
takes the fabric of the file, or makes one of that name from the options for its size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from mrc_common.units import counted, show_rate
from mrc_lab.cli.options import RATE
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import is_file, name_of, the_one
from mrc_lab.fabric.switch_option import switch_option
from topologies.emulation import wire_kind
from topologies.emulation.wire_kind import WireKind

if TYPE_CHECKING:
    from topologies.fabric import Fabric
    from topologies.p4_program import P4Program

_F = TypeVar("_F", bound=Callable[..., Any])
ONLY_ONE = "the only one that is up"
_OPTIONS = ("--fabric", "--name")
_ABOUT = "The fabric: its name, or a .yaml file. [default: {}]"
SIZES = ("hosts", "planes", "t0", "t1", "rate_bps")


def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of fabrics that are up here, and files, for the shell's completion."""
    from topologies.emulation import run_directory

    names = [CompletionItem(name) for name in run_directory.existing() if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


def fabric_name(default: str, *, words: bool = False) -> Callable[[_F], _F]:
    """Decorates a command for a fabric that is up: passes its `name`, or None if none is given.

    `default` describes what None means, for the help. With `words` the command's arguments are something else, and
    there is only the option.
    """
    return _fabric(_ABOUT.format(default), "name", name_of, words)


def fabric_to_make(default: str) -> Callable[[_F], _F]:
    """Decorates a command that brings a fabric up: passes a name or file as `fabric`, or None; see :func:`made`."""
    return _fabric(_ABOUT.format(default), "fabric", _as_given, words=False)


def name_to_make(default: str) -> Callable[[_F], _F]:
    """Decorates a command that brings up a fabric described elsewhere: passes the `name` for it."""
    return _fabric(f"Name of the fabric. [default: {default}]", "name", _as_given, words=True, default=default)


def _as_given(given: str) -> str:
    return given


def _fabric(
    about: str, keyword: str, meaning: Callable[[str], str], words: bool, default: str | None = None
) -> Callable[[_F], _F]:
    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def command(*args: Any, by_option: Sequence[str], by_argument: str | None = None, **kwargs: Any) -> Any:
            try:
                named = the_one([*([] if by_argument is None else [by_argument]), *by_option], meaning)
            except ExperimentError as error:
                raise click.UsageError(str(error)) from None
            return function(*args, **{keyword: default if named is None else named}, **kwargs)

        # Click takes the last of an option given twice, unless it may be given several times.
        decorated: Any = click.option(
            *_OPTIONS, "by_option", metavar="FABRIC", multiple=True, shell_complete=complete, help=about
        )(command)
        if not words:
            decorated = click.argument("by_argument", metavar="[FABRIC]", required=False, shell_complete=complete)(
                decorated
            )
        return decorated  # type: ignore[no-any-return]

    return decorate


def making_given(*, besides: tuple[str, ...] = ()) -> list[str]:
    """Options on the command line that say how to make a fabric."""
    context = click.get_current_context()
    return [
        option.opts[0]
        for option in context.command.params
        if option.name in (*SIZES, "switch", "wire", "p4")
        and option.name not in besides
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]


def made(given: str | None, default: str, sizes: Mapping[str, Any]) -> Fabric:
    """The fabric of a file, or one of a name (else `default`) and sizes; FabricError if they make none.

    Sizes together with a file are a UsageError. A note warns of a rate that this machine cannot carry.
    """
    from topologies import loader
    from topologies.clos import multi_plane_clos

    if given is None or not is_file(given):
        rate = link_rate(sizes["rate_bps"], sizes["hosts"], sizes["planes"])
        return multi_plane_clos(given or default, **{**sizes, "rate_bps": rate})
    if options := making_given(besides=("switch", "wire", "p4")):
        raise click.UsageError(f"{options[0]} does not apply to a fabric file: leave it out, or change the file")
    fabric = loader.load_file(given)
    link_rate(max(link.rate_bps for link in fabric.links), len(fabric.nics), fabric.planes)
    return fabric


def came_up(fabric: Fabric, seconds: float) -> str:
    """What a command says that has brought a fabric up, in `seconds`."""
    rates = sorted({link.rate_bps for link in fabric.links})
    rate = show_rate(rates[0]) if len(rates) == 1 else f"{show_rate(rates[0])} to {show_rate(rates[-1])}"
    return (
        f"fabric {fabric.name}: {counted(fabric.planes, 'plane')},"
        f" {counted(len(fabric.switches), 'switch', 'switches')},"
        f" {counted(len(fabric.nics), 'host')}, {rate} per link, up and verified in {seconds:.2f} s"
    )


def link_rate(wanted: int | None, hosts: int, planes: int) -> int:
    """The rate of every link, b/s: as wanted, with a warning beyond what this machine carries, or what it carries."""
    from mrc_lab.fabric.link_rate import carried_rate

    carried = carried_rate(hosts, planes)
    if wanted is not None and wanted > carried:
        click.echo(
            f"Warning: this machine carries about {show_rate(carried)} per link with {counted(hosts, 'host')} and"
            f" {counted(planes, 'plane')}; at {show_rate(wanted)} the machine limits traffic, not the links.",
            err=True,
        )
    return wanted or carried


def management_option(function: _F) -> _F:
    """Adds the option for hosts to reach each other by name beside the fabric too, passed as `management_network`."""
    return click.option(
        "--management/--no-management",
        "management_network",
        default=True,
        help="Connect hosts by a management network too, for ssh and the like. [default: yes]",
    )(function)


def web_option(function: _F) -> _F:
    """Adds the option to serve the live view of the fabric too, passed as `web`."""
    return click.option("--web", is_flag=True, help="Show the fabric as a page too, as 'mrc web' does.")(function)


def wire_option(function: _F) -> _F:
    """Adds the option for what carries frames, passed as `wire`."""
    return click.option(
        "--wire",
        type=click.Choice([kind.value for kind in WireKind]),
        default=wire_kind.DEFAULT,
        show_default=True,
        help="What carries frames: the kernel's links, or shared memory, which takes less processor time.",
    )(function)


def p4_option(function: _F) -> _F:
    """Adds the option for another P4 program, passed as `p4`; see :func:`program_for`."""
    return click.option(
        "--p4",
        "p4",
        type=click.Path(path_type=Path, resolve_path=True),
        help="P4 program that the switches run instead of the fabric's own: a .p4 file, or BMv2's JSON.",
    )(function)


def program_for(fabric: Fabric, p4: Path | None) -> P4Program:
    """The P4 program in a file, or the fabric's own; FabricError with what is wrong with it.

    What the compiler warns of is printed, and what the program has no tables for.
    """
    from topologies.p4_program import check_reroutes, fabric_program, left_out, read_program

    if p4 is None:
        note_edits()
    program = read_program(p4) if p4 is not None else fabric_program()
    for warning in program.warnings:
        click.echo(warning, err=True)
    check_reroutes(fabric, program.tables(), program.name)
    if note := left_out(fabric, program):
        click.echo(f"Warning: {note}.", err=True)
    return program


def note_edits() -> None:
    """Say that the fabric's own P4 program was edited, if it was."""
    import p4src

    if changed := p4src.changed():
        click.echo(f"note: p4src/ was edited ({', '.join(changed)}), and is compiled for this", err=True)


def fabric_options(function: _F) -> _F:
    """Adds the options that describe a fabric, except its name."""
    for option in (
        switch_option(
            "Embedded switches in one process, or one process each, or BMv2, or Linux itself; with a name or pattern"
            " before it, as in t1-0@p0=kernel, Linux for some. May be repeated."
        ),
        wire_option,
        click.option(
            "--rate",
            "rate_bps",
            type=RATE,
            help="Rate of every link in b/s, as in 40M. [default: what this machine carries]",
        ),
        *(_size_option(name) for name in ("t1", "t0", "planes", "hosts")),
    ):
        function = option(function)
    return function


def _size_option(name: str) -> Callable[[_F], _F]:
    """An option for a number of a Clos, as that declares it."""
    from mrc_common.declared.sections import keys_of
    from topologies.clos import Clos

    known = keys_of(Clos)[name]
    return click.option(
        f"--{name}", default=known.default, show_default=True, help=f"{known.doc[0].upper()}{known.doc[1:]}."
    )
