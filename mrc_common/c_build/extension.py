"""Modules of Python that are written in C: brought by the installation, or compiled when they are first imported.

A package that has some lists them and appends a ``CModuleFinder`` to ``sys.meta_path``; then they are imported like
any other module. One that a wheel or the installer has brought is used if it was made from these sources for this
Python: its file name has a hash of both. Otherwise it is compiled into the user's cache, which takes a C compiler,
Python's headers and a second or three. So an edited source is in use at the next start.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import mrc_common
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.shared_object import BuildOptions, cached, compile_shared, digest

OPTIMISED = BuildOptions(flags=("-O2", "-DNDEBUG", "-fwrapv"))  # what Python's own headers count on
_SHARED_HEADERS = Path(mrc_common.__file__).parent
_WHEEL = Path(__file__).parent / "prebuilt"  # setup.py fills it


def installed_folder() -> Path:
    """Where the installer puts modules for all users of this Python environment."""
    return Path(sys.prefix) / "compiled" / "c"


@dataclass(frozen=True)
class CModule:
    """A module by its full name, the file of C, and folders with headers beside that file's and mrc_common's."""

    name: str
    source: Path
    include: tuple[Path, ...] = ()

    def path(self, options: BuildOptions = OPTIMISED) -> Path:
        """The extension: prebuilt, or compiled unless the cache has it. Raises CBuildError."""
        brought = self._prebuilt() if options == OPTIMISED else None
        return brought or self._compiled(options)

    def load(self, options: BuildOptions = OPTIMISED) -> ModuleType:
        """A module object of its own, which is not in ``sys.modules``. Raises CBuildError, ImportError."""
        return load_extension(self.name, self.path(options))

    def build_into(self, folder: Path) -> None:
        """Have a wheel or an installation bring it in `folder`. Raises CBuildError, OSError."""
        target = folder / self._prebuilt_name()
        if target.exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as scratch:
            copy = Path(scratch, target.name)
            shutil.copyfile(self._compiled(OPTIMISED), copy)
            copy.replace(target)
        for old in folder.glob(f"{self.name}-*.so"):
            if old != target:
                old.unlink()

    def _prebuilt(self) -> Path | None:
        name = self._prebuilt_name()
        return next((place for folder in (_WHEEL, installed_folder()) if (place := folder / name).exists()), None)

    def _prebuilt_name(self) -> str:
        return f"{self.name}-{digest(self._files(), _abi())}.so"

    def _compiled(self, options: BuildOptions) -> Path:
        headers = sysconfig.get_path("include")
        if not Path(headers, "Python.h").is_file():
            raise CBuildError("the headers of Python are missing; try: apt install python3-dev")
        target = cached(f"{self.name}-{options.digest(self._files(), _abi(), sys.version)}")
        return compile_shared(target, [str(self.source), *(f"-I{f}" for f in (headers, *self._folders()))], options)

    def _folders(self) -> tuple[Path, ...]:
        return (*self.include, _SHARED_HEADERS)

    def _files(self) -> list[Path]:
        """Source and headers."""
        folders = (self.source.parent, *self._folders())
        return [self.source, *(header for folder in folders for header in sorted(folder.glob("*.h")))]


def load_extension(name: str, path: os.PathLike[str] | str) -> ModuleType:
    """The module `name` in a shared object, which is not put into ``sys.modules``. Raises ImportError."""
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    known = sys.modules.pop(name, None)
    try:
        module = module_from_spec(spec)  # which puts it there
        spec.loader.exec_module(module)
    finally:
        sys.modules.pop(name, None)
        if known is not None:
            sys.modules[name] = known
    return module


class CModuleFinder:
    """A meta path finder of such modules. Importing one raises CBuildError if it has to be compiled and cannot be."""

    def __init__(self, modules: Iterable[CModule]) -> None:
        self._modules = {module.name: module for module in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is, if it is one of ours."""
        module = self._modules.get(fullname)
        return None if module is None else spec_from_file_location(fullname, module.path())


def _abi() -> str:
    """Pythons with the same take the same machine code."""
    return str(sysconfig.get_config_var("SOABI"))
