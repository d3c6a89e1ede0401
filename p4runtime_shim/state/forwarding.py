"""All control-plane objects of one switch while one program is loaded; made anew with every program."""

from __future__ import annotations

import ctypes as c

from p4runtime_shim.errors import NotFound, ResourceExhausted, SwitchError
from p4runtime_shim.native import NO_MEMORY, Native
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.state.cells import Cells
from p4runtime_shim.state.profiles import Profile
from p4runtime_shim.state.replication import Replication
from p4runtime_shim.state.tables import Room, Table


class Forwarding:
    """Loads a program into a switch and keeps what belongs to it."""

    def __init__(self, pipeline: Pipeline, native: Native, handle: int) -> None:
        texts = (c.c_char_p * len(pipeline.texts))(*(text.encode(errors="replace") for text in pipeline.texts))
        status = native.library.sw_load(handle, pipeline.address, texts, len(texts))
        if status == NO_MEMORY:
            raise ResourceExhausted("there is not enough memory for the program's tables and arrays")
        if status:
            raise SwitchError("the program was compiled for another engine")
        self.pipeline = pipeline
        program = pipeline.program
        self.profiles = [Profile(pipeline, native, handle, position) for position in range(len(program.profiles))]
        room = Room()
        self.tables = [
            Table(pipeline, native, handle, position, self.profiles, room) for position in range(len(program.tables))
        ]
        self.cells = Cells(pipeline, native, handle)
        self.replication = Replication(native, handle)

    def table(self, name: str) -> Table:
        """A table by name."""
        return self.tables[self.pipeline.find("table", self.pipeline.tables, name)]

    def profile(self, name: str) -> Profile:
        """An action profile by name."""
        return self.profiles[self.pipeline.find("action profile", self.pipeline.profiles, name)]

    def attach(self, handle: int) -> None:
        """All of this is in another switch now (sw_adopt)."""
        for table in self.tables:
            table.handle = handle
        for profile in self.profiles:
            profile.handle = handle
        self.cells.handle = self.replication.handle = handle

    def close(self) -> None:
        """Free what the engine does not own; after the program was unloaded."""
        for profile in self.profiles:
            profile.close()


def require(forwarding: Forwarding | None) -> Forwarding:
    """NotFound when no program is loaded."""
    if forwarding is None:
        raise NotFound("no program is loaded")
    return forwarding
