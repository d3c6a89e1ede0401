"""Neutral table entries to finsy's P4Runtime entities, and back.

P4Info decides the names: a table has its alias, which is the last part of its name unless another table ends so;
keys are given by position and take the table's field names; an action is found among those of its table or action
profile by the last part of its name, since p4c qualifies names that occur twice. What comes back is normalised, so that
an entry read from a switch equals the entry that was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import finsy
from finsy.p4schema import P4Action, P4ActionRef, P4ActionScope, P4MatchField, P4MatchType, P4Table

from mrc_common.p4_match import Exact, GroupRef, Lpm, Match, MemberRef, Optional, Range, Ternary
from mrc_common.suggestions import did_you_mean
from topologies.entries import Group, Member, SwitchEntries, TableAction, TableEntry

_DEFAULT_ONLY = P4ActionScope.DEFAULT_ONLY
Neutral = TableEntry | Member | Group
Entity = finsy.P4TableEntry | finsy.P4ActionProfileMember | finsy.P4ActionProfileGroup


def encode(entry: Neutral, schema: finsy.P4Schema) -> Entity:
    """The P4Runtime entity of a neutral entry. ValueError names what P4Info does not have."""
    if isinstance(entry, TableEntry):
        return _encode_table_entry(entry, schema)
    if isinstance(entry, Member):
        actions = schema.action_profiles[entry.profile].actions
        return finsy.P4ActionProfileMember(
            entry.profile, member_id=entry.member_id, action=_encode_action(entry.action, actions)
        )
    return finsy.P4ActionProfileGroup(
        entry.profile,
        group_id=entry.group_id,
        max_size=schema.action_profiles[entry.profile].max_group_size,  # it cannot change, and the members can
        members=[finsy.P4Member(member_id, weight=weight) for member_id, weight in entry.members],
    )


def wildcards(schema: finsy.P4Schema, *, counters: bool = False) -> list[Entity]:
    """Read requests that return everything of all tables and action profiles of the program that clients can change.

    Tables are named one by one, which every server understands, instead of by one request for all; BMv2's cannot read
    those that the program fills without const. With `counters`
    entries of tables that have direct counters come with them.
    """
    profiles = [profile.alias for profile in schema.action_profiles]
    return [
        *(
            finsy.P4TableEntry(
                table.alias, counter_data=finsy.P4CounterData() if counters and table.direct_counter else None
            )
            for table in schema.tables
            if not table.has_initial_entries
        ),
        *(finsy.P4ActionProfileMember(profile) for profile in profiles),
        *(finsy.P4ActionProfileGroup(profile) for profile in profiles),
    ]


def decode_all(switch: str, entities: Iterable[Entity], schema: finsy.P4Schema) -> SwitchEntries:
    """What a switch holds, from what it answered, without default entries and those that are the program's own."""
    members: list[Member] = []
    groups: list[Group] = []
    entries: list[TableEntry] = []
    for entity in entities:
        if isinstance(entity, finsy.P4ActionProfileMember):
            assert entity.action is not None
            members.append(Member(entity.action_profile_id, entity.member_id, _decode_action(entity.action)))
        elif isinstance(entity, finsy.P4ActionProfileGroup):
            weights = sorted((member.member_id, _weight(member)) for member in entity.members or ())
            groups.append(Group(entity.action_profile_id, entity.group_id, tuple(weights)))
        elif isinstance(entity, finsy.P4TableEntry) and not (entity.is_default_action or _of_program(entity, schema)):
            entries.append(decode_entry(entity, schema))
    return SwitchEntries(switch, tuple(members), tuple(groups), tuple(entries))


def _of_program(entity: finsy.P4TableEntry, schema: finsy.P4Schema) -> bool:
    """Whether the program brings the entry along: switches let nobody change a table with such entries."""
    return entity.is_const or schema.tables[entity.table_id].has_initial_entries


def _encode_table_entry(entry: TableEntry, schema: finsy.P4Schema) -> finsy.P4TableEntry:
    table = find_table(schema, entry.table)
    values = match_values(table, entry.match)
    target = entry.target
    action: finsy.P4TableAction | finsy.P4IndirectAction
    if isinstance(target, TableAction):
        action = _encode_action(target, table.actions)
    elif isinstance(target, MemberRef):
        action = finsy.P4IndirectAction(member_id=target.member_id)
    else:
        action = finsy.P4IndirectAction(group_id=target.group_id)
    return finsy.P4TableEntry(entry.table, match=finsy.P4TableMatch(values), action=action, priority=entry.priority)


