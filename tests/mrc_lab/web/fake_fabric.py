"""A fabric for the live view that is only values: actions change its links and paths, as a real one's would.

Each link that is taken down takes the paths over it out of use; traffic is a number that never changes. Everything
happens in the loop that serves it, at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mrc_lab.errors import ExperimentError
from mrc_lab.web.actions import Outcome
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import (
    FabricLayout,
    FaultView,
    JobState,
    LinkView,
    PairRoutes,
    PairState,
    QueueState,
    Route,
    SignalState,
    StateSection,
)
from mrc_lab.web.server import LiveServer
from tests.waiting import TIMEOUT_S
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric, LinkKind
from topologies.up_down import nodes

TOKEN = "token-for-tests-0123456789"
T = TypeVar("T")


class FakeFabric:
    """What the server serves; `requests` are the actions that have come."""

    def __init__(self, fabric: Fabric, pairs: tuple[tuple[str, str], ...]) -> None:
        self.fabric = fabric
        self.feed = Feed(FabricLayout(fabric))
        self.requests: list[Mapping[str, Any]] = []
        self.delay_s = 0.0  # before an action is carried out
        self._down: set[str] = set()
        self._pairs = {f"{a}>{b}": self._routes(a, b) for a, b in pairs}
        self.publish_all()

    def publish_all(self) -> None:
        """What never changes, and everything as it is now."""
        self.feed.replace(StateSection.ROUTES, {name: PairRoutes(routes) for name, routes in self._pairs.items()})
        self.publish()

    def publish(self) -> None:
        """Everything as it is now."""
        load = 0.35
        links = {}
        for number, link in enumerate(self.fabric.links):
            up = link.name not in self._down
            rate = int(link.rate_bps * (load + 0.6 * (number % 7) / 7)) if up else 0
            links[link.name] = LinkView(up, rate, rate // 2)
        self.feed.replace(StateSection.LINKS, links)
        some = [link for link in self.fabric.links if link.kind is LinkKind.T0_T1][::5]
        self.feed.replace(StateSection.QUEUES, {link.name: QueueState(9000, 24000) for link in some})
        self.feed.replace(StateSection.SIGNALS, {link.name: SignalState(12, 3, 0) for link in some})
        faults = {f"f{i}": FaultView("down", f"fault f{i}: {name} down", (name,), (), "active")
                  for i, name in enumerate(sorted(self._down), 1)}  # fmt: skip
        self.feed.replace(StateSection.FAULTS, faults)
        self.feed.replace(StateSection.PAIRS, {name: self._state(routes) for name, routes in self._pairs.items()})

    def set_link(self, link: str, *, up: bool) -> None:
        """Take a link down or up, as ``ip link set`` would."""
        (self._down.discard if up else self._down.add)(link)
        self.publish()
        self.feed.event(f"link {'up' if up else 'down'}", link, "")

    async def perform(self, request: Mapping[str, Any]) -> Outcome:
        """Actions of the page: a link down or up."""
        self.requests.append(request)
        await asyncio.sleep(self.delay_s)
        if request.get("do") == "undo":
            self.set_link(sorted(self._down)[0], up=True)
            return Outcome("undone")
        if request.get("do") == "write":
            self.feed.put(StateSection.JOBS, "job1", JobState("write h1 to h3, 64 MiB", True, share=0.4))
            return Outcome("", "sudo mrc shell lab -c 'write h1 h3 64M'")
        match request.get("words"):
            case [link, ("up" | "down") as state] if link in {one.name for one in self.fabric.links}:
                self.set_link(link, up=state == "up")
                return Outcome(f"{link} {state}", f"sudo mrc fault add lab {link} {state}", f"{link} {state}")
        raise ExperimentError("this fabric cannot do that")

    def _routes(self, source: str, destination: str) -> tuple[Route, ...]:
        near, far = self.fabric.nic(source), self.fabric.nic(destination)
        return tuple(
            Route(addressing.path_ev(path), path.plane, nodes(self.fabric, near, far, path))
            for path in self.fabric.paths(near, far)
        )

    def _state(self, routes: tuple[Route, ...]) -> PairState:
        letters = ["b" if self._broken(route) else "G" for route in routes]
        lost = tuple(3 * self._broken(route) for route in routes)
        return PairState("".join(letters), lost, (180,) * len(routes), 4000, sum(lost), sum(lost))

    def _broken(self, route: Route) -> bool:
        links = [link for link in self.fabric.links if link.name in self._down]
        return any(link.lower.node in route.over and link.upper.node in route.over for link in links)


class Served:
    """A server in a thread of its own."""

    def __init__(self, fake: FakeFabric, server: LiveServer, loop: asyncio.AbstractEventLoop, page: str) -> None:
        self.fake = fake
        self.server = server
        self.page = page
        self._loop = loop

    def call(self, function: Callable[[], T]) -> T:
        """What a function returns that is called in the server's loop."""

        async def work() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(TIMEOUT_S)

    def stop(self, farewell: str) -> None:
        """End the server."""
        asyncio.run_coroutine_threadsafe(self.server.stop(farewell), self._loop).result(TIMEOUT_S)


@contextmanager
def served(fabric: Fabric | None = None, pairs: tuple[tuple[str, str], ...] = (("h1", "h3"),)) -> Iterator[Served]:
    """A fabric that is only values behind a server on loopback, for as long as the body runs."""
    loop = asyncio.new_event_loop()

    async def start() -> tuple[FakeFabric, LiveServer, str]:
        fake = FakeFabric(fabric or multi_plane_clos("lab", hosts=4, planes=2, t0=2, t1=4, rate_bps=10**9), pairs)
        server = LiveServer(fake.feed, fake, TOKEN, "127.0.0.1", 0)
        return fake, server, await server.start()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    fake, server, page = asyncio.run_coroutine_threadsafe(start(), loop).result(TIMEOUT_S)
    try:
        yield Served(fake, server, loop, page)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
