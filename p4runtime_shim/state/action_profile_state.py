"""Action profiles and selectors: members, and groups of them with weights.

A group's slots are its members in order of their ids, repeated according to weight; the hash selects a slot (BMv2 uses
the same order). A member that an entry or a group refers to cannot be deleted. A member may watch a port: while the
port is down, the group has no slots for it.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from p4runtime_shim import limits
from p4runtime_shim.entities import ActionCall
from p4runtime_shim.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.state.key_encoding import resolve_action
from p4runtime_shim.state.loaded_switch import LoadedSwitch, locked

MAX_SLOTS = 65536  # sum of the weights of a group
_NO_PORT = 0xFFFF
_NOTHING: Mapping[int, int] = MappingProxyType({})


class MemberState:
    """A member: its action, its C object, and the number of entries and groups that refer to it."""

    def __init__(self, action: ActionCall, pointer: int) -> None:
        self.action = action
        self.pointer = pointer
        self.references = 0


class GroupState:
    """A group: (member id, weight) as written, its C object, its slots, and the number of entries that refer to it."""

    def __init__(self, members: tuple[tuple[int, int], ...], pointer: int, slots: int) -> None:
        self.slots = slots
        self.members = members
        self.pointer = pointer
        self.references = 0


class ActionProfileState:
    """The members and groups of one action profile."""

    def __init__(self, pipeline: Pipeline, switch: LoadedSwitch, position: int) -> None:
        self.info = pipeline.program.profiles[position]
        self.switch = switch
        self._members: dict[int, MemberState] = {}
        self._groups: dict[int, GroupState] = {}
        self._slot_count = 0
        self._pipeline = pipeline
        self._actions = {
            action for table in pipeline.program.tables if table.profile == position for action in table.actions
        }

    def _encode(self, call: ActionCall) -> tuple[int, bytes]:
        return resolve_action(self._pipeline, call, self._actions, f"action profile {self.info.name}")

    def find_member(self, member_id: int) -> MemberState:
        """A member by id; raises NotFound."""
        member = self._members.get(member_id)
        if member is None:
            raise NotFound(f"action profile {self.info.name} has no member {member_id}")
        return member

    def find_group(self, group_id: int) -> GroupState:
        """A group by id; raises NotFound."""
        group = self._groups.get(group_id)
        if group is None:
            raise NotFound(f"action profile {self.info.name} has no group {group_id}")
        return group

    @locked
    def members(self) -> dict[int, ActionCall]:
        """The actions of all members."""
        return {number: item.action for number, item in self._members.items()}

    @locked
    def member(self, member_id: int) -> ActionCall:
        """The action of one member; NotFound."""
        return self.find_member(member_id).action

    @locked
    def groups(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """All groups as (member id, weight)."""
        return {number: item.members for number, item in self._groups.items()}

    @locked
    def member_add(self, member_id: int, call: ActionCall) -> None:
        """Add a member."""
        if member_id in self._members:
            raise AlreadyExists(f"action profile {self.info.name} already has member {member_id}")
        size = min(self.info.size, limits.MAX_MEMBERS) if self.info.size > 0 else limits.MAX_MEMBERS
        if len(self._members) >= size:
            raise ResourceExhausted(f"action profile {self.info.name} is full ({size} members)")
        action, args = self._encode(call)
        pointer = self.switch.library.sw_ctl_member_add(self.switch.handle, member_id, action, len(args) // 8, args)
        self._members[member_id] = MemberState(call, _made(pointer))

    @locked
    def member_modify(self, member_id: int, call: ActionCall) -> None:
        """Change a member's action, for everything that refers to it."""
        member = self.find_member(member_id)
        action, args = self._encode(call)
        _check(
            self.switch.library.sw_ctl_member_modify(self.switch.handle, member.pointer, action, len(args) // 8, args)
        )
        member.action = call

    @locked
    def member_delete(self, member_id: int) -> None:
        """Delete an unused member."""
        member = self.find_member(member_id)
        if member.references:
            raise InvalidArgument(f"member {member_id} of action profile {self.info.name} is in use")
        self.switch.library.sw_ctl_member_delete(self.switch.handle, member.pointer)
        del self._members[member_id]

    def _slots(
        self, members: Sequence[tuple[int, int]], watch: Mapping[int, int], replaced: int = 0
    ) -> tuple[Any, Any, int]:
        """Pointers to members, the ports they watch, and their number; `replaced` slots become free."""
        if self.info.algorithm is None:
            raise InvalidArgument(f"action profile {self.info.name} has no selector, so no groups")
        for port in watch.values():
            if port not in self.switch.ports:
                raise InvalidArgument(f"the switch has no port {port} to watch")
        if len({member_id for member_id, _ in members}) != len(members):
            raise InvalidArgument("a member is named twice in the group")
        slots: list[int] = []
        ports: list[int] = []
        for member_id, weight in sorted(members):
            if weight < 1:
                raise InvalidArgument(f"member {member_id} has weight {weight}; weights start at 1")
            if len(slots) + weight > MAX_SLOTS:
                raise ResourceExhausted(f"the weights of the group add up to more than {MAX_SLOTS}")
            if self._slot_count - replaced + len(slots) + weight > limits.MAX_SLOTS:
                raise ResourceExhausted(
                    f"the weights of all groups of {self.info.name} add up to more than {limits.MAX_SLOTS}"
                )
            slots.extend([self.find_member(member_id).pointer] * weight)
            ports.extend([watch.get(member_id, _NO_PORT)] * weight)
        return (c.c_void_p * max(1, len(slots)))(*slots), (c.c_uint16 * max(1, len(ports)))(*ports), len(slots)

    @locked
    def group_add(self, group_id: int, members: Sequence[tuple[int, int]], watch: Mapping[int, int] = _NOTHING) -> None:
        """Add a group of (member id, weight) to a selector; `watch`: member id -> the port it needs."""
        if group_id in self._groups:
            raise AlreadyExists(f"action profile {self.info.name} already has group {group_id}")
        if len(self._groups) >= limits.MAX_MEMBERS:
            raise ResourceExhausted(f"action profile {self.info.name} already has {limits.MAX_MEMBERS} groups")
        slots, ports, count = self._slots(members, watch)
        pointer = self.switch.library.sw_ctl_group_add(self.switch.handle, group_id, count, slots, ports)
        self._groups[group_id] = GroupState(tuple(members), _made(pointer), count)
        self._slot_count += count
        self._refer(members, 1)

    @locked
    def group_modify(
        self, group_id: int, members: Sequence[tuple[int, int]], watch: Mapping[int, int] = _NOTHING
    ) -> None:
        """Replace the members of a group, and the ports they watch."""
        group = self.find_group(group_id)
        slots, ports, count = self._slots(members, watch, group.slots)
        _check(self.switch.library.sw_ctl_group_modify(self.switch.handle, group.pointer, count, slots, ports))
        self._refer(members, 1)
        self._refer(group.members, -1)
        self._slot_count += count - group.slots
        group.members, group.slots = tuple(members), count

    @locked
    def group_delete(self, group_id: int) -> None:
        """Delete an unused group."""
        group = self.find_group(group_id)
        if group.references:
            raise InvalidArgument(f"group {group_id} of action profile {self.info.name} is in use")
        self.switch.library.sw_ctl_group_delete(self.switch.handle, group.pointer)
        self._refer(group.members, -1)
        self._slot_count -= group.slots
        del self._groups[group_id]

    def _refer(self, members: Sequence[tuple[int, int]], count: int) -> None:
        for member_id, _ in members:
            self._members[member_id].references += count

    def close(self) -> None:
        """Free all members and groups; the tables must be empty already."""
        for group in self._groups.values():
            self.switch.library.sw_ctl_group_delete(self.switch.handle, group.pointer)
        for member in self._members.values():
            self.switch.library.sw_ctl_member_delete(self.switch.handle, member.pointer)
        self._groups.clear()
        self._members.clear()


def _made(pointer: int | None) -> int:
    if not pointer:
        raise ResourceExhausted("out of memory")
    return pointer


def _check(status: int) -> None:
    if status:
        raise ResourceExhausted("out of memory")
