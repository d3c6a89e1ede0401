"""Compilation of the engine and of programs into shared objects, cached by content.

The engine (engine/*.c) becomes one library, each program one small object that links to it; both lie in the cache
directory under a hash of everything that went into them (sources, headers, compiler version, flags, kind of machine),
so a changed file never meets a stale object, nor one machine another's. Files are made under a temporary name and
renamed, so any number of processes may build at once; the worst is that two of them do the same work.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mrc_common import children
from p4runtime_shim.codegen import generate
from p4runtime_shim.errors import BuildError
from p4runtime_shim.program import Program, load_program

ENGINE_SOURCES = Path(__file__).parent / "engine"
_LANGUAGE = ("-std=gnu11", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to compile. `flags` replace the default optimisation, e.g. ("-O1", "-g", "-fsanitize=address,undefined")."""

    compiler: str = "cc"
    flags: tuple[str, ...] = ("-O2",)


def default_cache() -> Path:
    """$XDG_CACHE_HOME/mrc-testbed, or ~/.cache/mrc-testbed."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mrc-testbed"


def build(program: str | Program, *, cache: Path | None = None, options: BuildOptions | None = None) -> Path:
    """The shared object of a program (BMv2 JSON text, or a Program), compiled unless the cache has it.

    Raises InvalidProgram, Unsupported, or BuildError.
    """
    options = options or BuildOptions()
    cache = cache or default_cache()
    engine = build_engine(cache=cache, options=options)
    loaded = load_program(program) if isinstance(program, str) else program
    source = generate(loaded)
    digest = hashlib.sha256(f"{engine.name}\n{source}".encode()).hexdigest()[:24]
    target = engine.parent / f"program-{digest}.so"
    if target.exists():
        return target
    link = ["-I", str(ENGINE_SOURCES), f"-L{engine.parent}", f"-l:{engine.name}", "-Wl,-rpath,$ORIGIN"]
    with tempfile.TemporaryDirectory(dir=engine.parent, prefix="build-") as folder:
        file = Path(folder) / f"program-{digest}.c"
        file.write_text(source)
        _compile(options, [str(file), *link], target, Path(folder))
    return target


def build_engine(*, cache: Path | None = None, options: BuildOptions | None = None) -> Path:
    """The engine's shared library, compiled unless the cache has it."""
    options = options or BuildOptions()
    cache = cache or default_cache()
    files = sorted([*ENGINE_SOURCES.glob("*.c"), *ENGINE_SOURCES.glob("*.h")])
    compiler = (compiler_version(options.compiler), platform.machine())
    digest = hashlib.sha256(repr((compiler, options.flags, _LANGUAGE)).encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    folder = cache / "switch"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(f"cannot make the cache directory {folder} ({error.strerror}): set XDG_CACHE_HOME") from None
    target = folder / f"libengine-{digest.hexdigest()[:24]}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as scratch:
        sources = [str(file) for file in files if file.suffix == ".c"]
        _compile(options, [*sources, f"-Wl,-soname,{target.name}"], target, Path(scratch))
    return target


@functools.cache
def compiler_version(compiler: str) -> str:
    """First line of `cc --version`; BuildError when there is no compiler."""
    try:
        done = children.run([*shlex.split(compiler), "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise BuildError(
            f"the embedded switch needs a C compiler and {compiler!r} does not run; try: apt install gcc"
        ) from None
    return str(done.stdout).partition("\n")[0]


def _compile(options: BuildOptions, args: list[str], target: Path, scratch: Path) -> None:
    made = scratch / "out.so"
    command = [*shlex.split(options.compiler), *options.flags, *_LANGUAGE, "-o", str(made), *args]
    done = children.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:300])
        raise BuildError(f"the C compiler refused {target.name}: {first.strip()}")
    os.replace(made, target)
