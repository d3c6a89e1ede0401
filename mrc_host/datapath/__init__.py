"""The NIC's datapath in C: Python decides and C carries.

The transport in Python decides which packet leaves when and on which path, and what an arrival means. ``native`` does
what is the same for every packet:

* **Out**: a packet's frame from the header template of its path and class (template.h), and for data its message
  (transmit.h), and its ICRC (icrc.h). In simulation the payload stays where it is (in_place.h).
* **In**: prefix (prefixes.h, flows.h), ICRC and queue pair of every frame (receive.h). The receive state of a queue
  pair is here alone (receive_state.h): what has arrived, and which of that the next SACK shows (sack.h). Packets that
  need no decision are placed here (placement.h), of RC those in the middle of a message that come in order
  (rc_receive_state.h). Python places all others, and adds them. What a SACK offers, and when it leaves, Python decides.

Small models of frames and receive state, in Python, are the oracles of its tests (``tests/models/``).
"""

from __future__ import annotations

from typing import Any


def load() -> Any:
    """The module ``native``, whose types are in native.pyi; CBuildError if it has to be compiled and cannot be."""
    from mrc_host.datapath import native

    return native
