"""The commands of the prompt that list something: queue pairs, paths, counters, links, tables, queues.

`ListingCommands` is mixed into the prompt's class, before Mininet's. Each command takes ``--json``, which prints the
same rows for programs (:mod:`mrc_lab.commands.listing`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from rich.console import Console

from controller.errors import ControllerError
from controller.inspection import no_tables
from controller.switch_reader import SwitchReader
from controller.values import HandEntryInfo
from mrc_host.verbs.remote.connection import AgentConnection
from mrc_lab.commands import link_listing
from mrc_lab.commands.listing import Listing, Row, wanted_as_json
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.emulation import EmulatedWorld
from mrc_lab.prompt import nic_views, switch_views
from mrc_lab.terminal.console import show
from topologies.emulation import process_watch
from topologies.fabric import Switch


class ListingCommands:
    """What the prompt gains. It has to have `_world`, `_console`, `_words` and `_echo`."""

    _world: EmulatedWorld
    _console: Console
    _echo: Callable[[str], None]
    _words: Callable[[str, str, int, int], list[str]]

    def do_qps(self, line: str) -> None:
        """See helping."""
        words, as_json = self._listed("qps", line, 0, 1)
        hosts = [self._world.fabric.nic(word).name for word in words] or list(self._world.fabric.nic_names)
        rows = nic_views.queue_pairs(hosts, self._ask)
        self._show(nic_views.QUEUE_PAIRS, rows, as_json, "no queue pairs: a write makes them")

    def do_evs(self, line: str) -> None:
        """See helping."""
        (host,), as_json = self._listed("evs", line, 1, 1)
        rows = nic_views.entropy_values(host, self._ask)
        if_empty = f"{host} has no queue pairs: 'write {host} ...' makes one"
        self._show(nic_views.ENTROPY_VALUES, rows, as_json, if_empty)

    def do_counters(self, line: str) -> None:
        """See helping."""
        (host, *rest), as_json = self._listed("counters", line, 1, 2)
        host = self._world.fabric.nic(host).name
        qpn = None
        if rest:
            try:
                qpn = int(rest[0], 0)
            except ValueError:
                raise ExperimentError(f"{rest[0]!r} is not a QP number", f"'qps {host}' lists them.") from None
        rows = nic_views.counters(host, qpn, self._ask, queue_pairs=as_json)
        shown = rows if as_json else [row for row in rows if row["value"]]
        self._show(nic_views.COUNTERS, shown, as_json, "every counter is 0")

    def do_paths(self, line: str) -> None:
        """See helping."""
        (source, destination), as_json = self._listed("paths", line, 2, 2)
        rows = nic_views.paths(self._world.fabric, source, destination, self._ask)
        self._show(nic_views.PATHS, rows, as_json, "there is no path")

    def do_links(self, line: str) -> None:
        """See helping."""
        words, as_json = self._listed("links", line, 0, 1)
        with self._world.controller() as controller:
            rows = link_listing.links(controller.links(*words))
        self._show(link_listing.LINKS, rows, as_json, "no links")
        for crash in () if as_json else process_watch.recorded(self._world.emulation.run):
            self._echo(f"*** {crash}")

    def do_tables(self, line: str) -> None:
        """See helping."""
        (name, *table), as_json = self._listed("tables", line, 1, 2)
        switch = self._p4_switch(name)
        by_hand = self._by_hand(switch)
        with self._reader(switch) as reader:
            if not table:
                rows = switch_views.all_tables(switch.name, reader, by_hand)
                unchanged = () if any(row["by_hand"] for row in rows) else ("by_hand",)
                self._show(switch_views.TABLES, rows, as_json, "no tables", unchanged)
                return
            rows = switch_views.one_table(switch.name, reader, table[0], by_hand)
        self._show(switch_views.ENTRIES, rows, as_json, "no entries", switch_views.without(rows))

    def do_queues(self, line: str) -> None:
        """See helping."""
        (name, *reset), as_json = self._listed("queues", line, 1, 2)
        if reset not in ([], ["reset"]):
            raise ExperimentError(f"use it like this: queues {name}, or queues {name} reset")
        switch = self._p4_switch(name)
        with self._reader(switch) as reader:
            counted = switch_views.signals(reader)
        state = switch_views.managed(switch, self._address(switch), reset_peaks=bool(reset))
        rows = switch_views.queues(self._world.fabric, switch, state, counted)
        shown = rows if as_json else switch_views.for_people(rows)
        self._show(switch_views.QUEUES, shown, as_json, "no ports", switch_views.DEPTHS if state is None else ())
        for text in () if as_json else switch_views.drops(state, counted):
            self._echo(text)

    def _listed(self, name: str, line: str, least: int, most: int) -> tuple[list[str], bool]:
        """The words of a command that lists something, and whether it is to be JSON."""
        words, as_json = wanted_as_json(self._words(name, line, least, most + 1))
        self._words(name, shlex.join(words), least, most)
        return words, as_json

    def _p4_switch(self, name: str) -> Switch:
        switch = self._world.fabric.switch(name)
        if switch.kernel:
            raise ExperimentError(no_tables(name), f"'{name} ip -6 route' and '{name} tc -s qdisc' show what it has.")
        return switch

    def _by_hand(self, switch: Switch) -> list[HandEntryInfo] | None:
        """Changes by hand; None if the controller cannot say, without which tables can be read all the same."""
        try:
            with self._world.controller() as controller:
                return controller.hand_entries(switch.name)
        except ControllerError:
            return None

    def _reader(self, switch: Switch) -> SwitchReader:
        program = self._world.emulation.run.program
        return SwitchReader(switch.name, self._address(switch), switch.device_id, program)

    def _address(self, switch: Switch) -> str:
        return self._world.emulation.switches_address.format(name=switch.name)

    def _ask(self, host: str, operation: str, **arguments: Any) -> Any:
        with closing(AgentConnection(self._world.emulation.socket(host))) as agent:
            return agent.request(operation, **arguments)

    def _show(
        self, listing: Listing, rows: Sequence[Row], as_json: bool, if_empty: str, without: Sequence[str] = ()
    ) -> None:
        """Print rows as JSON, or as a table without some columns."""
        if as_json:
            self._echo(listing.json(rows))
        elif rows:
            show(self._console, listing.table(rows, without))
        else:
            self._echo(if_empty)
