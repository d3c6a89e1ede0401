"""A program ready to run: the typed Program, its machine code, and the positions of its names.

One Pipeline serves any number of switches. Loading the same text again costs a hash and a cache lookup.
"""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from p4runtime_shim.build import BuildOptions, compile_program
from p4runtime_shim.codegen import generate
from p4runtime_shim.codegen.control_flow import TableShape
from p4runtime_shim.ctypes_bindings import Engine, ProgramLibrary, load_engine
from p4runtime_shim.errors import NotFound
from p4runtime_shim.program import Program, load_program


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A loaded program; make one with `Pipeline.load`."""

    program: Program
    native: Engine
    library: ProgramLibrary
    texts: tuple[str, ...]  # texts that the program prints (codegen/layout.py)
    path: Path
    tables: dict[str, int]
    actions: dict[str, tuple[int, ...]]  # several actions may have one name, in different tables
    profiles: dict[str, int]
    value_sets: dict[str, int]
    counters: dict[str, int]
    meters: dict[str, int]
    registers: dict[str, int]

    @classmethod
    def load(cls, json_text: str, *, cache: Path | None = None, options: BuildOptions | None = None) -> Pipeline:
        """Read BMv2 JSON, compile it (or take it from the cache), and load it.

        Raises InvalidProgram (not BMv2 JSON), Unsupported (an unsupported construct; the message has its file and
        line), BuildError (no compiler), or ResourceExhausted (the compiler exceeds its limits).
        """
        program = load_program(json_text)
        native = load_engine(cache=cache, options=options)
        generated = generate(program)
        path, library = _load(generated.code, cache, options)
        actions: dict[str, tuple[int, ...]] = {}
        for position, action in enumerate(program.actions):
            actions[action.name] = (*actions.get(action.name, ()), position)
        return cls(
            program=program,
            native=native,
            library=library,
            texts=generated.texts,
            path=path,
            tables={item.name: position for position, item in enumerate(program.tables)},
            actions=actions,
            profiles={item.name: position for position, item in enumerate(program.profiles)},
            value_sets={item.name: position for position, item in enumerate(program.parser.value_sets)},
            counters={item.name: position for position, item in enumerate(program.counters)},
            meters={item.name: position for position, item in enumerate(program.meters)},
            registers={item.name: position for position, item in enumerate(program.registers)},
        )

    @cached_property
    def shapes(self) -> tuple[TableShape, ...]:
        """How each table's key is laid out, by position."""
        return tuple(map(TableShape.of, self.program.tables))

    @cached_property
    def text_array(self) -> c.Array[c.c_char_p]:
        """`texts` for the engine, which copies them."""
        return (c.c_char_p * len(self.texts))(*(text.encode(errors="replace") for text in self.texts))

    @property
    def address(self) -> int:
        """Address of the program's `sw_program`, valid while this pipeline exists."""
        return self.library.address

    def find(self, kind: str, names: dict[str, int], name: str) -> int:
        """Position of a named object; NotFound."""
        position = names.get(name)
        if position is None:
            raise NotFound(f"the program has no {kind} {name!r}")
        return position


def _load(code: str, cache: Path | None, options: BuildOptions | None) -> tuple[Path, ProgramLibrary]:
    """The compiled program; rebuilt once if another process has just removed it from the cache."""
    path = compile_program(code, cache=cache, options=options)
    try:
        return path, ProgramLibrary(path)
    except OSError:
        path = compile_program(code, cache=cache, options=options)
        return path, ProgramLibrary(path)
