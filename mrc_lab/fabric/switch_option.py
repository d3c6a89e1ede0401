"""The command-line option `--switch`: a kind of switch, under today's name or an old one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from topologies.emulation.switch_kind import OLD_NAMES, SwitchKind


class SwitchChoice(click.Choice):  # type: ignore[type-arg] # only newer versions of click have one
    """One of `kinds` (default: all); an old name is accepted with a note on standard error."""

    def __init__(self, kinds: Sequence[SwitchKind] = tuple(SwitchKind)) -> None:
        super().__init__([kind.value for kind in kinds])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Today's name of the kind."""
        if value in OLD_NAMES:
            click.echo(f"Note: --switch {value} is now --switch {OLD_NAMES[value]}.", err=True)
            value = OLD_NAMES[value]
        return super().convert(value, param, ctx)
