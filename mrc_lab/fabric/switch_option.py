"""The command-line option `--switch`: a kind of switch, under today's name or an old one, for all or for some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from topologies.emulation import switch_kind
from topologies.emulation.errors import EmulationError
from topologies.emulation.switch_kind import OLD_NAMES, SwitchKind, SwitchSelection

_F = TypeVar("_F", bound=Callable[..., Any])


class SwitchChoice(click.Choice):  # type: ignore[type-arg] # only newer versions of click have one
    """One of `kinds` (default: all); an old name is accepted with a note on standard error.

    Where the kernel is among them, ``NAME=kernel`` is accepted too.
    """

    def __init__(self, kinds: Sequence[SwitchKind] = tuple(SwitchKind)) -> None:
        super().__init__([kind.value for kind in kinds])
        self._single = SwitchKind.KERNEL in kinds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Today's name of the kind, or the word for single switches as it is."""
        if value in OLD_NAMES:
            click.echo(f"Note: --switch {value} is now --switch {OLD_NAMES[value]}.", err=True)
            value = OLD_NAMES[value]
        if self._single and "=" in value:
            try:
                SwitchSelection.parse(value)
            except EmulationError as error:
                self.fail(str(error), param, ctx)
            return value
        return super().convert(value, param, ctx)


def switch_option(help_text: str) -> Callable[[_F], _F]:
    """Adds the option `--switch`, which may be repeated, passed as one text `switch` (`SwitchSelection.parse`)."""
    return click.option(
        "--switch",
        type=SwitchChoice(),
        multiple=True,
        default=(switch_kind.DEFAULT,),
        show_default=switch_kind.DEFAULT,
        callback=_joined,
        help=help_text,
    )


def _joined(_ctx: click.Context, _param: click.Parameter, words: Sequence[str]) -> str:
    return ",".join(words)
