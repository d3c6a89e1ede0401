"""The state of a loaded program in one switch: tables, action profiles, externs, replication."""

from __future__ import annotations

import ctypes as c

from p4runtime_shim.ctypes_bindings import NO_MEMORY, Engine
from p4runtime_shim.errors import ResourceExhausted, SwitchError
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.state.action_profile_state import ActionProfileState
from p4runtime_shim.state.extern_state import ExternState
from p4runtime_shim.state.replication_state import ReplicationState
from p4runtime_shim.state.table_state import EntryCount, TableState


class ProgramState:
    """Loads a program into a switch and holds its state; a new program gets a new one."""

    def __init__(self, pipeline: Pipeline, native: Engine, handle: int) -> None:
        texts = (c.c_char_p * len(pipeline.texts))(*(text.encode(errors="replace") for text in pipeline.texts))
        status = native.library.sw_load(handle, pipeline.address, texts, len(texts))
        if status == NO_MEMORY:
            raise ResourceExhausted("not enough memory for the program's tables and arrays")
        if status:
            raise SwitchError("the program was compiled for another engine")
        self.pipeline = pipeline
        program = pipeline.program
        self.profiles = [
            ActionProfileState(pipeline, native, handle, position) for position in range(len(program.profiles))
        ]
        entry_count = EntryCount()
        self.tables = [
            TableState(pipeline, native, handle, position, self.profiles, entry_count)
            for position in range(len(program.tables))
        ]
        self.externs = ExternState(pipeline, native, handle)
        self.replication = ReplicationState(native, handle)

    def table(self, name: str) -> TableState:
        """A table by name."""
        return self.tables[self.pipeline.find("table", self.pipeline.tables, name)]

    def profile(self, name: str) -> ActionProfileState:
        """An action profile by name."""
        return self.profiles[self.pipeline.find("action profile", self.pipeline.profiles, name)]

    def attach(self, handle: int) -> None:
        """The state now belongs to another switch (sw_adopt)."""
        for table in self.tables:
            table.handle = handle
        for profile in self.profiles:
            profile.handle = handle
        self.externs.handle = self.replication.handle = handle

    def close(self) -> None:
        """Free the objects that the engine does not own. Call it after the program was unloaded."""
        for profile in self.profiles:
            profile.close()
