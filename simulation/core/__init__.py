"""The simulation's core in C: the event queue, channels, and ports of switches and NICs.

It does what each frame needs and nobody decides. ``native.pyi`` says what Python may call, ``native.c`` and the headers
beside it how it is done; what is rare and decided is in Python around it: faults (``simulation.faults``), shapes of
channels (``simulation.channel``), captures (``simulation.link_capture``), nodes (``simulation.nodes``).

``import simulation.core.native`` compiles it unless that was done before (``mrc_common.c_build.extension``).
"""

import sys
from pathlib import Path

from mrc_common.c_build.extension import CModule, CModuleFinder
from p4runtime_shim.build import ENGINE_SOURCES

MODULE = CModule("simulation.core.native", Path(__file__).parent / "native.c", (ENGINE_SOURCES,))
sys.meta_path.append(CModuleFinder((MODULE,)))
