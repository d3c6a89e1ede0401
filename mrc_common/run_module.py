"""Run one of our modules in an isolated Python: ``python -I run_module.py MODULE ARGUMENTS...`` (see ``children``).

Started by its path, so it needs no search path to be found. Our packages are those beside this one, whatever is
installed: a child runs the code of its parent. Nothing else beside them is found, so that a ``queue.py`` in a
checkout is as harmless as one in the current folder.

What people start themselves by ``python -m`` has the current folder first in its search path, and calls
:func:`forget_current_folder` before it imports anything else. So this module imports nothing that Python has not
imported by then.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PACKAGES = frozenset(
    {
        "benchmarks",
        "controller",
        "mrc_lab",
        "mrc_common",
        "mrc_host",
        "p4compiler",
        "p4runtime_shim",
        "p4src",
        "scripts",
        "simulation",
        "tests",
        "topologies",
    }
)


class OurPackages:
    """A meta path finder for our packages in `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = [folder]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where one of our packages is; None for everything else, their modules too, which Python then finds."""
        return PathFinder.find_spec(name, self._folder) if name in PACKAGES else None


def find_our_packages() -> None:
    """From now on our packages are those beside this one."""
    sys.meta_path.insert(0, OurPackages(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def forget_current_folder() -> None:
    """Look no module up any more in the folder that ``python -m`` has put first, be our packages in it or not."""
    find_our_packages()
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):  # it was not put there
        del sys.path[0]


def end_without_collecting() -> None:
    """When this process ends, let the kernel take its memory instead of having Python search all of it for garbage.

    The search is up to a quarter of the processor time of a process that starts and stops. Everything that has to be
    closed is closed by its owner, so nothing waits for the garbage collector.
    """
    import atexit
    import gc

    atexit.register(gc.freeze)


def open_standard_streams() -> None:
    """Have standard input, output and error be ``/dev/null`` where this process was started without them (``<&-``).

    The next files that are opened would get their numbers otherwise: a socket that children read and write then.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if not _is_open(number):
            assert os.open(os.devnull, os.O_RDWR) == number, "it is the lowest that is free"
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode))  # noqa: SIM115 (until this process ends)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def report_crashes() -> None:
    """From now on print where all threads were, if C code crashes or somebody aborts this process."""
    import faulthandler

    if sys.stderr is not None:
        faulthandler.enable()


def main() -> None:
    """Run the module that the command line names as ``__main__``, with the words after it as its arguments."""
    import runpy

    find_our_packages()
    report_crashes()
    end_without_collecting()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
