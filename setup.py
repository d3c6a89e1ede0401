"""The part of the build that pyproject.toml cannot express: wheels with the transport compiled for their Python.

MRC_COMPILE_TRANSPORT=1 asks for it; `make wheel` and cibuildwheel set it. The compiled modules go into
mrc_host/prebuilt/, where `mrc_host.compiled` finds them, and those that are written in C into
mrc_common/c_build/prebuilt/, where `mrc_common.c_build.extension` does. The wheel is one for this Python and machine.
Otherwise it has no machine code and serves all: what is written in C is then compiled where it is first used. Compiling
takes a C compiler and mypy, in the environment that builds (pip's --no-build-isolation).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
COMPILE = os.environ.get("MRC_COMPILE_TRANSPORT") == "1"


class BuildWithTransport(build_py):
    """Copies the packages, then compiles."""

    def run(self) -> None:
        """As any, and both folders of compiled modules."""
        super().run()
        if COMPILE and not self.editable_mode:
            sys.path.insert(0, str(ROOT))
            from scripts.compile_transport import bring_c_modules, build_into

            built = Path(self.build_lib).resolve()
            build_into(built / "mrc_host/prebuilt")
            bring_c_modules(built / "mrc_common/c_build/prebuilt")


class TransportDistribution(Distribution):
    """One that is for a single Python and machine if the transport is compiled."""

    def has_ext_modules(self) -> bool:
        """Whether it has machine code."""
        return COMPILE


setup(cmdclass={"build_py": BuildWithTransport}, distclass=TransportDistribution)
