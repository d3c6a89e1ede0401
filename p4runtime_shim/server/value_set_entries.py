"""Parser value sets (P4Runtime spec, "ValueSetEntry"): each always exists, and is written with all its members."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from p4runtime_shim.server import entry_codec
from p4runtime_shim.server.budget import ReadBudget
from p4runtime_shim.server.extern_entries import only_modify
from p4runtime_shim.server.p4info import Schema, find
from p4runtime_shim.server.rpc_errors import exhausted
from p4runtime_shim.server.switch_interface import ControlPlaneInterface
from p4runtime_shim.server.undo_log import UndoLog


class ValueSetEntries:
    """The value sets of one switch."""

    def __init__(self, schema: Schema, control_plane: ControlPlaneInterface) -> None:
        self._schema = schema
        self._control_plane = control_plane

    def write(self, update: int, message: p4r.ValueSetEntry, undo_log: UndoLog | None) -> None:
        """MODIFY, which replaces all members."""
        info = find(self._schema.value_sets, message.value_set_id, "value set")
        only_modify(update, f"value set {info.name}")
        if len(message.members) > info.size:
            raise exhausted(f"value set {info.name} has at most {info.size} members, not {len(message.members)}")
        state = self._control_plane.value_set(info.name)
        members = [entry_codec.decode_match(info, member.match) for member in message.members]
        old = state.members()
        state.set_members(members)
        if undo_log is not None:
            undo_log.append(lambda: state.set_members(old))

    def read(self, wanted: p4r.ValueSetEntry, budget: ReadBudget) -> Iterator[p4r.ValueSetEntry]:
        """One value set, or all; what else the filter has is ignored."""
        id_, every = wanted.value_set_id, self._schema.value_sets
        found = []
        for info in list(every.values()) if id_ == 0 else [find(every, id_, "value set")]:
            members = self._control_plane.value_set(info.name).members()
            budget.take(1 + 4 * len(members), f"value set {info.name}")
            found.append((info, members))
        return (
            p4r.ValueSetEntry(
                value_set_id=info.id,
                members=[p4r.ValueSetMember(match=entry_codec.encode_match(info, member)) for member in members],
            )
            for info, members in found
        )
