"""The datapath in C for tests: compiled with warnings as errors, and Python's own assertions."""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mrc_common.c_build.extension import BuildOptions
from mrc_host import c_modules, datapath


@functools.cache
def native(flags: tuple[str, ...] = ("-O1", "-Werror")) -> ModuleType:
    """The module; a test that needs it is skipped where no extension can be compiled."""
    if which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("there is no C compiler, or python3-dev is missing")
    return c_modules.DATAPATH.load(BuildOptions(flags=flags))


def leaving_all_to_python(module: ModuleType) -> Any:
    """The module, with receivers that carry no packet, as those of a NIC that is traced."""

    def receiver(ports: int, secret: int) -> Any:
        made = module.Receiver(ports, secret)
        made.trace(True)
        return made

    return SimpleNamespace(**{**vars(module), "Receiver": receiver})


@contextmanager
def used(module: Any) -> Iterator[None]:
    """NICs made meanwhile have this datapath."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datapath, "load", lambda: module)
        yield
