"""Action profiles: members, groups, and one-shot action sets.

P4Runtime spec, "ActionProfileMember & ActionProfileGroup". A table entry with an action set (one-shot) has its own
group and members. They are created and deleted with the entry, and reads of members or groups never return them. A
profile is programmed either with action sets or with members and groups (as the specification requires), so the two
never compete for ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from finsy.proto import p4r

from mrc_common.p4_match import GroupRef, MemberRef
from p4runtime_shim.entities import ActionCall, EntryTarget
from p4runtime_shim.errors import NotFound, SwitchError
from p4runtime_shim.server import bytestrings, entry_codec
from p4runtime_shim.server.budget import ReadBudget
from p4runtime_shim.server.p4info import ActionProfileInfo, Schema, TableInfo
from p4runtime_shim.server.rpc_errors import exhausted, invalid, not_found, precondition, unimplemented
from p4runtime_shim.server.rpc_errors import exists as already_exists
from p4runtime_shim.server.switch_interface import ControlPlaneInterface
from p4runtime_shim.server.undo_log import UndoLog


@dataclass(slots=True)
class _State:
    """Of one profile: groups as written, reference counts, and the groups of one-shot entries with their members."""

    groups: dict[int, p4r.ActionProfileGroup] = field(default_factory=dict)
    references: Counter[EntryTarget] = field(default_factory=Counter)
    one_shots: dict[int, tuple[int, ...]] = field(default_factory=dict)
    next_id: int = 1


class ActionProfileEntries:
    """Members and groups of all profiles of one switch."""

    def __init__(self, schema: Schema, control_plane: ControlPlaneInterface) -> None:
        self._schema = schema
        self._control_plane = control_plane
        self._states = {id_: _State() for id_ in schema.profiles}

    # --- references from table entries

    def hold(self, profile: ActionProfileInfo, target: EntryTarget) -> None:
        """A table entry refers to the member or group."""
        self._states[profile.id].references[target] += 1

    def release(self, profile: ActionProfileInfo, target: EntryTarget) -> None:
        """A table entry no longer refers to the member or group."""
        references = self._states[profile.id].references
        references[target] -= 1
        if references[target] <= 0:
            del references[target]

    def check_reference(self, profile: ActionProfileInfo, target: EntryTarget) -> None:
        """Raise NOT_FOUND unless the member or group exists and an entry may refer to it."""
        state = self._states[profile.id]
        if state.one_shots:
            raise invalid(f"{profile.name} is programmed with action sets; members and groups cannot be mixed in")
        if isinstance(target, GroupRef):
            if not profile.with_selector:
                raise invalid(f"{profile.name} is an action profile without selector; it has no groups")
            if target.group_id not in state.groups:
                raise not_found(f"{profile.name} has no group {target.group_id}")
        elif isinstance(target, MemberRef):
            self._existing(profile, target.member_id, f"{profile.name} has no member {target.member_id}")

    def _existing(self, profile: ActionProfileInfo, member_id: int, otherwise: str) -> ActionCall:
        """A member's action; NOT_FOUND. Reads only this member, since there may be many."""
        try:
            return self._control_plane.profile(profile.name).member(member_id)
        except NotFound:
            raise not_found(otherwise) from None

    # --- members

    def write_member(self, update: int, message: p4r.ActionProfileMember, undo_log: UndoLog | None) -> None:
        """INSERT, MODIFY or DELETE of a member."""
        profile = self._schema.profile(message.action_profile_id)
        if message.member_id == 0:
            raise invalid(f"{profile.name}: member id 0 is not allowed")
        if update == p4r.Update.DELETE:
            self._delete_member(profile, message.member_id, undo_log)
            return
        if not message.HasField("action"):
            raise invalid(f"{profile.name}: member {message.member_id} has no action")
        call = entry_codec.decode_action(self._schema, message.action, profile.action_ids, profile.name)
        name, id_ = profile.name, message.member_id
        if update == p4r.Update.INSERT:
            self._refuse_mixing(profile)
            self._control_plane.profile(name).member_add(id_, call)
            if undo_log is not None:
                undo_log.append(lambda: self._control_plane.profile(name).member_delete(id_))
            return
        old = self._member(profile, id_) if undo_log is not None else None
        self._control_plane.profile(name).member_modify(id_, call)
        if undo_log is not None and old is not None:
            undo_log.append(lambda: self._control_plane.profile(name).member_modify(id_, old))

    def _member(self, profile: ActionProfileInfo, id_: int) -> ActionCall:
        if self._is_hidden(profile):
            raise not_found(f"{profile.name} has no member {id_}")
        return self._existing(profile, id_, f"{profile.name} has no member {id_}")

    def _delete_member(self, profile: ActionProfileInfo, id_: int, undo_log: UndoLog | None) -> None:
        state = self._states[profile.id]
        old = self._member(profile, id_)
        for group in state.groups.values():
            if any(member.member_id == id_ for member in group.members):
                raise precondition(f"{profile.name}: member {id_} is still in group {group.group_id}")
        if state.references[MemberRef(id_)]:
            raise precondition(f"{profile.name}: a table entry still refers to member {id_}")
        self._control_plane.profile(profile.name).member_delete(id_)
        if undo_log is not None:
            undo_log.append(lambda: self._control_plane.profile(profile.name).member_add(id_, old))

    def _is_hidden(self, profile: ActionProfileInfo) -> bool:
        return bool(self._states[profile.id].one_shots)

    def _refuse_mixing(self, profile: ActionProfileInfo) -> None:
        if self._is_hidden(profile):
            raise invalid(f"{profile.name} is programmed with action sets; members and groups cannot be mixed in")

    # --- groups

    def write_group(self, update: int, message: p4r.ActionProfileGroup, undo_log: UndoLog | None) -> None:
        """INSERT, MODIFY or DELETE of a group."""
        profile = self._schema.profile(message.action_profile_id)
        if not profile.with_selector:
            raise invalid(f"{profile.name} is an action profile without selector; it has no groups")
        if message.group_id == 0:
            raise invalid(f"{profile.name}: group id 0 is not allowed")
        if update == p4r.Update.DELETE:
            self._delete_group(profile, message.group_id, undo_log)
        else:
            self._set_group(update, profile, message, undo_log)

    def _set_group(
        self, update: int, profile: ActionProfileInfo, message: p4r.ActionProfileGroup, undo_log: UndoLog | None
    ) -> None:
        self._refuse_mixing(profile)
        groups, id_ = self._states[profile.id].groups, message.group_id
        old = groups.get(id_)
        if update == p4r.Update.INSERT and old is not None:
            raise already_exists(f"{profile.name}: group {id_} already exists")
        if update == p4r.Update.MODIFY:
            if old is None:
                raise not_found(f"{profile.name} has no group {id_}")
            if message.max_size != old.max_size:
                raise invalid(f"{profile.name}: max_size of group {id_} is {old.max_size} and cannot be changed")
        members = self._group_members(profile, message)
        kept = p4r.ActionProfileGroup()
        kept.CopyFrom(message)
        watch = _watched(kept, f"{profile.name}: group {id_}")
        state = self._control_plane.profile(profile.name)
        (state.group_add if old is None else state.group_modify)(id_, members, watch)
        groups[id_] = kept
        if undo_log is not None:
            undo_log.append(lambda: self._restore_group(profile, id_, old))

    def _restore_group(self, profile: ActionProfileInfo, id_: int, old: p4r.ActionProfileGroup | None) -> None:
        groups = self._states[profile.id].groups
        if old is None:
            self._control_plane.profile(profile.name).group_delete(id_)
            del groups[id_]
            return
        members = [(member.member_id, max(member.weight, 1)) for member in old.members]
        watch = _watched(old, profile.name)
        state = self._control_plane.profile(profile.name)
        (state.group_modify if id_ in groups else state.group_add)(id_, members, watch)
        groups[id_] = old

    def _delete_group(self, profile: ActionProfileInfo, id_: int, undo_log: UndoLog | None) -> None:
        state = self._states[profile.id]
        if id_ not in state.groups:
            raise not_found(f"{profile.name} has no group {id_}")
        if state.references[GroupRef(id_)]:
            raise precondition(f"{profile.name}: a table entry still refers to group {id_}")
        self._control_plane.profile(profile.name).group_delete(id_)
        old = state.groups.pop(id_)
        if undo_log is not None:
            undo_log.append(lambda: self._restore_group(profile, id_, old))

    def _group_members(self, profile: ActionProfileInfo, message: p4r.ActionProfileGroup) -> list[tuple[int, int]]:
        what = f"{profile.name}: group {message.group_id}"
        seen: dict[int, int] = {}
        for member in message.members:
            if member.member_id in seen:
                raise invalid(f"{what}: member {member.member_id} is given twice; use its weight")
            self._existing(profile, member.member_id, f"{what}: there is no member {member.member_id}")
            seen[member.member_id] = _weight(profile, member, f"{what}: member {member.member_id}")
        limit = message.max_size
        if profile.max_group_size and not 0 < limit <= profile.max_group_size:
            raise invalid(f"{what}: max_size {limit} is not in 1..{profile.max_group_size}")
        if limit < 0:
            raise invalid(f"{what}: max_size {limit} is negative")
        size = len(seen) if profile.sum_of_members else sum(seen.values())
        if limit and size > limit:
            raise exhausted(f"{what}: its size is {size}, above its max_size of {limit}")
        return list(seen.items())

    # --- action sets

    def create_one_shot(
        self, profile: ActionProfileInfo, table: TableInfo, message: p4r.ActionProfileActionSet
    ) -> GroupRef:
        """Create the group of an action set."""
        if not profile.with_selector:
            raise invalid(f"{profile.name} is an action profile without selector; it takes no action set")
        state = self._states[profile.id]
        if state.groups or (not state.one_shots and self._control_plane.profile(profile.name).members()):
            raise invalid(f"{profile.name} is programmed with members and groups; action sets cannot be mixed in")
        members = self._one_shot_members(profile, table, message)
        made: list[int] = []
        try:
            for call, _, _ in members:
                made.append(self._fresh_id(state))
                self._control_plane.profile(profile.name).member_add(made[-1], call)
            group_id = self._fresh_id(state)
            weights = [(id_, weight) for id_, (_, weight, _) in zip(made, members, strict=True)]
            watch = {id_: port for id_, (_, _, port) in zip(made, members, strict=True) if port is not None}
            self._control_plane.profile(profile.name).group_add(group_id, weights, watch)
        except SwitchError:
            self._remove_members(profile, made)
            raise
        state.one_shots[group_id] = tuple(made)
        return GroupRef(group_id)

    def remove_one_shot(self, profile: ActionProfileInfo, group: GroupRef) -> None:
        """Delete the group and its members."""
        state = self._states[profile.id]
        self._control_plane.profile(profile.name).group_delete(group.group_id)
        self._remove_members(profile, state.one_shots.pop(group.group_id))

    def _remove_members(self, profile: ActionProfileInfo, ids: list[int] | tuple[int, ...]) -> None:
        for id_ in ids:
            with suppress(NotFound):
                self._control_plane.profile(profile.name).member_delete(id_)

    def _fresh_id(self, state: _State) -> int:
        state.next_id = state.next_id % 0x7FFFFFFF + 1
        while state.next_id in state.one_shots:
            state.next_id = state.next_id % 0x7FFFFFFF + 1
        return state.next_id

    def _one_shot_members(
        self, profile: ActionProfileInfo, table: TableInfo, message: p4r.ActionProfileActionSet
    ) -> list[tuple[ActionCall, int, int | None]]:
        """For each action: the call, its weight, and the port it watches."""
        what = f"table {table.name}: action set"
        if message.action_selection_mode == p4r.ActionProfileActionSet.RANDOM:
            raise unimplemented(f"{what}: selection is by hash only")
        by_members = profile.sum_of_members
        if message.size_semantics == p4r.ActionProfileActionSet.SUM_OF_WEIGHTS and by_members:
            raise unimplemented(f"{what}: the size of {profile.name} is the sum of its members")
        if message.size_semantics == p4r.ActionProfileActionSet.SUM_OF_MEMBERS and not by_members:
            raise unimplemented(f"{what}: the size of {profile.name} is the sum of its weights")
        members = []
        for item in message.action_profile_actions:
            call = entry_codec.decode_action(self._schema, item.action, table.scopes, f"table {table.name}")
            weight = _weight(profile, item, what)
            if by_members and profile.max_member_weight and weight > profile.max_member_weight:
                raise invalid(f"{what}: weight {weight} is above the limit of {profile.max_member_weight}")
            members.append((call, weight, _watch_port(item, what)))
        size = len(members) if by_members else sum(weight for _, weight, _ in members)
        if profile.max_group_size and size > profile.max_group_size:
            raise invalid(f"{what}: its size is {size}, above the group limit of {profile.max_group_size}")
        return members

    def canonical(self, message: p4r.ActionProfileActionSet) -> p4r.ActionProfileActionSet:
        """The action set as read back, with byte strings in their shortest form."""
        kept = p4r.ActionProfileActionSet()
        kept.CopyFrom(message)
        for item in kept.action_profile_actions:
            for param in item.action.params:
                param.value = bytestrings.shortest(param.value)
            if item.WhichOneof("watch_kind") == "watch_port" and item.watch_port:
                item.watch_port = bytestrings.shortest(item.watch_port)
        return kept

    # --- reading

    def read_members(self, message: p4r.ActionProfileMember, budget: ReadBudget) -> Iterator[p4r.ActionProfileMember]:
        """One member, those of a profile, or all."""
        found = []
        for profile in self._schema.profiles_to_read(message.action_profile_id):
            if not self._is_hidden(profile):
                members = self._control_plane.profile(profile.name).members()
                budget.take(len(members), profile.name)
                found.append((profile, sorted(members.items())))
        return (
            p4r.ActionProfileMember(
                action_profile_id=profile.id, member_id=id_, action=entry_codec.encode_action(self._schema, call)
            )
            for profile, members in found
            for id_, call in members
            if message.member_id in (0, id_)
        )

    def read_groups(self, message: p4r.ActionProfileGroup, budget: ReadBudget) -> Iterator[p4r.ActionProfileGroup]:
        """One group, those of a selector, or all."""
        found: list[tuple[int, p4r.ActionProfileGroup]] = []
        for profile in self._schema.profiles_to_read(message.action_profile_id):
            groups = self._states[profile.id].groups
            budget.take(len(groups), profile.name)
            found += sorted(groups.items())
        return (group for id_, group in found if message.group_id in (0, id_))


