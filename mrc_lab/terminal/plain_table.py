"""A table of texts in the style of all tables that commands print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text


def plain_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table whose cells are text, never markup."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
