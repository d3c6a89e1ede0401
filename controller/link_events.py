"""Reports when a link of the fabric loses or regains its carrier, whatever the cause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.errors import ControllerError
from mrc_common.link_monitor import LinkMonitor, LinkState
from topologies import addressing
from topologies.fabric import Fabric


class LinkEvents:
    """Calls ``on_change(link, up)`` for every change; links count as up until something else is seen."""

    def __init__(self, fabric: Fabric, on_change: Callable[[str, bool], None]) -> None:
        self._on_change = on_change
        self._links = {addressing.interface_name(fabric, fabric.watched_end(link)): link.name for link in fabric.links}
        self._up = dict.fromkeys(self._links.values(), True)
        self._had_carrier: set[str] = set()
        self._monitor: LinkMonitor | None = None

    def start(self) -> None:
        """Begin to listen, in the running loop; raises ControllerError when the kernel does not list its links."""
        try:
            self._monitor = LinkMonitor(self.changed)
        except TimeoutError as error:
            raise ControllerError(str(error)) from None
        asyncio.get_running_loop().add_reader(self._monitor.fileno(), self._monitor.on_readable)

    def stop(self) -> None:
        """Listen no more."""
        if self._monitor is not None:
            asyncio.get_running_loop().remove_reader(self._monitor.fileno())
            self._monitor.close()
            self._monitor = None

    @property
    def lost(self) -> frozenset[str]:
        """Links that have lost their carrier: not those of a fabric that is only coming up, which never had it."""
        return frozenset(link for link in self._had_carrier if not self._up[link])

    def changed(self, interface: LinkState) -> None:
        """An interface of this machine, or of a switch that the kernel is, changed, or is gone."""
        link = self._links.get(interface.name)
        if link is not None and (interface.up or interface.had_carrier):
            self._had_carrier.add(link)
        if link is not None and self._up[link] != interface.up:
            self._up[link] = interface.up
            self._on_change(link, interface.up)
