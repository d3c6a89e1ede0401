"""The fabric that a command means: the named one, or that of the host it runs in, or the only one that is up.

A process inside a host of a fabric knows its host: the namespace's cookie is in the records of the run directory. Users
other than root see which fabrics are up (:meth:`RunDirectory.state`), but not what is in a run directory that is not
open to them, and get an error that says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from mrc_lab.errors import ExperimentError
from topologies.emulation.namespaces import cookie
from topologies.emulation.run_directory import DEFAULT_ROOT, FabricState, RunDirectory, existing

_START = "Bring one up with 'sudo mrc up' or 'sudo make run'."


def is_file(given: str) -> bool:
    """Whether a command's argument is a fabric file, not a name."""
    return given.endswith(".yaml")


def name_of(given: str) -> str:
    """The name that a command's argument means: a file's is the one that it says. FabricError if the file is wrong."""
    from topologies import loader

    return loader.load_file(given).name if is_file(given) else given


def the_one(given: Iterable[str], meaning: Callable[[str], str] = name_of) -> str | None:
    """The fabric that all of `given` mean, None if nothing is given.

    ExperimentError when they mean several, or when a name is empty, as that of a variable that is not set: the only
    fabric that is up is not what was meant.
    """
    meant: dict[str, str] = {}
    for word in given:
        if not word:
            raise ExperimentError("the fabric's name is empty: say which, or leave it out")
        meant.setdefault(meaning(word), word)
    if len(meant) > 1:
        raise ExperimentError(f"two fabrics are named, {' and '.join([*meant.values()][:2])}: give one")
    return next(iter(meant), None)


def is_there(name: str, root: Path = DEFAULT_ROOT) -> bool:
    """Whether a fabric of that name is up, or has left something."""
    return name in existing(root)


def find_fabric(name: str | None, root: Path = DEFAULT_ROOT) -> RunDirectory:
    """The fabric of that name (or file), which must be up; else that of the host we are in, or the only one that is up.

    Raises ExperimentError if there is none, or this user may not use it; EmulationError for what is no name.
    """
    name = None if name is None else name_of(name)
    here = this_host(root) if name is None else None
    if here is not None:
        return here[0]
    up = in_state(FabricState.UP, root)
    if name is None:
        if len(up) != 1:
            unseen = in_state(FabricState.UNKNOWN, root)
            if not up and unseen:
                raise _refused(unseen[0], FabricState.UNKNOWN)
            raise ExperimentError("No fabric is up." if not up else "Several fabrics are up.", _hint(up))
        name = up[0]
    run = RunDirectory(name, root)
    state = run.state()
    if state is FabricState.DOWN:
        raise ExperimentError(f"Fabric {name} is not up.", _hint(up))
    if state is FabricState.UNKNOWN or not run.accessible():
        raise _refused(name, state)
    if not run.fabric_file.is_file():
        raise ExperimentError(f"Fabric {name} is still coming up or going down.", "Try again in a moment.")
    return run


def find_controller(name: str | None, root: Path = DEFAULT_ROOT) -> RunDirectory:
    """The same for those who need its controller, which is root's alone."""
    run = find_fabric(name, root)
    if run.controller_socket.exists() and not os.access(run.controller_socket, os.W_OK, effective_ids=True):
        raise _refused(run.name, FabricState.UP)
    return run


def to_take_down(name: str | None, root: Path = DEFAULT_ROOT) -> str:
    """The named fabric, or the only one that is up, or, if none is, the only one of which something is left."""
    if name is not None:
        return RunDirectory(name, root).name
    found = in_state(FabricState.UP, root) or in_state(FabricState.DOWN, root)
    if len(found) == 1:
        return found[0]
    if found:
        raise ExperimentError("Several fabrics are up or left over.", f"Say which: {', '.join(found)}.")
    raise ExperimentError("No fabric is up.")


def in_state(state: FabricState, root: Path = DEFAULT_ROOT) -> tuple[str, ...]:
    """Names of fabrics with a run directory that are in this state."""
    return tuple(name for name in existing(root) if RunDirectory(name, root).state() is state)


def this_host(root: Path = DEFAULT_ROOT) -> tuple[RunDirectory, str] | None:
    """The fabric and the host in whose network namespace this process runs, None if it is in no host's."""
    own = cookie()
    for name in existing(root):
        run = RunDirectory(name, root)
        for host, shell in run.shells().items():
            if shell.namespace == own and "@" not in host:  # else it is a switch that the kernel is
                return run, host
    return None


def _refused(name: str, state: FabricState) -> ExperimentError:
    what = "is up, but belongs to another user" if state is FabricState.UP else "belongs to another user"
    return ExperimentError(f"Fabric {name} {what}.", "Run the same command with sudo.")


def _hint(up: tuple[str, ...]) -> str:
    return f"Choose one with --fabric: {', '.join(up)}." if up else _START
