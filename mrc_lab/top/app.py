"""The terminal application of `mrc top`: a tab for each table, sorted and refreshed.

Samples are read in a thread, one at a time, so that a slow fabric never blocks the keyboard. Of a table that is shown
only the cells that have changed are drawn, unless rows came, went or moved. When the terminal is gone it ends, also if
SIGHUP is ignored, as under nohup; it would go on reading and drawing without a terminal.
"""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Footer, Static, TabbedContent, TabPane

from mrc_lab.terminal.state_colour import AMBER, RED
from mrc_lab.top.rows import VIEWS, TopRow, in_order
from mrc_lab.top.sampling import Sample

MAX_ROWS = 2000  # of a table; more are counted and left out
_SHOWN_PROBLEMS = 3
_HANGUP_S = 0.5  # between looks at whether the terminal is still there


class Top(App[None]):
    """Shows what `read` returns, every `interval` seconds."""

    CSS = "#about { height: auto; padding: 0 1; } TabbedContent, DataTable { height: 1fr; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"show({number - 1})", view.name) for number, view in enumerate(VIEWS, 1)),
        Binding("s", "sort", "next column"),
        Binding("r", "reverse", "reverse"),
        Binding("p", "pause", "pause"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, fabric: str, read: Callable[[], Sample], interval: float) -> None:
        super().__init__()
        self._fabric, self._read, self._interval = fabric, read, interval
        self._sorted = [(view.sorted_by, view.descending) for view in VIEWS]
        self._before: Sample | None = None
        self._now: Sample | None = None
        self._paused = self._reading = False

    def compose(self) -> ComposeResult:
        """A line about the fabric, the tabs, the keys."""
        yield Static("", id="about", markup=False)
        with TabbedContent():
            for number, view in enumerate(VIEWS):
                with TabPane(view.name, id=_pane(number)):
                    yield DataTable(cursor_type="row", zebra_stripes=True, id=_table(number))
        yield Footer()

    def on_mount(self) -> None:
        """Start to sample."""
        for number in range(len(VIEWS)):
            self._name_columns(number)
        self._about()
        self.sample()
        self.set_interval(self._interval, self.sample)
        if sys.__stdin__ is not None and sys.__stdin__.isatty():
            self.set_interval(_HANGUP_S, partial(_end_without, sys.__stdin__.fileno()))

    # ---- samples ------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Read once, unless that is under way or paused."""
        if not self._reading and not self._paused:
            self._reading = True
            self.run_worker(self._sample, thread=True)

    def _sample(self) -> None:
        found = self._read()
        self.call_from_thread(self._take, found)

    def _take(self, found: Sample) -> None:
        self._reading = False
        self._before, self._now = self._now, found
        self._about()
        self._draw()

    def _about(self) -> None:
        if self._now is None:
            self.query_one("#about", Static).update(Text(f"fabric {self._fabric}: reading ..."))
            return
        links, problems = self._now.links, self._now.problems()
        down = sum(not link.up for link in links)
        text = Text(f"fabric {self._fabric}: {len(links)} links, ")
        text.append(f"{down} down", RED if down else "")
        text.append(f", {len(self._now.hosts)} hosts")
        left_out = sum(host.left_out for host in self._now.hosts.values())
        if left_out:
            text.append(f", {left_out} queue pairs not shown", AMBER)
        if self._paused:
            text.append("  (paused)", AMBER)
        for problem in problems[:_SHOWN_PROBLEMS]:
            text.append(f"\n{problem}", RED)
        if len(problems) > _SHOWN_PROBLEMS:
            text.append(f"\n... and {len(problems) - _SHOWN_PROBLEMS} more do not answer", RED)
        self.query_one("#about", Static).update(text)

    # ---- tables -------------------------------------------------------------------------------------------------

    @property
    def _shown(self) -> int:
        active = self.query_one(TabbedContent).active
        return next((number for number in range(len(VIEWS)) if _pane(number) == active), 0)

    def _draw(self) -> None:
        """The table that is shown."""
        if self._now is None:
            return
        number = self._shown
        view = VIEWS[number]
        rows = in_order(list(view.rows(self._now, self._before)), *self._sorted[number])[:MAX_ROWS]
        table: DataTable[Text] = self.query_one(f"#{_table(number)}", DataTable)
        if [row.key for row in rows] == [key.value for key in table.rows]:
            _update(table, rows)
        else:
            _replace(table, rows)

    def _name_columns(self, number: int) -> None:
        """Column headings, with an arrow on the one that is sorted by."""
        table: DataTable[Text] = self.query_one(f"#{_table(number)}", DataTable)
        table.clear(columns=True)
        column, descending = self._sorted[number]
        for place, name in enumerate(VIEWS[number].columns):
            arrow = ("v" if descending else "^") if place == column else ""
            table.add_column(f"{name}{arrow}", key=name)

    def _sort(self, column: int, descending: bool) -> None:
        self._sorted[self._shown] = column, descending
        self._name_columns(self._shown)
        self._draw()

    # ---- keys ---------------------------------------------------------------------------------------------------

    def on_tabbed_content_tab_activated(self, _: TabbedContent.TabActivated) -> None:
        """Another table is shown."""
        self._draw()
        self.query_one(f"#{_table(self._shown)}", DataTable).focus()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """A heading was clicked: sort by it, or the other way round."""
        column, descending = self._sorted[self._shown]
        self._sort(event.column_index, not descending if event.column_index == column else False)

    def action_show(self, number: int) -> None:
        """Show a table."""
        self.query_one(TabbedContent).active = _pane(number)

    def action_sort(self) -> None:
        """Sort by the next column."""
        column, descending = self._sorted[self._shown]
        self._sort((column + 1) % len(VIEWS[self._shown].columns), descending)

    def action_reverse(self) -> None:
        """Sort the other way round."""
        column, descending = self._sorted[self._shown]
        self._sort(column, not descending)

    def action_pause(self) -> None:
        """Keep what is shown, or go on."""
        self._paused = not self._paused
        self._about()


def _end_without(terminal: int) -> None:
    """If the terminal hung up, end by the signal for that: there is nothing to restore, and Textual may wait for it."""
    poll = select.poll()
    poll.register(terminal, 0)  # that it hung up is always reported
    if any(events & select.POLLHUP for _, events in poll.poll(0)):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGHUP)


def _pane(number: int) -> str:
    return f"pane-{number}"


def _table(number: int) -> str:
    return f"table-{number}"


def _update(table: DataTable[Text], rows: list[TopRow]) -> None:
    """The same rows with other values."""
    for line, row in enumerate(rows):
        for column, cell in enumerate(row.cells):
            place = Coordinate(line, column)
            if table.get_cell_at(place) != cell.text:
                table.update_cell_at(place, cell.text, update_width=True)


def _replace(table: DataTable[Text], rows: list[TopRow]) -> None:
    """Other rows, or in another order; the cursor stays where it is on the screen."""
    line, scrolled = table.cursor_row, table.scroll_y
    table.clear()
    for row in rows:
        table.add_row(*(cell.text for cell in row.cells), key=row.key)
    if rows:
        table.move_cursor(row=min(line, len(rows) - 1), animate=False, scroll=False)
        table.scroll_to(y=scrolled, animate=False)
