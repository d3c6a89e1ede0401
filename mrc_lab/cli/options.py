"""Options that several commands share, and the one rule for a fabric's name (:func:`fabric_name`)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mrc_lab.fabric.switch_option import SwitchChoice
from topologies.emulation import switch_kind
from topologies.errors import FabricError
from topologies.loader import parse_rate

if TYPE_CHECKING:
    from topologies.fabric import Fabric

_F = TypeVar("_F", bound=Callable[..., Any])


class Rate(click.ParamType):  # type: ignore[type-arg] # only newer versions of click have one
    """Bits per second, as in 40M or 800G."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """An int."""
        if isinstance(value, int):
            return value
        try:
            return parse_rate("the rate", value)
        except FabricError as error:
            self.fail(str(error), param, ctx)


class WholeNumbers(click.ParamType):  # type: ignore[type-arg] # only newer versions of click have one
    """Several whole numbers: single ones and ranges, as in 1-20,25."""

    name = "numbers"
    most = 1_000_000

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """A tuple of int, each once, in the order given."""
        if isinstance(value, tuple):
            return value
        found: dict[int, None] = {}
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part)
            if match is None:
                self.fail(f"{part!r} is not a whole number or a range such as 1-20", param, ctx)
            first, last = int(match[1]), int(match[2] or match[1])
            if first < self.least:
                self.fail(f"{first} is less than {self.least}", param, ctx)
            if last < first:
                self.fail(f"the range {part.strip()} ends before it begins", param, ctx)
            if last - first >= self.most:
                self.fail(f"the range {part.strip()} has more than {self.most} numbers", param, ctx)
            found.update(dict.fromkeys(range(first, last + 1)))
        return tuple(found)


RATE, NATURAL, COUNTS = Rate(), WholeNumbers(), WholeNumbers(1)


def complete_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of fabrics that are up here, for the shell's completion."""
    from topologies.emulation import rundir

    return [name for name in rundir.existing() if name.startswith(incomplete)]


ONLY_ONE = "the only one that is up"


def fabric_name(default: str, *, words: bool = False) -> Callable[[_F], _F]:
    """The command takes the name of a fabric as its argument, or by --fabric or --name, and gets it as `name`.

    `name` is None if there is none; `default` says what is meant then. With `words` the command's arguments are
    something else, and there are only the options.
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def command(*args: Any, by_option: str | None, by_argument: str | None = None, **kwargs: Any) -> Any:
            if by_option and by_argument and by_option != by_argument:
                raise click.UsageError(f"two fabrics are named, {by_argument} and {by_option}: say one")
            return function(*args, name=by_argument or by_option, **kwargs)

        decorated: Any = click.option(
            "--fabric",
            "--name",
            "by_option",
            shell_complete=complete_names,
            help=f"Name of the fabric. [default: {default}]",
        )(command)
        if not words:
            decorated = click.argument("by_argument", metavar="[NAME]", required=False, shell_complete=complete_names)(
                decorated
            )
        return decorated  # type: ignore[no-any-return]

    return decorate


def count(number: int, what: str) -> str:
    """A number of things: ``1 plane``, ``2 planes``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def came_up(fabric: Fabric, rate_bps: int, seconds: float) -> str:
    """What a command says that has brought a fabric up, in `seconds`."""
    return (
        f"fabric {fabric.name}: {count(fabric.planes, 'plane')}, {len(fabric.switches)} switches,"
        f" {count(len(fabric.nics), 'host')}, {rate_bps / 1e6:g} Mb/s a link, up and verified in {seconds:.2f} s"
    )


def link_rate(wanted: int | None, hosts: int, planes: int) -> int:
    """The rate of every link, b/s: as wanted, with a warning beyond what this machine carries, or what it carries."""
    from mrc_lab.fabric.capacity import carried_rate

    carried = carried_rate(hosts, planes)
    if wanted is not None and wanted > carried:
        click.echo(
            f"Warning: this machine carries about {carried / 1e6:g} Mb/s a link with {count(hosts, 'host')} and"
            f" {count(planes, 'plane')}; at {wanted / 1e6:g} Mb/s the links are not what limits traffic.",
            err=True,
        )
    return wanted or carried


def fabric_options(function: _F) -> _F:
    """Options that describe the fabric, but for its name."""
    for option in (
        click.option(
            "--switch",
            type=SwitchChoice(),
            default=switch_kind.DEFAULT,
            show_default=True,
            help="Embedded switches in one process, each in its own, or BMv2.",
        ),
        click.option(
            "--rate",
            "rate_bps",
            type=RATE,
            help="Rate of every link in b/s, as in 40M. [default: what this machine carries]",
        ),
        click.option("--t1", default=4, show_default=True, help="T1 switches per plane."),
        click.option("--t0", default=2, show_default=True, help="T0 switches per plane."),
        click.option("--planes", default=2, show_default=True, help="Planes, 1 to 8."),
        click.option("--hosts", default=4, show_default=True, help="Hosts, a multiple of the T0s."),
    ):
        function = option(function)
    return function
