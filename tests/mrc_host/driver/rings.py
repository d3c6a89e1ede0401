"""The driver's extensions in C, compiled for a test from their present sources, whether or not the transport is."""

from __future__ import annotations

import functools
import sysconfig
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from shutil import which
from types import ModuleType
from typing import Any

import pytest

import mrc_common
from mrc_host import compiled
from p4runtime_shim.build import SHARED_HEADERS, BuildOptions, build_extension

_ROOT = Path(mrc_common.__file__).parents[1]


def compiled_ring() -> Any:
    """The class FrameRing; the test is skipped where nothing can be compiled."""
    return compiled_extension("frame_ring").FrameRing


@functools.cache
def compiled_extension(name: str, flags: tuple[str, ...] = ("-O1", "-Wall", "-Wextra", "-Werror")) -> ModuleType:
    """The module `name` of the driver; the test is skipped where nothing can be compiled."""
    if which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("there is no C compiler, or python3-dev is missing")
    (source,) = (path for path in compiled.extensions() if path.name == f"{name}.c")
    made = build_extension(name, _ROOT / source, (SHARED_HEADERS,), options=BuildOptions(flags=flags))
    full_name = f"mrc_host.driver.{name}"
    spec = spec_from_loader(full_name, ExtensionFileLoader(full_name, str(made)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
