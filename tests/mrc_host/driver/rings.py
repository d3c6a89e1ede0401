"""The driver's extensions in C, compiled for a test, whether or not the transport is."""

from __future__ import annotations

import subprocess
import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mrc_common
from mrc_host import compiled


def compiled_ring(folder: Path) -> Any:
    """The class FrameRing; the test is skipped where nothing can be compiled."""
    return compiled_extension("frame_ring", folder).FrameRing


def compiled_extension(name: str, folder: Path) -> ModuleType:
    """The module `name` of the driver; the test is skipped where nothing can be compiled."""
    root = Path(mrc_common.__file__).parents[1]
    (source,) = (path for path in compiled.extensions() if path.name == f"{name}.c")
    made = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    headers = [word for path in (sysconfig.get_path("include"), root / "mrc_common") for word in ("-I", str(path))]
    command = [
        "cc",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        *headers,
        "-o",
        str(made),
        str(root / source),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    if "Python.h" in done.stderr:
        pytest.skip("the headers of Python are missing: apt install python3-dev")
    assert done.returncode == 0, done.stderr
    spec = spec_from_file_location(f"mrc_host.driver.{name}", made)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
