"""The shared-memory rings of a NIC: from an agent's command line, or from the process that made them.

A fabric with rings whose hosts have no agents (``mrc up --wire ring --own-nic``) leaves a file beside the NIC's
configuration: which process has the rings, and by which descriptors. An application that runs the NIC copies these.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mrc_common.copied_descriptors import copied
from mrc_common.frame_rings import FrameRingError, RingEnd
from mrc_host.driver.packet import NicDriverError

if TYPE_CHECKING:
    from mrc_host.driver.frame_ring import FrameRing

SUFFIX = ".rings"  # of the file beside the configuration


def opened(ends: Mapping[str, RingEnd]) -> dict[str, FrameRing]:
    """The rings of interfaces. FrameRingError for what is no ring, NicDriverError where rings are not compiled."""
    if not ends:
        return {}
    try:
        from mrc_host.driver.frame_ring import FrameRing
    except ImportError:
        raise NicDriverError("Rings need the compiled transport: run 'make install'.") from None
    return {name: FrameRing(end.map(), end.receiving, end.bell, end.other_bell) for name, end in ends.items()}


def offered(ends: Mapping[str, RingEnd]) -> str:
    """What the file says of this process's rings."""
    return json.dumps({"pid": os.getpid(), "rings": {name: str(end) for name, end in ends.items()}})


def found(config: Path, stack: ExitStack) -> dict[str, RingEnd]:
    """The rings offered beside a configuration, none without a file; `stack` closes their descriptors.

    FrameRingError if the file does not say what `offered` does, or the process that has the rings is gone.
    """
    file = config.with_suffix(SUFFIX)
    if not file.exists():
        return {}
    try:
        offer = json.loads(file.read_text())
        pid, texts = int(offer["pid"]), {str(name): str(text) for name, text in offer["rings"].items()}
    except (OSError, ValueError, OverflowError, TypeError, AttributeError, LookupError) as error:
        raise FrameRingError(f"{file} does not say who has the rings ({error}).") from None
    return {name: _copied(pid, RingEnd.parse(text), stack) for name, text in texts.items()}


def _copied(pid: int, end: RingEnd, stack: ExitStack) -> RingEnd:
    copies = []
    for descriptor in end.descriptors:
        try:
            copies.append(copied(pid, descriptor))
        except (OSError, OverflowError) as error:
            raise FrameRingError(f"Process {pid}, the fabric's owner, does not give its rings ({error}).") from None
        stack.callback(os.close, copies[-1])
    memory, bell, other_bell = copies
    return RingEnd(memory, bell, other_bell, end.receiving)
