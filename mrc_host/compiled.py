"""The transport compiled to machine code: the same sources, less than half the CPU time per packet.

``scripts/compile_transport.py`` (run by the installer) compiles ``nic.py``, ``transport/``, ``wire/``, ``driver/`` and
what of the agent each message passes (``sources``) with mypyc into the virtual environment, under a hash of these
sources. (Modules that are written in C are there with either version: ``mrc_host.c_modules``.) A process that
wants the compiled modules calls ``use`` before it imports any of them: the agent, ``mrc`` and the swarm do. All other
processes, such as tests and debuggers, get the plain modules.

A wheel may bring compiled modules in ``prebuilt/``, for the Python and the sources that it has; they serve where
nothing else was compiled.

After a source has changed, its hash matches no folder, so the plain modules are used until the sources are compiled
again: ``make`` does that before it runs anything, and ``mrc`` prints that it is due (``outdated``). ``mrc`` does not
compile by itself: it takes a minute or two, which someone editing the transport may not want to wait for, and the
environment may belong to another user. Both versions must behave alike; a test runs the transport's tests on both.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import mrc_common

_PACKAGE = Path(__file__).parent
_PREBUILT = _PACKAGE / "prebuilt"  # of a wheel
_PLAIN = Path("driver/packet_port.py")  # passes addresses of its variables to the kernel
_DONE = "complete"  # a file that is written last
INCLUDED = Path(mrc_common.__file__).with_name("mypyc_cold_paths.h")
"""What each file that mypyc writes includes."""


def sources() -> list[Path]:
    """Files that are compiled, relative to the folder with the package in it."""
    folders = [_PACKAGE / "transport", _PACKAGE / "wire", _PACKAGE / "driver"]
    files = [file for folder in folders for file in folder.rglob("*.py") if file.name != "__init__.py"]
    files = [file for file in files if file.relative_to(_PACKAGE) != _PLAIN]
    single = ("nic.py", "agent/session.py", "agent/server.py", "verbs/remote/protocol.py")
    return sorted(file.relative_to(_PACKAGE.parent) for file in (*(_PACKAGE / name for name in single), *files))


def folder(prefix: Path | None = None) -> Path:
    """Folder for the compiled modules of these sources; `prefix` is that of the Python environment (None: this one)."""
    name = _digest(f"{sys.version} {sysconfig.get_config_var('SOABI')}")
    return (prefix or Path(sys.prefix)) / "compiled" / name


def _digest(python: str) -> str:
    """Stands for all sources that decide what compiling them gives, and for a Python."""
    digest = hashlib.sha256(python.encode())
    types = [path.relative_to(_PACKAGE.parent) for path in sorted(_PACKAGE.glob("*.py"))]
    for path in sorted({*sources(), *types}):
        digest.update(f"\0{path}\0".encode() + (_PACKAGE.parent / path).read_bytes())
    digest.update(INCLUDED.read_bytes())
    return digest.hexdigest()[:24]


def seal(place: Path) -> None:
    """Mark a folder as complete: from now on it may be used, by a wheel's Python if the wheel brings it."""
    (place / _DONE).write_text(_digest(_abi()))


def available() -> bool:
    """Whether these sources are compiled."""
    return _place() is not None


def _place() -> Path | None:
    """Where these sources are compiled for this Python, None if they are not."""
    own = folder()
    if (own / _DONE).exists():
        return own
    try:
        brought = (_PREBUILT / _DONE).read_text()
    except OSError:
        return None
    return _PREBUILT if brought == _digest(_abi()) else None


def _abi() -> str:
    """Pythons with the same take the same machine code."""
    return str(sysconfig.get_config_var("SOABI"))


def outdated() -> str | None:
    """Message to print if other sources than these were compiled last; None if these were, or none ever."""
    if available() or not any((Path(sys.prefix) / "compiled").glob(f"*/{_DONE}")):
        return None
    return (
        "The transport has changed since it was compiled, so it runs as plain Python, at several times the CPU:"
        " 'make install' compiles it again."
    )


def in_use() -> bool:
    """Whether this process imports the compiled modules; the processes it starts should do the same."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def use() -> bool:
    """Import the compiled modules from now on; False, without any effect, if these sources are not compiled.

    RuntimeError when one of them was already imported plain: the two versions cannot be mixed.
    """
    if in_use():
        return True
    place = _place()
    if place is None:
        return False
    finder = _Finder(place)
    imported = sorted(name for name in finder.names & sys.modules.keys() if not finder.has_loaded(name))
    if imported:
        raise RuntimeError(f"Too late to use the compiled transport: {imported[0]} was imported before.")
    sys.meta_path.insert(0, finder)
    return True


class _Finder:
    """A meta path finder of extension modules in a folder, where they lie as their sources do in the package."""

    def __init__(self, place: Path) -> None:
        suffix = EXTENSION_SUFFIXES[0]
        files = place.rglob(f"*{suffix}")
        self._files = {".".join(file.relative_to(place).parts)[: -len(suffix)]: file for file in files}

    @property
    def names(self) -> set[str]:
        """Names of the modules."""
        return set(self._files)

    def has_loaded(self, name: str) -> bool:
        """Whether the module of this name that is imported is ours; what has no plain version may be, at any time."""
        return getattr(sys.modules[name], "__file__", None) == str(self._files[name])

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is, if it is one of ours."""
        file = self._files.get(fullname)
        return None if file is None else spec_from_file_location(fullname, file)
