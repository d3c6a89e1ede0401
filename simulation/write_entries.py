"""Neutral table entries (`topologies.entries`) into an embedded switch, without P4Runtime.

The program decides the full names: tables, profiles and actions are found by the last part of theirs, an action among
those of its table or profile, and its arguments are put into the order of its parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.program import Program
from p4runtime_shim.switch import EmbeddedSwitch
from simulation.errors import SimulationError
from topologies.entries import SwitchEntries, TableAction, TableEntry


def write_entries(switch: EmbeddedSwitch, entries: SwitchEntries) -> None:
    """Write everything a switch shall hold; SimulationError names what its program does not have."""
    if switch.pipeline is None:
        raise SimulationError(f"Switch {entries.switch} has no program to write entries for.")
    program = switch.pipeline.program
    profiles = {_last(profile.name): position for position, profile in enumerate(program.profiles)}
    for member in entries.members:
        position = _find(profiles, member.profile, "action profile")
        call = _action(program, member.action, _profile_actions(program, position))
        switch.control_plane.profile(program.profiles[position].name).member_add(member.member_id, call)
    for group in entries.groups:
        position = _find(profiles, group.profile, "action profile")
        switch.control_plane.profile(program.profiles[position].name).group_add(group.group_id, group.members)
    tables = {_last(table.name): position for position, table in enumerate(program.tables)}
    for entry in entries.entries:
        table = program.tables[_find(tables, entry.table, "table")]
        switch.control_plane.table(table.name).insert(_entry(program, entry, table.actions))


def _entry(program: Program, entry: TableEntry, actions: Iterable[int]) -> Entry:
    target = entry.target
    if isinstance(target, TableAction):
        return Entry(entry.match, _action(program, target, actions), entry.priority)
    return Entry(entry.match, target, entry.priority)


def _action(program: Program, action: TableAction, known: Iterable[int]) -> ActionCall:
    given = dict(action.args)
    for position in known:
        candidate = program.actions[position]
        if _last(candidate.name) == action.name:
            return ActionCall(candidate.name, tuple(given[_last(param.name)] for param in candidate.params))
    raise SimulationError(f"The P4 program has no action {action.name} there: is p4src/build/ of the same version?")


def _profile_actions(program: Program, profile: int) -> list[int]:
    return [action for table in program.tables if table.profile == profile for action in table.actions]


def _find(names: Mapping[str, int], name: str, kind: str) -> int:
    if name not in names:
        raise SimulationError(f"The P4 program has no {kind} {name}: is p4src/build/ of the same version?")
    return names[name]


def _last(name: str) -> str:
    return name.rpartition(".")[2]
