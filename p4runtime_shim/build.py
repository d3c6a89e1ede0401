"""Compilation of the engine and of programs into shared objects, cached by content.

The engine (engine/*.c) becomes one library, and each program a small object that links to it. Both are stored in the
cache directory (object_cache.py) under a hash of everything they depend on (sources, headers, compiler version, flags,
machine type), so a stale object or one of another machine is never used. Any number of processes may build at once; at
worst, two of them do the same work. The compiler's resources are limited (c_compiler.py).
"""

from __future__ import annotations

import hashlib
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mrc_common
from p4runtime_shim import c_compiler
from p4runtime_shim.c_compiler import Limits
from p4runtime_shim.codegen import generate
from p4runtime_shim.errors import BuildError, ResourceExhausted
from p4runtime_shim.object_cache import default_cache, install, is_whole, private_folder
from p4runtime_shim.program import Program, load_program

__all__ = ["BuildOptions", "build", "build_engine", "build_extension", "compile_program", "default_cache"]

ENGINE_SOURCES = Path(__file__).parent / "engine"
SHARED_HEADERS = Path(mrc_common.__file__).parent
_LANGUAGE = ("-std=gnu11", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to compile. `flags` replace the default optimisation, e.g. ("-O1", "-g", "-fsanitize=address,undefined")."""

    compiler: str = "cc"
    flags: tuple[str, ...] = ("-O2",)
    limits: Limits = field(default_factory=Limits)


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
    digest = hashlib.sha256(f"{engine.name}\n{code}".encode()).hexdigest()[:24]
    target = engine.parent / f"program-{digest}.so"
    link = ["-I", str(ENGINE_SOURCES), f"-L{engine.parent}", f"-l:{engine.name}", "-Wl,-rpath,$ORIGIN"]
    return _object(target, options, link, {f"program-{digest}.c": code})


def build_engine(*, cache: Path | None = None, options: BuildOptions | None = None) -> Path:
    """The engine's shared library, compiled unless it is cached."""
    options = options or BuildOptions()
    files = sorted([*ENGINE_SOURCES.glob("*.c"), *ENGINE_SOURCES.glob("*.h"), *SHARED_HEADERS.glob("*.h")])
    made_by = (c_compiler.version(options.compiler), platform.machine())
    digest = hashlib.sha256(repr((made_by, options.flags, _LANGUAGE)).encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    folder = private_folder((cache or default_cache()).absolute())
    target = folder / f"libengine-{digest.hexdigest()[:24]}.so"
    sources = [str(file) for file in files if file.suffix == ".c"]
    return _object(target, options, [*sources, "-I", str(SHARED_HEADERS), f"-Wl,-soname,{target.name}"], {})


def build_extension(
    name: str,
    source: Path,
    include: Sequence[Path] = (),
    *,
    cache: Path | None = None,
    options: BuildOptions | None = None,
) -> Path:
    """The extension ``<name>-*.so`` made of a file of C, the headers beside it and those in `include`."""
    options = options or BuildOptions()
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").is_file():
        raise BuildError("the headers of Python are missing; try: apt install python3-dev")
    made_by = (c_compiler.version(options.compiler), platform.machine(), sysconfig.get_config_var("SOABI"), sys.version)
    digest = hashlib.sha256(repr((made_by, options.flags, _LANGUAGE)).encode())
    for file in (source, *(header for folder in (source.parent, *include) for header in sorted(folder.glob("*.h")))):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    target = private_folder((cache or default_cache()).absolute()) / f"{name}-{digest.hexdigest()[:24]}.so"
    return _object(target, options, [str(source), *(f"-I{folder}" for folder in (headers, *include))], {})


def _object(target: Path, options: BuildOptions, arguments: list[str], files: dict[str, str]) -> Path:
    """The object from the cache, or compiled with the arguments from the files, which are written to a build folder."""
    if is_whole(target):
        return target
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
            folder, output = Path(name), Path(name, "out.so")
            for file, text in files.items():
                (folder / file).write_text(text)
            command = [*options.flags, *_LANGUAGE, "-o", str(output), *files, *arguments]
            c_compiler.run(options.compiler, command, folder, target.name, options.limits)
            install(output, target)
    except OSError as error:
        raise BuildError(f"cannot write to the cache directory {target.parent} ({error.strerror})") from None
    return target
