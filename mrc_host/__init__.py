"""A software MRC NIC: wire formats, transport, device, verbs and the raw-socket host agent.

Read in this order: ``values`` and ``config`` (data passed between all layers), ``wire`` (bytes), ``transport``
(requester, responder, paths), ``nic`` (the device made of these), then ``verbs`` above it and ``driver`` below it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _CModules:
    """Finds the modules written in C (``c_modules``), when nothing else has found a module of this package.

    ``python -m mrc_host.agent`` imports this file while the current folder is still searched first, so it imports
    nothing that Python has not imported by then.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("mrc_host."):
            return None
        from mrc_host.c_modules import FINDER

        return FINDER.find_spec(name, path, target)


sys.meta_path.append(_CModules())
