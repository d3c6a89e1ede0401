"""The registry of faults: each kind in a file of its own, declared once.

A file here declares a kind with its parameters (:mod:`topologies.faults.loss` is a short one). It is found by being
here. Keys of experiment files and their JSON schema, words of ``mrc fault`` and their completion, help, messages to the
controller, ``world.faults`` in simulation and the lines of reports follow from it. What the kind does to a fabric is
its method ``effect``, for both backends. All faults of a fabric together, over time, are the
:mod:`topologies.faults.engine`, which each backend drives.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from mrc_common.suggestions import did_you_mean
from topologies.errors import FabricError
from topologies.faults.kind import DECLARED, BackendKind, Fault, FaultKind, FaultState
from topologies.faults.parameters import FaultPlace, place_of

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def _place(kind: FaultKind) -> tuple[int, str]:
    """Faults of links first, then those of switches and ports, then those that are nowhere."""
    places = list(FaultPlace)
    at = place_of(kind.target.type) if kind.target else None
    return places.index(at) if at else len(places), kind.name


KINDS: Mapping[str, FaultKind] = MappingProxyType({kind.name: kind for kind in sorted(DECLARED.values(), key=_place)})
"""Every kind by name."""


def kind_named(name: str) -> FaultKind:
    """The kind of that name, or that was once called so; FabricError if there is none."""
    for kind in KINDS.values():
        if name == kind.name or name in kind.old:
            return kind
    hint = did_you_mean(name, KINDS, most=1, cutoff=0.6) or f"known are {', '.join(KINDS)}"
    raise FabricError(f"{name[:80]!r} is no kind of fault; {hint}")


def renamed(name: str, kind: FaultKind, now: str = "") -> str:
    """A note for a user of an old name of a kind, which is now `now` or its name; empty for any other name."""
    return f"{name} is called {now or kind.name} now" if name in kind.old else ""


__all__ = ["KINDS", "BackendKind", "Fault", "FaultKind", "FaultState", "kind_named", "renamed"]
