"""Compile the transport with mypyc for the Python that runs this; does nothing when these sources are compiled.

The installer runs it. Without a C compiler, or when something else is in the way, it says so in one line and returns 1:
the NIC then runs as plain Python, at more than twice the CPU a packet.

Any number may run at once, and be stopped at any time: one works, the others wait for it and then see what is left to
do. What is compiled takes its place when it is complete, and only then do earlier ones go.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mrc_common import children
from mrc_host import compiled

# They replace Python's own. Debug information takes long; NDEBUG and wrapping are what Python's headers count on.
CFLAGS = "-g0 -DNDEBUG -fwrapv -fno-semantic-interposition -include mrc_common/mypyc_cold_paths.h"
# Nearly all of the transport is one file of C: linking compiles its functions, on all cores.
IN_PARTS = "-flto=auto"
LOCK = "lock"
ROOT = Path(compiled.__file__).resolve().parents[1]
BUILD = """
import os, sys
from mypyc.build import mypycify
from setuptools import Extension, setup

target, *flags = sys.argv[1:sys.argv.index("--")]
files = sys.argv[sys.argv.index("--") + 1 :]
python = [file for file in files if file.endswith(".py")]
c = [file for file in files if file.endswith(".c")]
# without the project's settings, which are found only if the environment is inside it
checks = ["--config-file=", "--strict", "--disable-error-code=empty-body"]
extensions = mypycify([*checks, *python], opt_level="2", debug_level="0")
for extension in extensions:
    if extension.name.endswith("__mypyc"):  # with all functions; the others only export a module of it each
        extension.extra_compile_args += flags
        extension.extra_link_args += flags
how = {"include_dirs": ["mrc_common"], "extra_compile_args": ["-O2"]}
extensions += [Extension(file[:-2].replace("/", "."), [file], **how) for file in c]
at_once = str(len(os.sched_getaffinity(0)))
setup(
    name="transport",
    ext_modules=extensions,
    script_args=["build_ext", "--force", "--parallel", at_once, "--build-lib", target],
)
"""


class CompileError(Exception):
    """The transport was not compiled; the message says why."""


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
        for file in (*python, *compiled.extensions(), *compiled.headers()):
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
    shutil.rmtree(scratch / "made", ignore_errors=True)
    files = map(str, (*compiled.sources(), *compiled.extensions()))
    command = children.python_code(BUILD, "made", *flags, "--", *files)
    environment = {**os.environ, "CFLAGS": CFLAGS}
    return children.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)


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
        if other.name == LOCK or other == place:
            continue
        if other.is_dir():
            shutil.rmtree(other, ignore_errors=True)
        else:
            other.unlink(missing_ok=True)


if __name__ == "__main__":
    raise SystemExit(main())
