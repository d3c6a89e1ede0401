"""The NIC's datapath in C: Python decides and C carries.

The transport in Python decides which packet leaves when and on which path, and what an arrival means. ``native`` does
what is the same for every packet:

* **Out**: a packet's frame from the header template of its path and class (template.h), and for data its message
  (transmit.h), and its ICRC (icrc.h). In simulation the payload stays where it is (in_place.h).
* **In**: prefix (prefixes.h, flows.h), ICRC and queue pair of every frame (receive.h). While a queue pair's responder
  grants it (carrier.h), window, bitmap and placement of its unremarkable packets (placement.h), and SACKs for them
  (sack.h). When a SACK is due, and when it leaves, Python decides; it gets one record a run
  (``transport.receive_grant``). Of RC, the packets in the middle of a message that come in order (rc_carrier.h,
  ``transport.roce.receive_grant``).

Small models of the frames, in Python, are the oracles of its tests (``tests/models/``).
"""

from __future__ import annotations

from typing import Any

carries = True
"""Whether new NICs have it carry packets; tests compare them with NICs whose Python takes each one."""


def load() -> Any:
    """The module ``native``, whose types are in native.pyi; CBuildError if it has to be compiled and cannot be."""
    from mrc_host.datapath import native

    return native
