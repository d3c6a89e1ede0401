"""The simulation's core in C: the event queue, channels, and ports of switches and NICs.

It does what each frame needs and nobody decides. ``native.pyi`` says what Python may call (``core.Clock()``,
``core.Channel(...)`` ...), ``native.c`` and the headers beside it how it is done; what is rare and decided is in Python
around it: faults (``simulation.faults``), shapes of channels (``simulation.channel``), captures
(``simulation.link_capture``), nodes (``simulation.nodes``).

The extension is compiled when something of it is used first, and cached like the embedded switch.
"""

from __future__ import annotations

import functools
import importlib.util
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from p4runtime_shim.build import ENGINE_SOURCES, SHARED_HEADERS, build_extension
from p4runtime_shim.errors import SwitchError
from simulation.errors import SimulationError

if TYPE_CHECKING:
    from simulation.core.native import END_OF_TIME as END_OF_TIME
    from simulation.core.native import Channel as Channel
    from simulation.core.native import Clock as Clock
    from simulation.core.native import NicPorts as NicPorts
    from simulation.core.native import SwitchPorts as SwitchPorts
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = globals()[name] = getattr(load(), name)
        return found


SOURCE = Path(__file__).parent / "native.c"
_NAME = f"{__name__}.native"


@functools.cache
def load() -> ModuleType:
    """The extension. SimulationError, one sentence, where it cannot be compiled."""
    try:
        path = build_extension("simcore", SOURCE, (ENGINE_SOURCES, SHARED_HEADERS))
        spec = importlib.util.spec_from_loader(_NAME, ExtensionFileLoader(_NAME, str(path)))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except (SwitchError, ImportError) as error:
        raise SimulationError(f"There is no simulation without a C compiler and Python's headers: {error}.") from None
    return module
