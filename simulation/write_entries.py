"""Neutral table entries (`topologies.entries`) into an embedded switch, without P4Runtime.

The program decides the full names: tables, profiles and actions are found by the last part of theirs, an action among
those of its table or profile, and its arguments are put into the order of its parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from p4runtime_shim import entities
from p4runtime_shim.program import Program
from p4runtime_shim.switch import Switch
from simulation.errors import SimulationError
from topologies.entries import Action, Exact, GroupRef, Lpm, Match, MemberRef, SwitchEntries, TableEntry


def write_entries(switch: Switch, entries: SwitchEntries) -> None:
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


def _entry(program: Program, entry: TableEntry, actions: Iterable[int]) -> entities.Entry:
    match = tuple(_match(part) for part in entry.match)
    target: entities.EntryTarget
    if isinstance(entry.target, MemberRef):
        target = entities.MemberRef(entry.target.member_id)
    elif isinstance(entry.target, GroupRef):
        target = entities.GroupRef(entry.target.group_id)
    else:
        target = _action(program, entry.target, actions)
    return entities.Entry(match, target, entry.priority)


def _match(part: Match) -> entities.Match:
    if isinstance(part, Exact):
        return entities.Exact(part.value)
    if isinstance(part, Lpm):
        return entities.Lpm(part.value, part.prefix_len)
    return entities.Ternary(part.value, part.mask)


def _action(program: Program, action: Action, known: Iterable[int]) -> entities.ActionCall:
    given = dict(action.args)
    for position in known:
        candidate = program.actions[position]
        if _last(candidate.name) == action.name:
            return entities.ActionCall(candidate.name, tuple(given[_last(param.name)] for param in candidate.params))
    raise SimulationError(f"The P4 program has no action {action.name} there: is p4src/build/ of the same version?")


def _profile_actions(program: Program, profile: int) -> list[int]:
    return [action for table in program.tables if table.profile == profile for action in table.actions]


def _find(names: Mapping[str, int], name: str, kind: str) -> int:
    if name not in names:
        raise SimulationError(f"The P4 program has no {kind} {name}: is p4src/build/ of the same version?")
    return names[name]


def _last(name: str) -> str:
    return name.rpartition(".")[2]
