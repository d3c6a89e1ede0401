"""Plugins: congestion controls, path selections and workloads in Python files of the user's (docs/extending.md).

A plugin file registers what it has with the decorators of this module. :func:`load` runs it; that is the only way in:
the operator names the file on a command line or in an experiment, or installs a package with an entry point of the
group ``mrc_testbed.plugins``, whose module is then named instead of a file. Nothing that a client or a peer sends can
name one. What is registered is known to every NIC that this process creates afterwards.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from mrc_common import named_files
from mrc_common.file_owners import exposed_part
from mrc_host.errors import InvalidArgumentError, MrcError
from mrc_host.transport.algorithms import ALGORITHMS, Algorithm
from mrc_host.transport.congestion import CongestionControl, LinkParameters
from mrc_host.transport.path_selection import PathSelection

_MAX_BYTES = 4 << 20  # of a plugin

GROUP = "mrc_testbed.plugins"
Controller = TypeVar("Controller", bound=type[CongestionControl])
Selection = TypeVar("Selection", bound=type[PathSelection])
Function = TypeVar("Function", bound=Callable[..., Any])

_CALLS: Final[dict[type, dict[str, tuple[str, str]]]] = {  # arguments, and those that are not always there
    CongestionControl: {
        "on_ack": ("acked, received, rtt, marked, now", "penalty, restore"),
        "on_base_rtt": ("base, mean", ""),
        "on_trim": ("size, now, rtt", ""),
        "on_loss": ("size, now", ""),
        "on_timeout": ("now, size", ""),
        "on_send": ("size, now", ""),
        "on_cnp": ("now", ""),
        "earliest_send": ("now", ""),
    },
    PathSelection: {
        "choose": ("plane, paths", ""),
        "on_ack": ("path, rtt, marked", ""),
        "on_trim": ("path", ""),
        "on_loss": ("path", ""),
        "on_false_loss": ("path", ""),
        "on_unusable": ("path", ""),
    },
}

CONGESTION_CONTROLS: dict[str, Algorithm] = {}
PATH_SELECTIONS: dict[str, Callable[[], PathSelection]] = {}
WORKLOADS: dict[str, Callable[..., Any]] = {}
_origin: dict[tuple[str, str], str] = {}  # kind and name -> file that registered it
_loaded: dict[str, str] = {}  # file -> hash of what was run
_loading: list[str] = []


class PluginError(MrcError):
    """A plugin cannot be used; the message names it, and the line where there is one."""


def congestion_control(
    name: str, *, shared: bool = False, mrc: bool = True, rc: bool = True
) -> Callable[[Controller], Controller]:
    """Register a subclass of CongestionControl, whose constructor takes a LinkParameters, under `name`.

    With `shared`, one controller serves all MRC queue pairs to a destination. `mrc` and `rc` say for which types of
    queue pair it is.
    """

    def register(cls: Controller) -> Controller:
        _check_class("congestion control", name, cls, CongestionControl)
        if name in ALGORITHMS:
            raise PluginError(f"There is a built-in congestion control {name!r}: choose another name.")

        def make(link: LinkParameters) -> CongestionControl:
            made: CongestionControl = _make("congestion control", name, cls, link)
            try:
                whole = isinstance(made.cwnd, int) and isinstance(made.inflight, int)
            except AttributeError:
                whole = False
            if not whole:
                raise PluginError(
                    f"The congestion control {name!r} has no window: __init__ calls super().__init__(window), in bytes."
                )
            return made

        _register("congestion control", name)
        CONGESTION_CONTROLS[name] = Algorithm(make, shared=shared, mrc=mrc, rc=rc)
        return cls

    return register


def path_selection(name: str) -> Callable[[Selection], Selection]:
    """Register a subclass of PathSelection, whose constructor takes nothing, under `name`."""

    def register(cls: Selection) -> Selection:
        _check_class("path selection", name, cls, PathSelection)
        _register("path selection", name)
        PATH_SELECTIONS[name] = cls
        return cls

    return register


def workload(name: str) -> Callable[[Function], Function]:
    """Register a function that returns the operations of a schedule, for the workload ``kind: own``."""

    def register(function: Function) -> Function:
        if not callable(function):
            raise PluginError(f"The workload {name!r} is no function.")
        _register("workload", name)
        WORKLOADS[name] = function
        return function

    return register


def make_path_selection(name: str) -> PathSelection:
    """A new selection; InvalidArgumentError if there is none of that name."""
    if name not in PATH_SELECTIONS:
        known = ", ".join(map(repr, PATH_SELECTIONS)) or "none: name a plugin that has it"
        raise InvalidArgumentError(f"Unknown path selection {name!r}; there is {known}.")
    made: PathSelection = _make("path selection", name, PATH_SELECTIONS[name])
    return made


def load(plugin: str | Path) -> str:
    """Run a plugin, once for each content of its file; returns its absolute path, or the name of its entry point.

    A word without a slash or ``.py`` is the name of an entry point. Raises PluginError.
    """
    name = str(plugin)
    if "/" not in name and not name.endswith(".py"):
        return _load_installed(name)
    path = os.path.realpath(name)
    try:
        source = named_files.read_bytes(path, _MAX_BYTES)
    except OSError as error:
        raise PluginError(f"The plugin {name} cannot be read: {error.strerror}.") from None
    _check_writers(name, Path(path))
    digest = hashlib.sha256(source).hexdigest()
    if _loaded.get(path) == digest:
        return path
    module_name = f"mrc_plugin_{hashlib.sha256(path.encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_loader(module_name, loader=None, origin=path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = path
    sys.modules[module_name] = module  # dataclasses look there
    before = _registered()
    _loading.append(path)
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except Exception as error:
        raise PluginError(f"The plugin {name}{_line(error, path)} cannot be loaded: {_what(error)}") from error
    finally:
        _loading.pop()
    if _registered() == before and path not in _loaded:
        raise PluginError(
            f"The plugin {name} registers nothing: use congestion_control, path_selection or workload of"
            " mrc_host.plugins as a decorator."
        )
    _loaded[path] = digest
    return path


def _check_writers(name: str, file: Path) -> None:
    """Root runs no file that somebody else may change; whoever has become root with sudo is nobody else."""
    if os.geteuid() != 0:
        return
    given = os.environ.get("SUDO_UID", "")
    exposed = exposed_part(file, (int(given),) if given.isdecimal() else ())
    if exposed is None:
        return
    part, who = exposed
    what = f"The plugin {name}" if part == file else f"{part}, a folder of the plugin {name},"
    if who.startswith("user "):
        raise PluginError(f"{what} belongs to {who}, so root does not run it: chown root {part}")
    mode = "o-w" if who == "everybody" else "g-w"
    raise PluginError(f"{what} is writable for {who}, so root does not run it: chmod {mode} {part}")


def is_from_plugin(error: BaseException) -> bool:
    """Whether a plugin has raised `error`, or something that it called."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename in _loaded:
            return True
        step = step.tb_next
    return False