def decode_entry(entity: finsy.P4TableEntry, schema: finsy.P4Schema) -> TableEntry:
    """The neutral entry of a table entry that a switch has sent."""
    table = schema.tables[entity.table_id]
    given = entity.match or finsy.P4TableMatch()
    match = tuple(decode_match(field, given.get(field.alias)) for field in table.match_fields)
    target: TableAction | MemberRef | GroupRef
    if isinstance(entity.action, finsy.P4IndirectAction):
        if entity.action.member_id is not None:
            target = MemberRef(entity.action.member_id)
        else:
            target = GroupRef(entity.action.group_id or 0)
    else:
        assert entity.action is not None
        target = _decode_action(entity.action)
    return TableEntry(entity.table_id, match, target, entity.priority)


def find_table(schema: finsy.P4Schema, name: str) -> P4Table:
    """The table of a name, with or without the control's; ValueError with what to write instead if there is none."""
    try:
        return schema.tables[name]
    except (KeyError, ValueError):
        known = [table.alias for table in schema.tables]
        alike = [alias for alias in known if alias.endswith(f".{name}")]
        raise ValueError(
            f"the P4 program has several tables {name}: {', '.join(alike)}"
            if alike
            else f"the P4 program has no table {name}{hint(name, known)}"
        ) from None


def hint(name: str, known: Sequence[str]) -> str:
    """``: did you mean x?`` or ``: it has a, b`` after a name that is not known."""
    return f": {did_you_mean(name, known) or 'it has ' + (', '.join(known) or 'none')}"


def match_values(table: P4Table, match: Sequence[Match]) -> dict[str, Any]:
    """A key as finsy has it, by the table's field names; ValueError if it has another number of fields."""
    fields = [field.alias for field in table.match_fields]
    if len(fields) != len(match):
        raise ValueError(f"table {table.alias} has {len(fields)} key fields, not {len(match)}")
    values = {field.alias: _encode_match(one, field) for field, one in zip(table.match_fields, match, strict=True)}
    return {field: value for field, value in values.items() if value is not None}


def _encode_match(match: Match, field: P4MatchField) -> object:
    """None for what matches everything, which P4Runtime leaves out."""
    if isinstance(match, Ternary):
        return (match.value, match.mask) if match.mask else None
    if isinstance(match, Range):
        everything = match.low == 0 and match.high == (1 << field.bitwidth) - 1
        return None if everything else (match.low, match.high)
    if isinstance(match, Lpm):
        return (match.value, match.prefix_len) if match.prefix_len else None
    return match.value


def decode_match(field: P4MatchField, value: object) -> Match:
    """The neutral match of a field's value as finsy has it; None is what is left out on the wire, where all matches."""
    match_type = field.match_type
    if match_type is P4MatchType.OPTIONAL:
        return Optional(None if value is None else int(str(value), 0))
    if match_type is P4MatchType.EXACT:
        return Exact(int(str(value), 0))
    whole = (0, (1 << field.bitwidth) - 1) if match_type is P4MatchType.RANGE else (0, 0)
    first, second = whole if value is None else _pair(value)
    if match_type is P4MatchType.LPM:
        return Lpm(first, second)
    if match_type is P4MatchType.RANGE and first > second:
        raise ValueError(f"{first} is above {second}")
    return Ternary(first & second, second) if match_type is P4MatchType.TERNARY else Range(first, second)


def _pair(value: object) -> tuple[int, int]:
    assert isinstance(value, tuple)
    return int(value[0]), int(value[1])


def _encode_action(action: TableAction, known: Iterable[P4Action | P4ActionRef]) -> finsy.P4TableAction:
    return finsy.P4TableAction(find_action(known, action.name).alias, **dict(action.args))


def find_action(known: Iterable[P4Action | P4ActionRef], name: str) -> P4Action | P4ActionRef:
    """The action of a name among those that entries of a table or members of a profile may have.

    ValueError with what to write instead if there is none.
    """
    actions = [action for action in known if not (isinstance(action, P4ActionRef) and action.scope is _DEFAULT_ONLY)]
    found = next((action for action in actions if name in (action.name, action.alias, _last(action.alias))), None)
    if found is None:
        names = [_last(action.alias) for action in actions]
        raise ValueError(f"the P4 program has no action {name} there{hint(name, names)}")
    return found


def _decode_action(action: finsy.P4TableAction) -> TableAction:
    return TableAction(_last(action.name), tuple((name, int(value)) for name, value in action.args.items()))


def _weight(member: finsy.P4Member) -> int:
    return member.weight if isinstance(member.weight, int) else member.weight[0]


def _last(name: str) -> str:
    return name.rpartition(".")[2]
