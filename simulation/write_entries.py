"""Neutral table entries (`topologies.entries`) into an embedded switch, without P4Runtime.

The program decides the full names: tables, profiles and actions are found by the last parts of theirs, an action among
those of its table or profile, and its arguments are put into the order of its parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from mrc_common.p4_names import by_suffix
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import Program
from p4runtime_shim.switch import EmbeddedSwitch
from simulation.errors import SimulationError
from topologies.entries import Member, SwitchEntries, TableAction, TableEntry
from topologies.entry_difference import EntryDifference, Neutral


@dataclass(frozen=True, slots=True)
class _Action:
    """Its full name, and the last parts of its parameters' names, in order."""

    name: str
    params: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Owner:
    """A table or profile: its full name, and its actions by the last part of theirs."""

    name: str
    actions: Mapping[str, _Action]


@dataclass(frozen=True, slots=True)
class _Names:
    """What a program has, by its name without those of the controls that it is in, as far as only one has that."""

    tables: Mapping[str, _Owner]
    profiles: Mapping[str, _Owner]


_known: WeakKeyDictionary[Pipeline, _Names] = WeakKeyDictionary()  # a program that nobody uses is unloaded


def owner_names(pipeline: Pipeline) -> frozenset[str]:
    """Names of the tables and action profiles of a program, without those of the controls that they are in.

    A name that several have so is none of them.
    """
    names = _names(pipeline)
    return frozenset((*names.tables, *names.profiles))


def write_entries(switch: EmbeddedSwitch, entries: SwitchEntries) -> None:
    """Write everything a switch shall hold; SimulationError names what its program does not have."""
    if switch.pipeline is None:
        raise SimulationError(f"Switch {entries.switch} has no program to write entries for.")
    names, control = _names(switch.pipeline), switch.control_plane
    for member in entries.members:
        profile = _find(names.profiles, member.profile, "action profile")
        control.profile(profile.name).member_add(member.member_id, _call(profile, member.action))
    for group in entries.groups:
        profile = _find(names.profiles, group.profile, "action profile")
        control.profile(profile.name).group_add(group.group_id, group.members)
    for entry in entries.entries:
        table = _find(names.tables, entry.table, "table")
        control.table(table.name).insert(_entry(table, entry))


def replace_entries(switch: EmbeddedSwitch, before: Iterable[TableEntry], after: Iterable[TableEntry]) -> None:
    """Have a switch hold some entries instead of others that it holds; SimulationError as :func:`write_entries`.

    An entry that is of both, but for its action, is changed.
    """
    if switch.pipeline is None:
        raise SimulationError(f"Switch {switch.device_id} has no program to write entries for.")
    tables, control = _names(switch.pipeline).tables, switch.control_plane
    old, new = ({(e.table, e.match, e.priority): e for e in entries} for entries in (before, after))
    owners = {entry.table: _find(tables, entry.table, "table") for entry in (*old.values(), *new.values())}
    written = {key: _entry(owners[entry.table], entry) for key, entry in new.items() if old.get(key) != entry}
    for name, match, priority in old.keys() - new.keys():
        control.table(owners[name].name).delete(match, priority)
    for key, entry in written.items():
        table = control.table(owners[key[0]].name)
        if key in old:
            table.modify(entry)
        else:
            table.insert(entry)


def change_entries(switch: EmbeddedSwitch, difference: EntryDifference) -> None:
    """Make a change of members, groups and entries, in an order that leaves no reference dangling.

    What the program has no table or profile for is passed over.
    """
    if switch.pipeline is None:
        raise SimulationError(f"Switch {difference.switch} has no program to write entries for.")
    names = _names(switch.pipeline)
    for missing, wrong, superfluous in difference.stages():
        for one in missing:
            _change(switch, names, one, "add")
        for one in wrong:
            _change(switch, names, one, "modify")
        for one in superfluous:
            _change(switch, names, one, "delete")


def _change(switch: EmbeddedSwitch, names: _Names, one: Neutral, change: str) -> None:
    owners, name = (names.tables, one.table) if isinstance(one, TableEntry) else (names.profiles, one.profile)
    owner = owners.get(name)
    if owner is None:
        return
    if isinstance(one, TableEntry):
        table = switch.control_plane.table(owner.name)
        if change == "delete":
            table.delete(one.match, one.priority)
        else:
            (table.insert if change == "add" else table.modify)(_entry(owner, one))
        return
    profile = switch.control_plane.profile(owner.name)
    if isinstance(one, Member):
        if change == "delete":
            profile.member_delete(one.member_id)
        else:
            (profile.member_add if change == "add" else profile.member_modify)(one.member_id, _call(owner, one.action))
    elif change == "delete":
        profile.group_delete(one.group_id)
    else:
        (profile.group_add if change == "add" else profile.group_modify)(one.group_id, one.members)


def _names(pipeline: Pipeline) -> _Names:
    known = _known.get(pipeline)
    if known is None:
        known = _known[pipeline] = _names_in(pipeline.program)
    return known


def _names_in(program: Program) -> _Names:
    actions = [_Action(action.name, tuple(_last(param.name) for param in action.params)) for action in program.actions]

    def owner(name: str, positions: list[int]) -> _Owner:
        first_wins = reversed(positions)
        return _Owner(name, {_last(actions[position].name): actions[position] for position in first_wins})

    profiles = [
        owner(profile.name, [action for table in program.tables if table.profile == number for action in table.actions])
        for number, profile in enumerate(program.profiles)
    ]
    tables = [owner(table.name, list(table.actions)) for table in program.tables]
    return _Names(_by_suffix(tables), _by_suffix(profiles))


def _by_suffix(owners: list[_Owner]) -> dict[str, _Owner]:
    known = {owner.name: owner for owner in owners}
    return {suffix: known[name] for suffix, name in by_suffix(known).items()}


def _entry(table: _Owner, entry: TableEntry) -> Entry:
    target = entry.target
    return Entry(entry.match, _call(table, target) if isinstance(target, TableAction) else target, entry.priority)


def _call(owner: _Owner, action: TableAction) -> ActionCall:
    known = owner.actions.get(action.name)
    if known is None:
        raise SimulationError(f"The P4 program has no action {action.name} in {_last(owner.name)}.")
    given = dict(action.args)
    return ActionCall(known.name, tuple(given[param] for param in known.params))


def _find(owners: Mapping[str, _Owner], name: str, kind: str) -> _Owner:
    owner = owners.get(name)
    if owner is None:
        raise SimulationError(f"The P4 program has no {kind} {name}.")
    return owner


def _last(name: str) -> str:
    return name.rpartition(".")[2]
