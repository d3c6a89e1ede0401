"""Build the wheel into dist/: ``make wheel``. It brings the transport compiled for this Python and machine.

auditwheel, if it is on PATH, gives the wheel the oldest manylinux tag that it serves; without it the wheel is for this
system. With --pure nothing is compiled, and the wheel serves every Python. Versions come from pyproject.toml.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from mrc_common import children

ROOT = Path(__file__).resolve().parents[1]


class BuildFailedError(Exception):
    """The wheel was not built; the message says why."""


def build_wheel(folder: Path, *, compiled: bool) -> Path:
    """Build a wheel into `folder` with this interpreter's environment."""
    environment = {**os.environ, "MRC_COMPILE_TRANSPORT": "1" if compiled else "0"}
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", str(folder))
    command = children.python_tool("pip", "wheel", "--quiet", *options, str(ROOT))
    # setuptools would take along what an earlier build left there
    shutil.rmtree(ROOT / "build/lib", ignore_errors=True)
    for left in (ROOT / "build").glob("lib.*"):
        shutil.rmtree(left)
    if children.run(command, env=environment).returncode:
        raise BuildFailedError("pip could not build the wheel")
    (wheel,) = folder.glob("*.whl")
    return wheel


def with_platform(wheel: Path, folder: Path) -> Path:
    """The wheel as auditwheel tags it, in `folder`; as it is if there is no auditwheel."""
    auditwheel = shutil.which("auditwheel")
    if auditwheel is None:
        print("auditwheel is not on PATH: the wheel is for systems like this one.", file=sys.stderr)
        return wheel
    done = children.run((auditwheel, "repair", "--wheel-dir", folder, wheel), capture_output=True, text=True)
    if done.returncode:
        raise BuildFailedError(f"auditwheel refused it: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    (tagged,) = folder.glob("*.whl")
    return tagged


def main() -> int:
    """Build it."""
    parser = argparse.ArgumentParser(prog="make wheel", description="Build the wheel.")
    parser.add_argument("--pure", action="store_true", help="compile nothing")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", metavar="FOLDER")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        try:
            wheel = build_wheel(scratch / "built", compiled=not given.pure)
            if not given.pure:
                wheel = with_platform(wheel, scratch / "tagged")
        except BuildFailedError as error:
            print(f"The wheel was not built: {error}.", file=sys.stderr)
            return 1
        given.into.mkdir(parents=True, exist_ok=True)
        place = shutil.copy(wheel, given.into)
    print(f"{place}: {Path(place).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
