"""The NIC's datapath in C: Python decides and C carries.

The transport in Python decides which packet leaves when and on which path, and what an arrival means. ``native`` does
what is the same for every data packet:

* **Out**: a packet's frame from the header template of its path and class (template.h), and for data its message
  (transmit.h), and its ICRC. In simulation the payload stays where it is (in_place.h).
* **In**: prefix, ICRC and queue pair of every frame (receive.h, flows.h). While a queue pair's responder grants it
  (carrier.h), window, bitmap and placement of its unremarkable packets (placement.h), and SACKs for them (sack.h). When
  a SACK is due, and when it leaves, Python decides; it gets one record a run (``transport.receive_grant``). Of RC, the
  packets in the middle of a message that come in order (rc_carrier.h, ``transport.roce.receive_grant``).

All else takes the way through Python, which is the reference: with and without ``native`` a NIC gives the same answers,
memory and counters for the same packets. ``MRC_DATAPATH=reference`` does without it; its CRC-32 is used everywhere
(``mrc_host.checksum``).
"""

from __future__ import annotations

import os
from types import ModuleType

from mrc_host.errors import InvalidArgumentError

VARIABLE = "MRC_DATAPATH"

_CHOICES = ("native", "reference")


def load() -> ModuleType | None:
    """The module ``native`` for NICs, or None for the reference.

    InvalidArgumentError if the environment asks for what does not exist; CBuildError if the module has to be compiled
    and cannot be.
    """
    chosen = os.environ.get(VARIABLE, "")
    if chosen not in ("", *_CHOICES):
        raise InvalidArgumentError(f"{VARIABLE} is {chosen!r}; set it to one of: {', '.join(_CHOICES)}.")
    if chosen == "reference":
        return None
    from mrc_host.datapath import native

    return native
