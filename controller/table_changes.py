"""What users change of running switches: entries of tables by hand, and the P4 program; kept in a folder.

The folder has the program (``topologies.p4_program``) and a file with the changes by hand, for the controller after
this one. Without a folder both last as long as the controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import finsy

from controller import hand_entries, translate
from controller.errors import ControllerError
from controller.fleet import Fleet
from controller.fleet_switch import FleetSwitch
from controller.hand_entries import HandEntries, misfit, read_entry
from controller.p4info import read_p4info
from controller.switch_reader import match_text
from controller.to_its_end import to_its_end
from controller.values import EntryWords, HandEntryInfo, TableChange
from topologies.fabric import Fabric
from topologies.p4_program import P4Program, check_reroutes

_FILE = "by_hand.json"
_LOG = logging.getLogger(__name__)


class TableChanges:
    """The changes of a fleet's switches, one at a time."""

    def __init__(self, fabric: Fabric, fleet: Fleet, folder: Path | None = None) -> None:
        self._fabric = fabric
        self._fleet = fleet
        self._folder = folder
        self._changing = asyncio.Lock()

    def take_over(self) -> None:
        """Before the fleet starts: go on with what the controller before this one has left."""
        if self._folder is not None:
            self._fleet.expect_by_hand(hand_entries.load(self._folder / _FILE))

    async def change(self, pattern: str, change: TableChange, words: EntryWords) -> list[str]:
        """Change an entry on all switches that match, or on none; returns their names.

        Raises ControllerError, or FabricError for a pattern that matches no switch.
        """
        return await to_its_end(self._change(pattern, change, words))

    async def _change(self, pattern: str, change: TableChange, words: EntryWords) -> list[str]:
        if not words.action and change is not TableChange.DELETE:
            raise ControllerError(f"Say what action the entry of table {words.table} has.")
        async with self._changing:
            changes = {}
            for name, switch in self._switches(pattern):
                with _naming(name):
                    entry = read_entry(words, switch.schema)
                    changed = switch.by_hand.changed(change, entry, switch.planned)
                    if changed.among(switch.faults) is not None:
                        raise ControllerError("This entry makes a fault: 'fault list' and 'fault clear' manage those.")
                    changes[name] = changed
            await self._hold(changes)
            return list(changes)

    async def restore(self, pattern: str) -> int:
        """Take all changes of the switches that match back; returns how many there were."""
        return await to_its_end(self._restore(pattern))

    async def _restore(self, pattern: str) -> int:
        async with self._changing:
            found = {name: switch for name, switch in self._switches(pattern) if switch.by_hand.changes}
            count = sum(len(switch.by_hand.changes) for switch in found.values())
            await self._hold(dict.fromkeys(found, HandEntries()))
            return count

    def listed(self, pattern: str) -> list[HandEntryInfo]:
        """The changes of the switches that match (empty: all)."""
        return [info for name, switch in self._switches(pattern) for info in _infos(name, switch)]

    async def load_program(self, program: P4Program) -> None:
        """Have all switches run another program; ControllerError, and all as before, if one cannot."""
        await to_its_end(self._load_program(program))

    async def _load_program(self, program: P4Program) -> None:
        async with self._changing:
            check_reroutes(self._fabric, program.tables(), program.name)
            if program.p4info:
                self._check_fit(program)
            await self._fleet.change_program(program)
            self._save(program.save)

    def _check_fit(self, program: P4Program) -> None:
        """What switches say of an entry that somebody has made does not name it, nor how it is taken back."""
        schema = finsy.P4Schema(read_p4info(program.p4info))
        for name, switch in self._fleet.switches.items():
            if problem := misfit(switch.by_hand.entries, schema):
                raise ControllerError(
                    f"{name} keeps its program: an entry by hand {problem}. 'table restore {name}' takes it back."
                )
            if problem := misfit(switch.faults, schema):
                raise ControllerError(
                    f"{name} keeps its program: a fault's entry {problem}. 'fault list' and 'fault clear' take it back."
                )

    async def _hold(self, changes: Mapping[str, HandEntries]) -> None:
        await self._fleet.change_by_hand(changes)
        self._save(lambda folder: hand_entries.save(folder / _FILE, self._fleet.by_hand))

    def _switches(self, pattern: str) -> Iterator[tuple[str, FleetSwitch]]:
        wanted = self._fabric.find_switches(pattern) if pattern else self._fabric.p4_switches
        for switch in wanted:
            if switch.name not in self._fleet.switches:
                raise ControllerError(f"Switch {switch.name} is the kernel's: it has no tables.")
            yield switch.name, self._fleet.switches[switch.name]

    def _save(self, write: Callable[[Path], None]) -> None:
        """Keep a change that has been made; it stays made where the disk is full."""
        if self._folder is None:
            return
        try:
            write(self._folder)
        except OSError as error:
            _LOG.error("%s cannot be written: %s; the next controller will not know", error.filename, error.strerror)


@contextlib.contextmanager
def _naming(switch: str) -> Iterator[None]:
    """A ControllerError in here names the switch."""
    try:
        yield
    except ControllerError as error:
        raise ControllerError(f"{switch}: {error}") from None


def _infos(name: str, switch: FleetSwitch) -> Iterator[HandEntryInfo]:
    schema = switch.schema
    for (table, match, priority), entry in switch.by_hand.changes.items():
        with contextlib.suppress(ValueError):  # of a table that this program has not
            found = translate.find_table(schema, table)
            text = match_text(found, translate.match_values(found, match))
            yield HandEntryInfo(name, found.alias, text, priority, entry is None)