def _weight(
    profile: ActionProfileInfo, item: p4r.ActionProfileGroup.Member | p4r.ActionProfileAction, what: str
) -> int:
    if profile.weights_disallowed:
        if item.weight:
            raise invalid(f"{what}: {profile.name} takes no weights")
        return 1
    if item.weight <= 0:
        raise invalid(f"{what}: weight {item.weight} is not above 0")
    return item.weight


def _watch_port(item: p4r.ActionProfileGroup.Member | p4r.ActionProfileAction, what: str) -> int | None:
    """The port that a member watches, if any, as a number (before P4Runtime 1.2) or a byte string."""
    if item.WhichOneof("watch_kind") == "watch_port":
        if len(bytestrings.shortest(item.watch_port)) > 8:
            raise invalid(f"{what}: a watch port of {len(item.watch_port)} bytes is not a port")
        return int.from_bytes(item.watch_port, "big") if item.watch_port else None
    if item.watch < 0:
        raise invalid(f"{what}: watch port {item.watch} is negative")
    return item.watch or None


def _watched(group: p4r.ActionProfileGroup, what: str) -> dict[int, int]:
    """Member ids and the ports they watch; makes the group's byte strings canonical."""
    found = {}
    for member in group.members:
        port = _watch_port(member, f"{what}: member {member.member_id}")
        if port is not None:
            found[member.member_id] = port
            if member.WhichOneof("watch_kind") == "watch_port":
                member.watch_port = bytestrings.encode(port)
    return found
