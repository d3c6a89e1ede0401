"""The modules of this package that are written in C: the NIC's datapath, and the fast parts of its driver.

They are imported like all others, in every process (``mrc_common.c_build.extension`` says where they come from), and
have their types in files of the same name that end in ``.pyi``.
"""

from __future__ import annotations

from pathlib import Path

from mrc_common.c_build.extension import CModule, CModuleFinder

_PACKAGE = Path(__file__).parent

DATAPATH = CModule("mrc_host.datapath.native", _PACKAGE / "datapath" / "native.c")
EVENT_WAIT = CModule("mrc_host.driver.event_wait", _PACKAGE / "driver" / "event_wait.c")
FRAME_RING = CModule("mrc_host.driver.frame_ring", _PACKAGE / "driver" / "frame_ring.c")
SOCKET_RING = CModule("mrc_host.driver.socket_ring", _PACKAGE / "driver" / "socket_ring.c")
ALL = (DATAPATH, EVENT_WAIT, FRAME_RING, SOCKET_RING)
FINDER = CModuleFinder(ALL)  # ``mrc_host`` asks it
