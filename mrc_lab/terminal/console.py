"""Print to a terminal in colour and in its width, and to anything else as it is.

Rich decides what there is: no colour in pipes and files, nor where NO_COLOR is set or TERM is dumb; FORCE_COLOR asks
for it all the same. A table that is wider than the terminal loses columns, least important first, and a line below
names them; one whose columns are all alike is continued below itself. In a pipe a table is always whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any, Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mrc_lab.terminal.state_colour import coloured

_WIDEST: Final = 1000
_ROWS: Final = 25  # of a console that is made for one table; they matter to nobody
_STATES: Final = frozenset({"state", "verdict"})  # columns whose cells are states
_DISPENSABLE: Final = (  # columns of all tables, in the order in which they go
    "client", "kind", "type", "lower end", "upper end", "uplink", "limit", "waiting", "peak", "active", "in use", "RTT",
    "received", "faults", "ECN marks", "trims", "remote", "bytes down", "bytes up", "peak bytes", "plane", "unit",
    "resent", "max", "min", "seeds", "outcome",
)  # fmt: skip


def console(file: IO[str] | None = None, *, stderr: bool = False) -> Console:
    """A console on standard output, standard error or `file`; text is printed as it is, without markup."""
    return Console(file=file, stderr=stderr, highlight=False, markup=False, emoji=False)


def echo(text: str | Text, *, err: bool = False) -> None:
    """Print a line, however long."""
    console(stderr=err).print(text, soft_wrap=True)


def print_folded(to: Console, text: Text, indent: int) -> None:
    """Print a line, folded in the width of a terminal with its other lines indented; whole to anything else."""
    if not to.is_terminal or len(text) <= to.width or to.width < 2 * indent:
        to.print(text, soft_wrap=True)
        return
    to.print(text[:indent], end="", soft_wrap=True)
    first, *others = text[indent:].wrap(to, to.width - indent)
    to.print(first, soft_wrap=True)
    for line in others:
        to.print(Text(" " * indent) + line, soft_wrap=True)


def show(to: Console, table: Table, *, alike: bool = False) -> None:
    """Print a table; with `alike` its columns but the first are of one kind, and none is left out."""
    _colour_states(table)
    whole = _width(to, table)
    if not to.is_terminal or whole <= to.width:
        _print(to, table, whole)
        return
    if alike:
        for part in _parts(to, table):
            _print(to, part, _width(to, part))
        return
    left_out: list[str] = []
    headers = [str(column.header) for column in table.columns]
    for name in _DISPENSABLE:
        if _width(to, table) <= to.width:
            break
        if name in headers and len(headers) - len(left_out) > 2:
            left_out.append(name)
            table = _only(table, [place for place, header in enumerate(_headers(table)) if header != name])
    _print(to, table, to.width)
    if left_out:
        to.print(f"(too narrow for: {', '.join(left_out)})", style="dim")


def _headers(table: Table) -> list[str]:
    return [str(column.header) for column in table.columns]


def _colour_states(table: Table) -> None:
    for column in table.columns:
        if column.header in _STATES:
            column._cells = [coloured(str(cell)) for cell in column._cells]


def _print(to: Console, table: Table, width: int) -> None:
    """In a console as wide as the table, so that nothing is cut unless it has to be."""
    kind: Any = to.color_system if to.is_terminal else None
    narrow = Console(
        file=to.file, width=width, height=_ROWS, force_terminal=to.is_terminal, color_system=kind, no_color=to.no_color
    )
    narrow.print(table)


def _width(to: Console, table: Table) -> int:
    return Measurement.get(to, to.options.update(max_width=_WIDEST), table).maximum


def _only(table: Table, places: Sequence[int]) -> Table:
    """The table with some of its columns."""
    kept = Table(
        box=table.box, pad_edge=table.pad_edge, padding=table.padding, show_edge=table.show_edge, title=table.title
    )
    columns = [table.columns[place] for place in places]
    for column in columns:
        kept.add_column(column.header, justify=column.justify, no_wrap=column.no_wrap, overflow="ellipsis")
    for row in range(table.row_count):
        kept.add_row(*(column._cells[row] for column in columns))
    return kept


def _parts(to: Console, table: Table) -> list[Table]:
    """The first column with as many of the others as fit, then with the next ones."""
    parts: list[list[int]] = []
    for place in range(1, len(table.columns)):
        if parts and _width(to, _only(table, [0, *parts[-1], place])) <= to.width:
            parts[-1].append(place)
        else:
            parts.append([place])
    return [_only(table, [0, *part]) for part in parts]
