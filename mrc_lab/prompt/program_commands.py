"""The prompt's commands for the P4 program of the switches and the entries of its tables: `p4` and `table`.

`ProgramCommands` is mixed into the prompt's class, before Mininet's. The words of `table` are those of
``simple_switch_CLI``, with the switch before them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import p4src
from controller.values import MAX_PRIORITY, EntryWords, TableChange
from mrc_common.suggestions import did_you_mean
from mrc_common.units import counted
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.emulation import EmulatedWorld
from mrc_lab.prompt.command_help import COMMANDS
from topologies.p4_program import (
    P4Program,
    fabric_program,
    left_out,
    read_program,
    remember_source,
    saved_program,
    source_of,
)

_CHANGES = {change.value: change for change in TableChange}
_OTHERS = ("dump", "restore")


class ProgramCommands:
    """What the prompt gains. It has to have `_world`, `_words`, `_echo` and `do_tables`."""

    _world: EmulatedWorld
    _echo: Callable[[str], None]
    _words: Callable[[str, str, int, int], list[str]]
    do_tables: Callable[[str], None]

    def do_p4(self, line: str) -> None:
        """See helping."""
        words = self._words("p4", line, 0, 2)
        folder = self._world.emulation.run.program
        if not words:
            self._echo(_running(folder))
            return
        if words[0] != "reload":
            raise ExperimentError(f"use it like this: {COMMANDS['p4'].example}", "'help p4' says more.")
        source = Path(words[1]).absolute() if len(words) > 1 else source_of(folder)
        program = fabric_program() if source is None else read_program(source)
        self._reload(program, source)

    def _reload(self, program: P4Program, source: Path | None) -> None:
        for warning in program.warnings:
            self._echo(warning)
        folder, fabric = self._world.emulation.run.program, self._world.fabric
        if saved_program(folder) == program:
            remember_source(folder, source)
            self._echo(f"the switches run {program.name} as it is already")
            return
        began = time.monotonic()
        try:
            with self._world.controller() as controller:
                controller.load_program(program)
        except KeyboardInterrupt:
            remember_source(folder, source)
            self._echo("\nthe controller goes on with it: 'p4' says what the switches run")
            raise
        remember_source(folder, source)
        seconds = time.monotonic() - began
        count = counted(len(fabric.p4_switches), "switch", "switches")
        self._echo(f"{count} run {program.name}, with the entries that they had; exchanged in {seconds:.2f} s")
        if note := left_out(fabric, program):
            self._echo(f"Warning: {note}.")

    def do_table(self, line: str) -> None:
        """See helping."""
        what, *words = self._words("table", line, 1, 300)
        if what not in (*_CHANGES, *_OTHERS):
            hint = did_you_mean(what, (*_CHANGES, *_OTHERS)) or COMMANDS["table"].usage
            raise ExperimentError(f"a table is not {what!r}", hint)
        if what == "dump":
            self.do_tables(" ".join(words))
            return
        if what == "restore":
            self._restore(words)
            return
        change = _CHANGES[what]
        pattern, entry = read_words(change, words)
        with self._world.controller() as controller:
            switches = controller.change_table(pattern, change, entry)
        done = {TableChange.ADD: "added to", TableChange.MODIFY: "modified in", TableChange.DELETE: "deleted from"}
        self._echo(f"entry {done[change]} table {entry.table} of {', '.join(switches)}")

    def _restore(self, words: Sequence[str]) -> None:
        if len(words) > 1:
            raise ExperimentError("use it like this: table restore t0-0@p0")
        with self._world.controller() as controller:
            count = controller.restore_tables(*words)
        self._echo(f"{counted(count, 'change')} by hand taken back")


def read_words(change: TableChange, words: Sequence[str]) -> tuple[str, EntryWords]:
    """The switches (a pattern) and the entry of ``add SWITCH TABLE ACTION MATCH... => ARG... [priority N]``.

    To delete there are neither action nor arguments. ExperimentError says how to write what is not clear.
    """
    rest, priority = list(words), 0
    if "priority" in rest[-2:-1]:
        if not rest[-1].isdecimal():
            raise ExperimentError(f"a priority is a number, not {rest[-1]!r}")
        priority = int(rest[-1])
        if priority > MAX_PRIORITY:
            raise ExperimentError(f"a priority is at most {MAX_PRIORITY}, not {rest[-1]}")
        del rest[-2:]
    arrow = rest.index("=>") if "=>" in rest else len(rest)
    left, args = rest[:arrow], rest[arrow + 1 :]
    least = 3 if change is TableChange.DELETE else 4
    if len(left) < least or (change is TableChange.DELETE and args):
        given = "" if change is TableChange.DELETE else "ACTION "
        arguments = "" if change is TableChange.DELETE else " => ARGUMENT..."
        raise ExperimentError(
            f"say which entry: table {change.value} SWITCH TABLE {given}MATCH...{arguments}",
            "'tables SWITCH' lists tables, 'help table' says more.",
        )
    pattern, table, *more = left
    action = "" if change is TableChange.DELETE else more.pop(0)
    return pattern, EntryWords(table, tuple(more), action, tuple(args), priority)


def _running(folder: Path) -> str:
    """What runs, and whether its source is still so."""
    source = source_of(folder)
    program = saved_program(folder)
    try:
        now = fabric_program() if source is None else read_program(source)
    except ValueError as error:
        return f"the switches run {program.name}, whose source cannot be compiled any more:\n{error}"
    where = f"{p4src.SOURCES}/ (the fabric's own)" if source is None else str(source)
    same = now.json == program.json
    state = "as it is there" if same else "as it was when it was loaded: 'p4 reload' loads what is there now"
    return f"the switches run {program.name} of {where}, {state}"
