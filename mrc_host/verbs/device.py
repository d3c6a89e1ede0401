"""Verbs on a NIC device in this process: each is the device's command of the same name.

:class:`DeviceVerbs` looks it up and passes the arguments on by name, so what the table declares and the device has
needs nothing here. Who stands on top of it, a provider of this process or an agent, has methods of its own for verbs
that are more than that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mrc_host.verbs.declaration import Verb
from mrc_host.verbs.table import NicVerbs

if TYPE_CHECKING:
    from mrc_host.nic import Nic  # whoever wants the compiled one imports it


class DeviceVerbs(NicVerbs):
    """The verbs of `nic` at the time that `clock` tells; `poke` is called when it may have something to send."""

    def __init__(self, nic: Nic, clock: Callable[[], int], poke: Callable[[], None] | None = None) -> None:
        self._nic = nic
        self._clock = clock
        self._poke = poke or _nothing

    def call(self, verb: Verb, arguments: dict[str, Any]) -> Any:
        """Carry out a verb that is no more than a command of the NIC or of its controller's side."""
        command = getattr(self._nic, verb.name, None) or getattr(self._nic.control, verb.name)
        if verb.timed:
            arguments["now"] = self._clock()
        result = command(**arguments)
        if verb.sends:
            self._poke()
        return result


def _nothing() -> None:
    """The default of `poke`: the world looks at the NIC by itself."""
