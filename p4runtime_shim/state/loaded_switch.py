"""The switch that a program is loaded in, as the parts of its state share it: the engine's handle, ports, and a lock.

The engine has its own mutex; the lock keeps the copies that the parts have for reads consistent with it, so their
methods may be called from any thread while packets move.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from p4runtime_shim.ctypes_bindings import Engine
from p4runtime_shim.errors import NotFound


class LoadedSwitch:
    """`handle` changes when two switches swap programs; `loaded` is False once the program was removed."""

    def __init__(self, native: Engine, handle: int, ports: Sequence[int]) -> None:
        self.library = native.library
        self.handle = handle
        self.ports = tuple(ports)
        self.lock = threading.RLock()
        self.loaded = False


class _Part(Protocol):
    switch: LoadedSwitch


_S = TypeVar("_S", bound=_Part)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def locked(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """A method of a part of a program's state: it runs under the lock, and raises NotFound without the program."""

    @functools.wraps(method)
    def call(part: _S, /, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        with part.switch.lock:
            if not part.switch.loaded:
                raise NotFound("no program is loaded")
            return method(part, *arguments, **keywords)

    return call
