"""Compile the transport with mypyc for the Python that runs this; does nothing when these sources are compiled.

Modules that are written in C, the NIC's (``mrc_host.c_modules``) and the simulation's core, are put beside it, so that
all users of this Python have them.

The installer runs it. Without a C compiler, or when something else is in the way, it says so in one line and returns 1:
the NIC then runs as plain Python, at several times the CPU a packet.

Any number may run at once, and be stopped at any time: one works, the others wait for it and then see what is left to
do. What is compiled takes its place when it is complete, and only then do earlier ones go.

How far it is shows in the files that mypyc and the C compiler have made: the C of all modules, an object of each, and
then, since linking compiles nearly all of it, the parts that the linker cuts it into.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mrc_common import children
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.extension import installed_folder
from mrc_host import c_modules, compiled
from scripts.build_progress import BuildProgress
from simulation import core

# They replace Python's own. Debug information takes long; NDEBUG and wrapping are what Python's headers count on.
CFLAGS = "-g0 -DNDEBUG -fwrapv -fno-semantic-interposition -include mrc_common/" + compiled.INCLUDED.name
# Nearly all of the transport is one file of C: linking compiles its functions, on all cores.
IN_PARTS = "-flto=auto"
LOCK = "lock"
TEMPORARY = "parts"  # where the linker cuts it up
_PART = re.compile(r"\.ltrans\d+\.o$")
_PART_DONE = re.compile(r"\.ltrans\d+\.ltrans\.o$")
C_MODULES = (*c_modules.ALL, core.MODULE)
_LOOK_S = 0.5  # between two looks at how far it is
ROOT = Path(compiled.__file__).resolve().parents[1]
BUILD = """
import os, sys
from mypyc.build import mypycify
from setuptools import setup

target, *flags = sys.argv[1:sys.argv.index("--")]
files = sys.argv[sys.argv.index("--") + 1 :]
# without the project's settings, which are found only if the environment is inside it
checks = ["--config-file=", "--strict", "--disable-error-code=empty-body"]
extensions = mypycify([*checks, *files], opt_level="2", debug_level="0")
for extension in extensions:
    if extension.name.endswith("__mypyc"):  # with all functions; the others only export a module of it each
        extension.extra_compile_args += flags
        extension.extra_link_args += flags
with open("objects", "w") as file:
    file.write(str(sum(len(extension.sources) for extension in extensions)))
at_once = str(len(os.sched_getaffinity(0)))
setup(
    name="transport",
    ext_modules=extensions,
    script_args=["build_ext", "--force", "--parallel", at_once, "--build-lib", target],
)
"""


class CompileError(Exception):
    """The transport was not compiled; the message says why."""


def bring_c_modules(folder: Path) -> None:
    """Have a wheel or an installation bring all modules in C in `folder`. Raises CBuildError, OSError."""
    for module in C_MODULES:
        module.build_into(folder)


def compile_transport(place: Path) -> None:
    """Compile the sources into the folder `place` of an environment, under the lock.

    Raises CompileError when that does not work, or the sources have changed.
    """

    def check() -> None:
        if compiled.folder() != place:
            raise CompileError("its sources have just changed; run it again")

    build_into(place, check)


def build_into(place: Path, check: Callable[[], None] = lambda: None) -> None:
    """Compile the sources into the folder `place`; `check` may refuse the copy that was made of them.

    Raises CompileError when it does not work; then `place` is as before.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="making-") as name:
        scratch = Path(name)
        rooms = ("mrc_host", "mrc_common")  # all types that are used
        paths = [path for room in rooms for end in ("py", "pyi") for path in (ROOT / room).rglob(f"*.{end}")]
        python = [path.relative_to(ROOT) for path in paths]
        for file in (*python, compiled.INCLUDED.relative_to(ROOT)):
            copy = scratch / file  # mypyc writes beside the sources and where it is run
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, copy)
        check()
        done = _run_build(scratch, IN_PARTS)
        if done.returncode:  # perhaps the C compiler cannot do that
            done = _run_build(scratch)
        log = done.stdout + done.stderr
        if done.returncode:
            kept = place.parent / "failed.log"
            kept.write_text(log)
            error = next((line for line in log.splitlines() if "error" in line.lower()), "it failed")
            raise CompileError(f"{error.strip()} (all output: {kept})")
        compiled.seal(scratch / "made")
        if place.exists():  # unfinished
            shutil.rmtree(place)
        os.rename(scratch / "made", place)


def _run_build(scratch: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Compile the copy in `scratch` into its folder ``made``, with these flags for the C compiler."""
    for name in ("made", "build", TEMPORARY):
        shutil.rmtree(scratch / name, ignore_errors=True)
    (scratch / TEMPORARY).mkdir()
    files = map(str, compiled.sources())
    command = children.python_code(BUILD, "made", *flags, "--", *files)
    environment = {**os.environ, "CFLAGS": CFLAGS, "TMPDIR": str(scratch / TEMPORARY)}
    progress = BuildProgress("Compiling the transport")
    with open(scratch / "log", "w+") as log:
        with children.popen(command, cwd=scratch, env=environment, stdout=log, stderr=subprocess.STDOUT) as build:
            try:
                while build.poll() is None:
                    progress.report(*how_far(scratch))
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        build.wait(_LOOK_S)
            except BaseException:
                build.kill()
                raise
            finally:
                progress.close()
        log.seek(0)
        return subprocess.CompletedProcess(command, build.returncode, log.read(), "")


def how_far(scratch: Path) -> tuple[str, int, int]:
    """What the build in `scratch` is at, how many parts of that are done, and how many there are (0: unknown)."""
    try:
        objects = int((scratch / "objects").read_text())
    except (OSError, ValueError):
        return "checking types", 0, 0
    names = [file.name for file in (scratch / TEMPORARY).iterdir()]
    parts = sum(bool(_PART.search(name)) for name in names)
    if parts > 1:  # small modules are one
        return "parts linked", sum(bool(_PART_DONE.search(name)) for name in names), parts
    done = len(list((scratch / "build").rglob("*.o")))
    return ("linking", 0, 0) if done >= objects else ("files", done, objects)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """While this is held nobody else compiles into `folder`. The kernel releases it when its holder exits."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("The transport is being compiled by another process: waiting for it.", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Compile what is not compiled yet, and remove what was compiled from earlier sources."""
    try:
        bring_c_modules(installed_folder())
    except (CBuildError, OSError) as error:
        print(
            f"Modules in C were not compiled, and without them there is neither NIC nor simulation: {error}",
            file=sys.stderr,
        )
        return 1
    if compiled.available():
        return 0
    place = compiled.folder()
    try:
        with alone(place.parent):
            if not compiled.available():  # it may have been the same that the other compiled
                compile_transport(place)
                _remove_others(place)
    except (CompileError, OSError) as error:
        print(f"The transport was not compiled, so it runs as plain Python: {error}", file=sys.stderr)
        return 1
    return 0


def _remove_others(place: Path) -> None:
    for other in place.parent.iterdir():
        if other.name == LOCK or other in (place, installed_folder()):
            continue
        if other.is_dir():
            shutil.rmtree(other, ignore_errors=True)
        else:
            other.unlink(missing_ok=True)


if __name__ == "__main__":
    raise SystemExit(main())
