"""Starting processes: the one place, so that nothing in the current folder or in variables gets in.

Python looks for modules in the current folder (``-m``, ``-c``) and where ``PYTHONPATH`` says, before its own library.
So ``mrc up`` in a folder with somebody's ``queue.py`` would run that file, as root. Our Python children therefore run
isolated (``python -I``, which also leaves out the user's own site-packages), through a small file,
``run_module.py``, that finds our packages where the parent's are, installed or not, and nothing else there.

For every child, Python or not, the environment is cleaned: variables that make the loader, the C compiler or
Python take code from elsewhere are left out, and so are parts of PATH that depend on the current folder. Everything
else is handed on (SUDO_USER, XDG_CACHE_HOME, proxies, ...).

A test refuses any other way to start a process in the project's own code. Shells that Mininet opens for users keep
the user's environment: what is typed there is the user's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

_RUN_MODULE = str(Path(__file__).resolve().with_name("run_module.py"))
# Prefixes, or whole names: of Python, of ld.so(8), of gcc(1) ("Environment Variables Affecting GCC").
_PREFIXES = ("PYTHON", "LD_")
_NAMES = frozenset(
    {"COMPILER_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "GCONV_PATH", "LIBRARY_PATH"}
)


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Command line of one of our modules, as ``python -m module arguments`` but isolated."""
    return (sys.executable, "-I", _RUN_MODULE, module, *arguments)


def python_code(code: str, *arguments: str) -> tuple[str, ...]:
    """Command line of a piece of Python, isolated; it finds installed packages alone."""
    return (sys.executable, "-I", "-c", code, *arguments)


def python_tool(module: str, *arguments: str) -> tuple[str, ...]:
    """Command line of an installed tool such as pip, as ``python -m module arguments`` but isolated."""
    return (sys.executable, "-I", "-m", module, *arguments)


def user_script(script: str, *arguments: str) -> tuple[str, ...]:
    """Command line of a user's own Python program: as ``python SCRIPT``, which looks beside the script for modules."""
    return (sys.executable, script, *arguments)


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """`variables` (None: this process's) without what would let a child take code from elsewhere."""
    variables = os.environ if variables is None else variables
    kept = {name: value for name, value in variables.items() if not name.startswith(_PREFIXES) and name not in _NAMES}
    if "PATH" in kept:
        kept["PATH"] = search_path(kept["PATH"])
    return kept


def search_path(path: str) -> str:
    """A PATH without the parts that depend on the current folder."""
    return os.pathsep.join(part for part in path.split(os.pathsep) if os.path.isabs(part))


def secure_search_path() -> None:
    """Look no command up in the current folder from now on, here and in whatever Mininet starts."""
    if "PATH" in os.environ:
        os.environ["PATH"] = search_path(os.environ["PATH"])


def popen(command: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
    """Start a process, as subprocess.Popen does; `env` gives variables instead of this process's."""
    return subprocess.Popen(list(map(str, command)), **_cleaned(options))


def run(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a process to its end, as subprocess.run does; `env` gives variables instead of this process's."""
    return subprocess.run(list(map(str, command)), **_cleaned(options))


async def start(command: Sequence[str | Path], **options: Any) -> asyncio.subprocess.Process:
    """Start a process, as asyncio.create_subprocess_exec does; `env` gives variables instead of this process's."""
    import asyncio  # takes a fifth of the time that Python needs to start, and most who start processes do without

    return await asyncio.create_subprocess_exec(*map(str, command), **_cleaned(options))


def _cleaned(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "env": environment(options.get("env"))}
