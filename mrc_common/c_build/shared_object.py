"""Shared objects in the cache: named by a hash of everything that they depend on, and compiled once.

The hash covers sources, headers, compiler version, flags and machine type, so that a stale object or one of another
machine is never used. Any number of processes may ask for the same object: one compiles it, the others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mrc_common.c_build import compiler
from mrc_common.c_build.compiler import Limits
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.object_cache import default_cache, install, is_whole, private_folder

LANGUAGE = ("-std=gnu11", "-fPIC", "-pthread", "-Wall", "-Wextra")
_LOOK_S = 0.05  # between two looks whether another process has finished


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to compile. `flags` replace the default optimisation, e.g. ("-O1", "-g", "-fsanitize=address,undefined")."""

    compiler: str = "cc"
    flags: tuple[str, ...] = ("-O2",)
    limits: Limits = field(default_factory=Limits)

    def digest(self, files: Iterable[Path], *more: object) -> str:
        """Stands for what compiling these files gives with these options, and for `more` that decides it.

        Raises CBuildError if there is no compiler.
        """
        made_by = (compiler.version(self.compiler), platform.machine(), self.flags, LANGUAGE)
        return digest(files, *made_by, *more)


def digest(files: Iterable[Path], *more: object) -> str:
    """24 hexadecimal digits that stand for the names and contents of files, and for `more`."""
    found = hashlib.sha256(repr(more).encode())
    for file in files:
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()[:24]


def cached(name: str, cache: Path | None = None) -> Path:
    """Where the object of that name is in a cache (None: the user's), or will be.

    Raises CBuildError if the cache cannot be made, or others can write to it.
    """
    return private_folder((cache or default_cache()).absolute()) / f"{name}.so"


def compile_shared(
    target: Path, arguments: Sequence[str], options: BuildOptions, texts: Mapping[str, str] | None = None
) -> Path:
    """The shared object `target` of a cache, compiled unless it is there.

    `arguments` are the compiler's: sources, include folders, libraries. `texts` are further sources, by file name,
    which are written to a build folder. Raises CBuildError, CBuildLimitError.
    """
    if is_whole(target):
        return target
    texts = texts or {}
    try:
        with _alone(target):
            if is_whole(target):
                return target
            with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
                folder, output = Path(name), Path(name, "out.so")
                for file, text in texts.items():
                    (folder / file).write_text(text)
                command = [*options.flags, *LANGUAGE, "-shared", "-o", str(output), *texts, *arguments]
                compiler.run(options.compiler, command, folder, target.name, options.limits)
                install(output, target)
    except OSError as error:
        raise CBuildError(f"cannot write to the cache directory {target.parent} ({error.strerror})") from None
    return target


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """While this is held no other process compiles `target`. The kernel releases it when its holder exits."""
    lock = target.with_suffix(".lock")
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                compiler.pause(_LOOK_S)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)  # who waits for it finds the object, or at worst compiles it too
