"""The embedded switch's engine and its programs as shared objects.

The engine (all C in engine/) becomes one library, and each program a small object that links to it. Both are in the
user's cache (``mrc_common.c_build.shared_object``) under a hash of everything that they depend on. The compiler's
resources are limited (``mrc_common.c_build.compiler``), since a client may push the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mrc_common
from mrc_common.c_build import errors as c_errors
from mrc_common.c_build.shared_object import BuildOptions, cached, compile_shared, digest
from p4runtime_shim.codegen import generate
from p4runtime_shim.errors import BuildError, ResourceExhausted
from p4runtime_shim.program import Program, load_program

__all__ = ["BuildOptions", "build", "build_engine", "compile_program"]

ENGINE_SOURCES = Path(__file__).parent / "engine"
SHARED_HEADERS = Path(mrc_common.__file__).parent


def build(program: str | Program, *, cache: Path | None = None, options: BuildOptions | None = None) -> Path:
    """The shared object of a program (BMv2 JSON text, or a Program), compiled unless it is cached.

    Raises InvalidProgram, Unsupported, BuildError, or ResourceExhausted (the compiler exceeds its limits).
    """
    loaded = load_program(program) if isinstance(program, str) else program
    return compile_program(generate(loaded).code, cache=cache, options=options)


def compile_program(code: str, *, cache: Path | None = None, options: BuildOptions | None = None) -> Path:
    """The shared object of a program's C, compiled unless it is cached; raises BuildError, ResourceExhausted."""
    options = options or BuildOptions()
    if len(code) > options.limits.source:
        raise ResourceExhausted(
            f"the program is {len(code) >> 20} MB of C; at most {options.limits.source >> 20} MB are compiled"
        )
    engine = build_engine(cache=cache, options=options)
    name = f"program-{digest((), engine.name, code)}"
    link = ["-I", str(ENGINE_SOURCES), f"-L{engine.parent}", f"-l:{engine.name}", "-Wl,-rpath,$ORIGIN"]
    with _switch_errors():
        return compile_shared(engine.with_name(f"{name}.so"), link, options, {f"{name}.c": code})


def build_engine(*, cache: Path | None = None, options: BuildOptions | None = None) -> Path:
    """The engine's shared library, compiled unless it is cached; raises BuildError, ResourceExhausted."""
    options = options or BuildOptions()
    files = sorted([*ENGINE_SOURCES.rglob("*.[ch]"), *SHARED_HEADERS.glob("*.h")])
    with _switch_errors():
        target = cached(f"libengine-{options.digest(files)}", cache)
        sources = [str(file) for file in files if file.suffix == ".c"]
        folders = ["-I", str(ENGINE_SOURCES), "-I", str(SHARED_HEADERS)]
        return compile_shared(target, [*sources, *folders, f"-Wl,-soname,{target.name}"], options)


@contextmanager
def _switch_errors() -> Iterator[None]:
    """Errors of compiling as those of a switch, which have codes for its clients."""
    try:
        yield
    except c_errors.CBuildLimitError as error:
        raise ResourceExhausted(str(error)) from None
    except c_errors.CBuildError as error:
        raise BuildError(str(error)) from None
