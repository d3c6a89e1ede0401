"""Services of a NIC that its queue pairs and peers share: configuration, memory, scheduler, random numbers, events."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from mrc_host.config import NicConfig
from mrc_host.transport.algorithms import ALGORITHMS, Algorithm
from mrc_host.transport.memory import MemoryTable
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.transport.path_selection import PathSelection
from mrc_host.transport.scheduler import Scheduler
from mrc_host.transport.slow_ports import SlowPorts
from mrc_host.transport.stats import NicPortStats
from mrc_host.transport.trace import Tracer
from mrc_host.verbs_types import AsyncEvent, CcProfile, EvProfile
from mrc_host.wire.encap import Encapsulation

_MAX_EVENTS: Final = 4096


class NicContext:
    """Services of one NIC that its queue pairs and peers share."""

    __slots__ = (
        "_events",
        "_make_path_selection",
        "_next_probe",
        "algorithms",
        "cc_profiles",
        "config",
        "datapath",
        "encapsulation",
        "ev_profiles",
        "events_lost",
        "local_up",
        "lost_by_plane",
        "memory",
        "now",
        "port_stats",
        "psn_rng",
        "retransmitted_by_plane",
        "rng",
        "scheduler",
        "settings",
        "slow_ports",
        "srv6",
        "trace",
        "transport",
        "waited_by_plane",
    )

    def __init__(
        self,
        config: NicConfig,
        rng: random.Random,
        psn_rng: random.Random,
        algorithms: Mapping[str, Algorithm] = ALGORITHMS,
        make_path_selection: Callable[[str], PathSelection] | None = None,
    ) -> None:
        self.config = config
        self.settings = config.settings
        self.transport = config.settings.transport
        self.srv6 = config.settings.ev_format.routed  # MRC packets have an outer header with a uSID list
        self.algorithms = dict(algorithms)  # congestion controls by name
        self._make_path_selection = make_path_selection
        self.cc_profiles: dict[str, CcProfile] = {}  # those of them that the controller created
        self.ev_profiles: dict[int, EvProfile] = {}
        self.rng = rng
        self.psn_rng = psn_rng  # for first PSNs alone, so that no other choice depends on how often queue pairs connect
        self.scheduler = Scheduler(len(config.ports))
        self.memory = MemoryTable(rng)
        self.encapsulation = Encapsulation(config)
        self.local_up = (1 << len(config.ports)) - 1  # mask of ports with a link
        self.lost_by_plane = [0] * len(config.ports)  # lost data packets of all queue pairs, including those destroyed
        self.retransmitted_by_plane = [0] * len(config.ports)
        self.waited_by_plane = [0] * len(config.ports)  # ns for which data that could leave on others waited for it
        self.port_stats = [NicPortStats() for _ in config.ports]
        self.events_lost = 0
        self._events: deque[AsyncEvent] = deque()
        self.slow_ports = SlowPorts(len(config.ports), self.emit, retry=self.transport.slow_port_retry)  # of our own
        self._next_probe = 0
        self.now = 0  # time of the input being handled, or of the frame that leaves
        self.trace: Tracer | None = None
        self.datapath = NativeDatapath(config)

    def new_path_selection(self) -> PathSelection | None:
        """For one queue pair, of the name in the settings; None where paths take turns."""
        name = self.transport.path_selection
        if not name or self._make_path_selection is None:
            return None
        return self._make_path_selection(name)

    def emit(self, event: AsyncEvent) -> None:
        """Queue an event for the application; the oldest is dropped when too many are queued."""
        if len(self._events) >= _MAX_EVENTS:
            self._events.popleft()
            self.events_lost += 1
        self._events.append(event)
        if self.trace is not None:
            self.trace.event(event)

    def has_events(self) -> bool:
        """Whether events are queued."""
        return bool(self._events)

    def take_events(self) -> list[AsyncEvent]:
        """All queued events, oldest first."""
        events = list(self._events)
        self._events.clear()
        return events

    def change_link(self, port: int) -> None:
        """A port has lost its link, or got it back."""
        self.local_up ^= 1 << port
        self.datapath.receiver.links(self.local_up)

    def probe_slot(self, now: int) -> int:
        """Reserve the next free time for a background probe; `now` or later."""
        slot = max(now, self._next_probe)
        self._next_probe = slot + self.transport.probe_spacing
        return slot
