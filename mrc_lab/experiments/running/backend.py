"""The interface of a run to its backend: the same four things in simulation and in emulation."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mrc_host.verbs.context import Context
from mrc_host.verbs_types import QpAttributes
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.running.recording import Fidelity, RerouteRecord, Samples
from mrc_lab.workloads.collectives import PacingSettings
from topologies.fabric import Fabric

T = TypeVar("T")


class Backend(Protocol):
    """A world that is up, with an asyncio loop in which everything of a run happens."""

    @property
    def fabric(self) -> Fabric:
        """What is up; its rates are the real ones."""

    @property
    def rate_scale(self) -> float:
        """Rates here over those in the file."""

    @property
    def time_scale(self) -> float:
        """Times here over those in the file."""

    @property
    def link_delay(self) -> int:
        """Propagation delay (ns) of links of `fabric` that do not say."""

    @property
    def verbs_take_time(self) -> bool:
        """Whether calls of verbs take time of the run, so that what can be made before it should be."""

    def now(self) -> int:
        """The time in ns, from any beginning."""

    def open(self, host: str) -> Context:
        """Verbs on a host's NIC; the backend closes it."""

    def attributes(self, given: Mapping[str, Any], ends: tuple[str, str] | None = None) -> QpAttributes:
        """Queue pair attributes as a file gives them, the others with timers that fit this world, or two hosts."""

    def pacing(self) -> PacingSettings:
        """What a collective library takes besides what it takes here anyway."""

    async def order_faults(self, faults: Sequence[PlannedFault]) -> int:
        """Have the faults happen in their time; returns when the run begins, with those of its beginning made."""

    async def check_faults(self, over: int) -> list[str]:
        """After a run that was `over` then: sentences on those not made as planned; `fidelity` judges their times."""

    def reroutes(self) -> Sequence[RerouteRecord]:
        """When switches routed around links, or over them again; times as of :meth:`now`."""

    @property
    def channels(self) -> tuple[str, ...]:
        """Directions of links, as in `Recording.channels`."""

    async def sample_channels(self) -> Samples:
        """Cumulative counters of every channel: [channel, counter]."""

    async def sample_queues(self) -> Samples:
        """Queues and pauses of every channel: [channel, counter of QUEUE_COUNTERS]. Peaks count from the last call."""

    @property
    def signal_period(self) -> int:
        """How much time (ns) is between two calls of `sample_signals` at least, lest they disturb the run."""

    async def sample_signals(self) -> Samples:
        """Packets marked and trimmed so far: [channel, counter of SIGNAL_COUNTERS]."""

    def trimmed(self) -> Mapping[str, int]:
        """Packets that switches have trimmed, by the channel that they go out on."""

    def drops(self) -> Mapping[str, int]:
        """Frames that switches have dropped, by reason, and where they know it by channel."""

    def traffic(self) -> AbstractAsyncContextManager[None]:
        """Inside of it is the traffic whose timing `fidelity` judges."""

    def traced(self, folder: Path, captures: Sequence[str]) -> AbstractContextManager[None]:
        """Meanwhile event traces of all NICs (docs/trace.md) and captures of links are written to files of `folder`."""

    def fidelity(self) -> Fidelity:
        """Whether the timing of the traffic can be trusted."""

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the world's loop."""
