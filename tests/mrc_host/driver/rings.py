"""The driver's extensions in C, compiled for a test from their present sources, whether or not the transport is."""

from __future__ import annotations

import functools
import sysconfig
from pathlib import Path
from shutil import which
from types import ModuleType
from typing import Any

import pytest

from mrc_common.c_build.extension import BuildOptions
from mrc_host import c_modules


def compiled_ring() -> Any:
    """The class FrameRing; the test is skipped where nothing can be compiled."""
    return compiled_extension("frame_ring").FrameRing


@functools.cache
def compiled_extension(name: str, flags: tuple[str, ...] = ("-O1", "-Wall", "-Wextra", "-Werror")) -> ModuleType:
    """The module `name` of the driver; the test is skipped where nothing can be compiled."""
    if which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("there is no C compiler, or python3-dev is missing")
    (module,) = (one for one in c_modules.ALL if one.name == f"mrc_host.driver.{name}")
    return module.load(BuildOptions(flags=flags))
