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
memory and counters for the same packets. It is compiled together with the transport (``scripts/compile_transport.py``)
and used where that is (``mrc_host.compiled``); its CRC-32 is used everywhere (``mrc_host.checksum``).
``MRC_DATAPATH=reference`` does without it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from importlib.machinery import ExtensionFileLoader
from types import ModuleType

from mrc_host import compiled
from mrc_host.errors import InvalidArgumentError

VARIABLE = "MRC_DATAPATH"
NAME = "mrc_host.datapath.native"

_CHOICES = ("native", "reference")


def load() -> ModuleType | None:
    """The module ``native`` for NICs, or None for the reference.

    By default whichever goes with the transport of this process; ``native`` is also possible with the plain one.
    InvalidArgumentError if the environment asks for what does not exist.
    """
    chosen = _chosen()
    if not (chosen or compiled.in_use()):
        return None
    module = available()
    if module is None and chosen == "native":
        raise InvalidArgumentError(f"{VARIABLE} is 'native', but the transport is not compiled: run 'make install'.")
    return module


def available() -> ModuleType | None:
    """The module ``native`` if it is compiled, with either transport; None if it is not, or the reference is asked for.

    InvalidArgumentError as above, but not for what does not exist.
    """
    return None if _chosen() == "reference" else _compiled()


def _chosen() -> str:
    """What the environment asks for; empty if nothing."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen not in ("", *_CHOICES):
        raise InvalidArgumentError(f"{VARIABLE} is {chosen!r}; set it to one of: {', '.join(_CHOICES)}.")
    return chosen


@functools.cache
def _compiled() -> ModuleType | None:
    """Loaded once: to find it all sources are read, and a simulation has a thousand NICs."""
    path = compiled.extension(NAME)
    return None if path is None else load_from(path)


def load_from(path: os.PathLike[str] | str) -> ModuleType:
    """The module in a shared object."""
    spec = importlib.util.spec_from_loader(NAME, ExtensionFileLoader(NAME, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
