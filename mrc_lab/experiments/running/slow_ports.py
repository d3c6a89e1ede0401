"""Ports that turned out to be slower than the others of their NIC during a run, as warnings: others wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mrc_common.units import show_time
from mrc_host.verbs_types import SlowPortEvent
from topologies import addressing
from topologies.fabric import Fabric

_NAMED: Final = 4  # ports; of more, the number


class SlowPortWarnings:
    """The slow ports of one run."""

    def __init__(self, fabric: Fabric) -> None:
        self._nics = {addressing.nic_address(fabric, nic).packed: nic.name for nic in fabric.nics}
        self._since: dict[str, int] = {}  # port: when it was first found to be slow

    def note(self, host: str, event: SlowPortEvent, time: int) -> None:
        """An event of the NIC of `host`, `time` ns after the begin."""
        if event.slow:
            name = f"{host}@p{event.port}"
            if not event.local:
                name = f"{self._nics[event.peer]}@p{event.port}, or its plane on the way from {host},"
            self._since.setdefault(name, time)

    def warnings(self) -> Iterator[str]:
        """A sentence without full stop for each port, in the order in which they were found."""
        for name, time in list(self._since.items())[:_NAMED]:
            yield f"{name} was slower than the other ports, which waited for it, from {show_time(time)} on"
        if len(self._since) > _NAMED:
            yield f"{len(self._since) - _NAMED} more ports were slower than the others of their NIC"
