"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from topologies.errors import FabricError
from topologies.loader import parse_rate

_F = TypeVar("_F", bound=Callable[..., Any])
SWITCHES = ("shim", "shim-each", "bmv2")


def _rate(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        return parse_rate("the rate", value)
    except FabricError as error:
        raise click.BadParameter(str(error)) from None


def fabric_options(function: _F) -> _F:
    """Options that describe the fabric."""
    for option in (
        click.option("--name", default="demo", show_default=True, help="Name of the fabric."),
        click.option(
            "--switch",
            type=click.Choice(SWITCHES),
            default="shim",
            show_default=True,
            help="Embedded switches in one process, in one each, or BMv2.",
        ),
        click.option(
            "--rate",
            "rate_bps",
            callback=_rate,
            help="Rate of every link in bit/s, as in 40M. [default: what this machine carries]",
        ),
        click.option("--t1", default=4, show_default=True, help="T1 switches per plane."),
        click.option("--t0", default=2, show_default=True, help="T0 switches per plane."),
        click.option("--planes", default=2, show_default=True, help="Planes, 1 to 8."),
        click.option("--hosts", default=4, show_default=True, help="Hosts, a multiple of the T0s."),
    ):
        function = option(function)
    return function
