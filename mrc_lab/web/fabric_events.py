"""Events of the controller and the faults that are active, as they come; and crashes of the fabric's processes.

The controller's stream blocks, so a thread reads it and hands the events to the loop. When the controller is gone, the
thread says so once and tries again: a restarted controller has no faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

import grpc

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import Event, EventKind, MachineClock
from mrc_lab.commands import fault_command
from mrc_lab.web.feed import Feed
from mrc_lab.web.records import FaultView, Problem, StateSection
from topologies.emulation.process_watch import Crash
from topologies.faults.record import FaultRecord

_RETRY_S = 1.0
_READY_S = 5.0  # for a controller that does not answer, the page is served without its events
_ABOUT_FAULTS = (EventKind.FAULT_ADDED, EventKind.FAULT_ACTIVE, EventKind.FAULT_CHANGED, EventKind.FAULT_CLEARED)


class FabricEvents:
    """Publishes what the controller reports; `clock` is this machine's."""

    def __init__(
        self,
        feed: Feed,
        connect: Callable[[], ControllerClient],
        loop: asyncio.AbstractEventLoop,
        clock: MachineClock,
    ) -> None:
        self._feed = feed
        self._connect = connect
        self._loop = loop
        self._clock = clock
        self._answered = asyncio.Event()
        self._stopped = threading.Event()
        self._client: ControllerClient | None = None
        self._thread = threading.Thread(target=self._work, name="controller events", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    async def ready(self) -> None:
        """Wait until no later event can be missed, or the controller is known not to answer."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._answered.wait(), _READY_S)

    def stop(self) -> None:
        """Listen no more."""
        self._stopped.set()
        if self._client is not None:
            self._client.close()

    def crashed(self, crash: Crash) -> None:
        """A process of the fabric has crashed; may be called from any thread."""
        self._to_loop(lambda: self._feed.event("crash", crash.name, f"{crash}. {crash.consequence}"))

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                with self._connect() as client:
                    self._client = client
                    self._follow(client)
            except (ControllerError, grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed
                if not self._stopped.is_set():
                    problem = str(error) if isinstance(error, ControllerError) else "The controller is not there."
                    self._to_loop(lambda problem=problem: self._lost(problem))  # type: ignore[misc]
            self._stopped.wait(_RETRY_S)

    def _follow(self, client: ControllerClient) -> None:
        with client.events() as events:
            for event in events:
                faults = None
                if event.kind in (EventKind.SUBSCRIBED, *_ABOUT_FAULTS):
                    faults = client.faults()
                self._to_loop(lambda event=event, faults=faults: self.publish(event, faults))  # type: ignore[misc]

    def publish(self, event: Event, faults: list[FaultRecord] | None) -> None:
        """An event of the controller; with the `faults` that there are now, if they may have changed."""
        self._answered.set()
        if faults is not None:
            self._feed.replace(StateSection.FAULTS, {record.id: fault_state(record) for record in faults})
        self._feed.put(StateSection.SWITCHES, "controller", None)
        if event.kind is EventKind.SUBSCRIBED:
            return
        text = event.detail
        if event.fault is not None:
            text = fault_command.describe(event.fault)
        self._feed.event(
            event.kind.value, event.name, text or event.name, self._clock.epoch_of(event.at_ns) // 1_000_000
        )

    def _lost(self, problem: str) -> None:
        self._answered.set()
        if "controller" not in self._feed.section(StateSection.SWITCHES):
            self._feed.event("controller", "controller", problem)
        self._feed.put(StateSection.SWITCHES, "controller", Problem(problem))

    def _to_loop(self, call: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


def fault_state(record: FaultRecord) -> FaultView:
    """A fault as the page shows it."""
    text = fault_command.describe(record)
    return FaultView(record.fault.kind.word, text, record.links, record.switches, record.state.value)
