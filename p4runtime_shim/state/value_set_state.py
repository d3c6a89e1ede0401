"""Parser value sets: the members of each, as a control plane wrote them."""

from __future__ import annotations

from collections.abc import Sequence

from mrc_common.p4_match import Match
from p4runtime_shim import limits
from p4runtime_shim.errors import AlreadyExists, ResourceExhausted
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.state.key_encoding import encode_member
from p4runtime_shim.state.loaded_switch import LoadedSwitch, locked
from p4runtime_shim.state.table_state import EntryCount

Member = tuple[Match, ...]


class ValueSetState:
    """The members of one value set; they count among the entries of the switch."""

    def __init__(self, pipeline: Pipeline, switch: LoadedSwitch, position: int, entry_count: EntryCount) -> None:
        self.info = pipeline.program.parser.value_sets[position]
        self.switch = switch
        self._table = len(pipeline.program.tables) + position  # in the engine
        self._entry_count = entry_count
        self._members: tuple[Member, ...] = ()

    @locked
    def members(self) -> tuple[Member, ...]:
        """All members, in the order in which they were given."""
        return self._members

    @locked
    def set_members(self, members: Sequence[Member]) -> None:
        """Replace all members in one step.

        Raises AlreadyExists if two are equal, InvalidArgument if one does not fit the set, or ResourceExhausted;
        the members stay as they were then.
        """
        name, size = self.info.name, self.info.size
        if len(set(members)) < len(members):
            raise AlreadyExists(f"value set {name}: two members are equal")
        if size is not None and len(members) > size:
            raise ResourceExhausted(f"value set {name} has at most {size} members, not {len(members)}")
        others = self._entry_count.entries - len(self._members)
        if others + len(members) > limits.MAX_ENTRIES:
            raise ResourceExhausted(f"the tables of a switch can have {limits.MAX_ENTRIES} entries in total")
        if self.info.widths is not None:  # otherwise no packet sees them
            words = b"".join(encode_member(self.info, member) for member in members)
            if self.switch.library.sw_ctl_members(self.switch.handle, self._table, len(members), words):
                raise ResourceExhausted("out of memory")
        self._entry_count.entries = others + len(members)
        self._members = tuple(members)
