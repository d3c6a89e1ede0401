"""The control plane of a switch: what P4Runtime reads and writes of a loaded program, by name.

Tables, action profiles, externs and replication are parts of their own. Each checks values in Python, writes them to
the engine and keeps a copy for reads; their methods may be called from any thread while packets move (`loaded_switch`).
Without a program, and once the program was replaced, every call raises NotFound. Names are those of the BMv2 JSON.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence

from p4runtime_shim.ctypes_bindings import NO_MEMORY, Engine
from p4runtime_shim.entities import Digest
from p4runtime_shim.errors import NotFound, ResourceExhausted, SwitchError
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program.model.expressions import FieldRef
from p4runtime_shim.program.model.externs import FieldList
from p4runtime_shim.program.model.program import Program
from p4runtime_shim.state.action_profile_state import ActionProfileState
from p4runtime_shim.state.extern_state import ExternState
from p4runtime_shim.state.loaded_switch import LoadedSwitch
from p4runtime_shim.state.replication_state import ReplicationState
from p4runtime_shim.state.table_state import EntryCount, TableState
from p4runtime_shim.state.value_set_state import ValueSetState

_DIGEST_WORDS = 4096


class ControlPlane:
    """The program of a switch with its entries and cells. Errors are subclasses of SwitchError.

    It moves with its program when two switches swap programs (`EmbeddedSwitch.adopt`).
    """

    def __init__(self, native: Engine, handle: int, ports: Sequence[int], pipeline: Pipeline | None) -> None:
        """Load the program, if there is one; raises SwitchError."""
        self._switch = LoadedSwitch(native, handle, ports)
        self._state = _ProgramState(pipeline, self._switch) if pipeline else None

    @property
    def pipeline(self) -> Pipeline | None:
        """The loaded program."""
        state = self._state
        return state.pipeline if state else None

    def unload(self) -> None:
        """Remove the program with its entries and cells; further calls do nothing."""
        with self._switch.lock:
            old, self._state = self._state, None
            if old:
                old.close()

    def swap(self, other: ControlPlane) -> None:
        """Swap switches with another control plane. It cannot fail."""
        mine, its = self._switch, other._switch
        with mine.lock, its.lock:
            mine.library.sw_adopt(mine.handle, its.handle)
            mine.handle, its.handle = its.handle, mine.handle

    def table(self, name: str) -> TableState:
        """A table; NotFound."""
        state = self._program
        return state.tables[state.pipeline.find("table", state.pipeline.tables, name)]

    def profile(self, name: str) -> ActionProfileState:
        """An action profile or selector; NotFound."""
        state = self._program
        return state.profiles[state.pipeline.find("action profile", state.pipeline.profiles, name)]

    def value_set(self, name: str) -> ValueSetState:
        """A parser value set; NotFound."""
        state = self._program
        return state.value_sets[state.pipeline.find("value set", state.pipeline.value_sets, name)]

    @property
    def externs(self) -> ExternState:
        """Indirect counters and meters, and registers."""
        return self._program.externs

    @property
    def replication(self) -> ReplicationState:
        """Multicast groups and clone sessions."""
        return self._program.replication

    @property
    def _program(self) -> _ProgramState:
        state = self._state
        if state is None:
            raise NotFound("no program is loaded")
        return state

    def take_digests(self) -> list[Digest]:
        """The digests since the last call, oldest first; the switch keeps 4096 and counts those lost."""
        with self._switch.lock:
            if self._state is None:
                return []
            program = self._state.pipeline.program
            which, when, words = c.c_uint32(), c.c_int64(), (c.c_uint64 * _DIGEST_WORDS)()
            taken: list[Digest] = []
            while True:
                count = self._switch.library.sw_ctl_digest(
                    self._switch.handle, c.byref(which), c.byref(when), words, _DIGEST_WORDS
                )
                if count < 0:
                    return taken
                layout = program.digests[which.value]
                taken.append(Digest(layout.name, _digest_values(program, layout, words[:count]), when.value))


class _ProgramState:
    """Loads a program into a switch and owns the parts of its state; a new program gets a new one."""

    def __init__(self, pipeline: Pipeline, switch: LoadedSwitch) -> None:
        status = switch.library.sw_load(switch.handle, pipeline.address, pipeline.text_array, len(pipeline.texts))
        if status == NO_MEMORY:
            raise ResourceExhausted("not enough memory for the program's tables and arrays")
        if status:
            raise SwitchError("the program was compiled for another engine")
        self.pipeline = pipeline
        self._switch = switch
        program = pipeline.program
        self.profiles = [ActionProfileState(pipeline, switch, position) for position in range(len(program.profiles))]
        entry_count = EntryCount()
        self.tables = [
            TableState(pipeline, switch, position, self.profiles, entry_count)
            for position in range(len(program.tables))
        ]
        self.value_sets = [
            ValueSetState(pipeline, switch, position, entry_count) for position in range(len(program.parser.value_sets))
        ]
        self.externs = ExternState(pipeline, switch)
        self.replication = ReplicationState(switch)
        switch.loaded = True

    def close(self) -> None:
        """Remove the program, and free the objects that the engine does not own."""
        self._switch.loaded = False
        self._switch.library.sw_load(self._switch.handle, None, None, 0)
        for profile in self.profiles:
            profile.close()


def _digest_values(program: Program, layout: FieldList, words: Sequence[int]) -> tuple[int, ...]:
    values: list[int] = []
    position = 0
    for ref in layout.fields:
        width = program.field(ref).width if isinstance(ref, FieldRef) else 1
        count = (width + 63) // 64
        values.append(sum(word << (64 * i) for i, word in enumerate(words[position : position + count])))
        position += count
    return tuple(values)
