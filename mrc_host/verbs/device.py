"""Verbs on a NIC device in this process: each is the device's command of the same name.

:class:`DeviceVerbs` looks it up and passes the arguments by name, so a verb that the table declares and the device has
needs nothing here. Its subclasses, the provider in this process and the agent, have methods for verbs that need more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mrc_host.verbs.declaration import Verb
from mrc_host.verbs.nic_verbs import NicVerbs

if TYPE_CHECKING:
    from mrc_host.nic import Nic  # not at the top, so that the caller chooses the compiled or the plain one


class DeviceVerbs(NicVerbs):
    """The verbs of `nic`; `clock` gives the time, `poke` is called when the NIC may have something to send."""

    def __init__(self, nic: Nic, clock: Callable[[], int], poke: Callable[[], None] | None = None) -> None:
        self._nic = nic
        self._clock = clock
        self._poke = poke or _nothing

    def call(self, verb: Verb, arguments: dict[str, Any]) -> Any:
        """Carry out a verb that is just a command of the NIC or of its controller's side."""
        command = getattr(self._nic, verb.name, None) or getattr(self._nic.control, verb.name)
        if verb.timed:
            arguments["now"] = self._clock()
        result = command(**arguments)
        if verb.sends:
            self._poke()
        return result


def _nothing() -> None:
    """Default of `poke`: the world checks the NIC by itself."""
