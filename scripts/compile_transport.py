"""Compile the transport with mypyc for the Python that runs this; does nothing when these sources are compiled.

The installer runs it. Without a C compiler, or when something else is in the way, it says so in one line and returns 1:
the NIC then runs as plain Python, at more than twice the CPU a packet.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from mrc_common import children
from mrc_host import compiled

ROOT = Path(compiled.__file__).resolve().parents[1]
BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup

extensions = mypycify(["--strict", *sys.argv[2:]], opt_level="1")
setup(name="transport", ext_modules=extensions, script_args=["build_ext", "--build-lib", sys.argv[1]])
"""


class CompileError(Exception):
    """The transport was not compiled; the sentence says why."""


def compile_transport(place: Path) -> None:
    """Compile the sources into the folder `place`; CompileError when that does not work."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="making-") as name:
        scratch = Path(name)
        for file in (ROOT / "mrc_host").rglob("*.py"):  # mypyc writes beside the sources and where it is run
            copy = scratch / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        command = children.python_code(BUILD, "made", *map(str, compiled.sources()))
        environment = {**os.environ, "CFLAGS": "-g0"}  # debug information takes long
        done = children.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
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


def main() -> int:
    """Compile what is not compiled yet, and remove what was compiled from earlier sources."""
    place = compiled.folder()
    if compiled.available():
        return 0
    try:
        compile_transport(place)
    except (CompileError, OSError) as error:
        print(f"The transport was not compiled, so it runs as plain Python: {error}", file=sys.stderr)
        return 1
    for other in place.parent.iterdir():
        if other != place:
            shutil.rmtree(other, ignore_errors=True)
    (place.parent / "failed.log").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
