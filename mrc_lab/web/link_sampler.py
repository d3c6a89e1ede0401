"""Links: up or down from the kernel's messages as they come, traffic from its counters several times a second.

Whoever takes a link down, by ``ip link set`` or through the controller, the kernel reports it, so the page need not
wait for a sample. Rates are of the time between two samples, with three significant digits, so that a steady link
does not change all the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from controller.link_events import LinkEvents
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import LinkView, StateSection
from topologies.emulation import link_counters
from topologies.emulation.link_counters import LinkTraffic
from topologies.fabric import Fabric

PERIOD_S = 0.25
MAX_LINKS_PER_S = 10_000  # read and sent; the links of larger fabrics are read less often
_DEVICES = Path("/proc/net/dev")
_LOG = logging.getLogger(__name__)


class LinkSampler:
    """Publishes the links of a fabric on this machine; `clock` gives ns, `devices` is the kernel's file."""

    def __init__(
        self, fabric: Fabric, feed: Feed, clock: Callable[[], int] = time.monotonic_ns, devices: Path = _DEVICES
    ) -> None:
        self._fabric = fabric
        self._feed = feed
        self._clock = clock
        self._devices = devices
        self._up = {link.name: True for link in fabric.links}
        self._monitor = LinkEvents(fabric, self.changed)
        self._before: tuple[int, Mapping[str, LinkTraffic]] | None = None
        self._failing = False
        feed.replace(StateSection.LINKS, {link.name: LinkView(True) for link in fabric.links})

    async def run(self) -> None:
        """Sample while somebody watches; does not return."""
        self._monitor.start()
        try:
            while True:
                if not self._feed.viewers:
                    await self._feed.watched()
                    self._before = None  # a rate over the time when nobody watched says little
                self._try_to_sample()
                await asyncio.sleep(self.period_s)
        finally:
            self._monitor.stop()

    @property
    def period_s(self) -> float:
        """How often traffic is read; states of links are known at once all the same."""
        return max(PERIOD_S, len(self._fabric.links) / MAX_LINKS_PER_S)

    def changed(self, link: str, up: bool) -> None:
        """The kernel reports a link as down or up."""
        self._up[link] = up
        before = self._feed.section(StateSection.LINKS)[link]
        assert isinstance(before, LinkView)
        rates = (before.upward_bps, before.downward_bps) if up else (0, 0)
        self._feed.put(StateSection.LINKS, link, LinkView(up, *rates))

    def _try_to_sample(self) -> None:
        """An error of the kernel, e.g. that no descriptor is left, is no reason to end: the next sample may succeed."""
        try:
            self.sample()
        except OSError as error:
            self._before = None
            if not self._failing:
                _LOG.warning("links cannot be read for now: %s", error.strerror)
            self._failing = True
        else:
            self._failing = False

    def sample(self) -> None:
        """Read the counters now, and publish what links have carried since the last time."""
        now, carried = self._clock(), link_counters.read(self._fabric, self._devices)
        if self._before is not None:
            then, earlier = self._before
            elapsed = max(1, now - then)
            self._feed.replace(
                StateSection.LINKS,
                {
                    name: LinkView(
                        self._up[name],
                        _rate(earlier[name].upward.bytes, traffic.upward.bytes, elapsed),
                        _rate(earlier[name].downward.bytes, traffic.downward.bytes, elapsed),
                    )
                    for name, traffic in carried.items()
                },
            )
        self._before = now, carried


def _rate(before: int, after: int, elapsed_ns: int) -> int:
    """Bits a second; 0 when the counter has started again, as that of a new interface does."""
    return significant(max(0, after - before) * 8_000_000_000 // elapsed_ns)


def significant(number: int) -> int:
    """A number that is not negative, rounded to three significant digits."""
    cut = max(0, len(str(number)) - 3)
    return int(round(number, -cut))