def failure(error: BaseException) -> str | None:
    """What to print if `error` was raised in a plugin: its name, the line, and the traceback; None if it was not."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename in _loaded]
    if not own:
        return None
    last = own[-1]
    trace = "".join(traceback.format_exception(error)).rstrip()
    return f"the plugin {last.filename}, line {last.lineno}, failed in {last.name}: {_what(error)}\n{trace}"


def suspected(error: BaseException) -> str:
    """What to print if `error`, which is no message for users, was not raised in a plugin, but some are in use.

    A value of the wrong type that a plugin returns, or sets, is noticed where it is used.
    """
    names = ", ".join(sorted(_loaded))
    trace = "".join(traceback.format_exception(error)).rstrip()
    return f"{_what(error)}; does one of the plugins return or set something else than it should? ({names})\n{trace}"


def in_use() -> bool:
    """Whether this process has loaded any plugin."""
    return bool(_loaded)


def _make(kind: str, name: str, cls: Callable[..., Any], *arguments: object) -> Any:
    """An object of a plugin's class; PluginError with the line if that fails."""
    try:
        return cls(*arguments)
    except PluginError:
        raise
    except Exception as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _loaded]
        where = f" of the plugin {own[-1].filename}, line {own[-1].lineno}," if own else ""
        raise PluginError(f"The {kind} {name!r}{where} cannot be made: {_what(error)}") from error


def _load_installed(name: str) -> str:
    from importlib.metadata import entry_points  # takes a tenth of an agent's start, and few name an entry point

    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        known = ", ".join(sorted(entry.name for entry in entry_points(group=GROUP))) or "none"
        raise PluginError(f"No plugin {name} is installed (there is {known}); a file's name ends in .py.")
    _loading.append(name)
    try:
        module = found[0].load()
    except Exception as error:
        raise PluginError(f"The plugin {name} cannot be loaded: {_what(error)}") from error
    finally:
        _loading.pop()
    if file := getattr(module, "__file__", None):
        _loaded[file] = ""
    return name


def _check_class(kind: str, name: str, cls: object, base: type) -> None:
    if not isinstance(cls, type) or not issubclass(cls, base):
        raise PluginError(f"The {kind} {name!r} is no subclass of {base.__module__}.{base.__name__}.")
    for call, (always, sometimes) in _CALLS[base].items():
        method = inspect.getattr_static(cls, call)
        if method is inspect.getattr_static(base, call):
            continue
        for given in (always, f"{always}, {sometimes}" if sometimes else always):
            if not _accepts(method, given.split(", ")):
                raise PluginError(f"The {kind} {name!r} has {call}, but it cannot be called as {call}({given}).")


def _accepts(method: object, arguments: list[str]) -> bool:
    """Whether what a class has under the name of a method can be called with these, beside the object."""
    if not callable(method):  # a static method or the like, which is called with whatever it is called with
        return isinstance(method, (staticmethod, classmethod))
    try:
        inspect.signature(method).bind(None, *arguments)
    except TypeError:
        return False
    except ValueError:  # there is no signature
        return True
    return True


def _register(kind: str, name: str) -> None:
    if not name or not isinstance(name, str):
        raise PluginError(f"A {kind} needs a name.")
    here = _loading[-1] if _loading else "this program"
    there = _origin.setdefault((kind, name), here)
    if there != here:
        raise PluginError(f"There is a {kind} {name!r} already, from {there}: choose another name.")


def _registered() -> int:
    return len(_origin)


def _line(error: Exception, path: str) -> str:
    if isinstance(error, SyntaxError) and error.filename == path:
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f", line {lines[-1]}," if lines else ""


def _what(error: BaseException) -> str:
    return str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
