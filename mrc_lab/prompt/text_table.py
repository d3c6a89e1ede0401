"""Tables as the prompt prints them."""

from __future__ import annotations

from rich import box
from rich.table import Table


def columns(*names: str) -> Table:
    """An empty table with these columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in names:
        table.add_column(name, no_wrap=True)
    return table
