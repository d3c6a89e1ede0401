"""Options, and types of options, that several commands share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from mrc_common import units
from mrc_lab.backends import BACKENDS, DEFAULT

_F = TypeVar("_F", bound=Callable[..., Any])


def backend_option(command: _F) -> _F:
    """Give a command the option --backend, and the hidden --world of earlier releases with a note on standard error.

    Neither given, the command gets None: an experiment file may say where it runs.
    """

    @functools.wraps(command)
    def with_backend(*values: Any, backend: str | None, world: str | None, **options: Any) -> Any:
        if world is not None:
            if backend is not None and world != backend:
                raise click.UsageError(f"--backend {backend} and --world {world} disagree: leave --world out.")
            click.echo("Note: --world is now --backend.", err=True)
        return command(*values, backend=world or backend, **options)

    click.option("--world", type=click.Choice(tuple(BACKENDS)), hidden=True)(with_backend)
    where = f"Where to run. [default: the file's backend, else {DEFAULT}]"
    click.option("--backend", type=click.Choice(tuple(BACKENDS)), help=where)(with_backend)
    return cast("_F", with_backend)


class RateOption(click.ParamType):  # type: ignore[type-arg] # only newer versions of click have one
    """Bits per second, as in 40M or 800G."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """An int."""
        if isinstance(value, int):
            return value
        try:
            return int(units.RATE.word(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class NumbersOption(click.ParamType):  # type: ignore[type-arg] # only newer versions of click have one
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


class SeedsOption(NumbersOption):
    """Seeds: a number of them, as 10 for the seeds 1 to 10, or which, as in 1-20 or 1,5,9."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """A tuple of int, each once, in the order given."""
        if not isinstance(value, str) or not value.strip().isdecimal():
            return super().convert(value, param, ctx)
        if not value.strip().strip("0"):
            self.fail("0 seeds are none: write 10 for the seeds 1 to 10, or 0-0 for the seed 0", param, ctx)
        return super().convert(f"1-{value.strip()}", param, ctx)


RATE, COUNTS, SEEDS = RateOption(), NumbersOption(1), SeedsOption()
