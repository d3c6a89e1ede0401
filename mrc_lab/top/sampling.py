"""Read the state of a fabric that is up: its links from the controller, queue pairs and paths from the hosts' agents.

All are asked at once, each with a limit of time. What does not answer, as a process that is stopped, is left in peace
for a while, so that it slows down only the sample that finds it out; the reason is part of the sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import LinkStatus
from mrc_host.errors import MrcError, NotFoundError
from mrc_host.verbs.remote.agent_verbs import QueuePairInfo
from mrc_host.verbs.remote.connection import AgentConnection
from mrc_host.verbs_types import PathInfo

TIMEOUT_S: Final = 2.0  # for an agent's answer
RETRY_S: Final = 5.0  # after it did not come
MAX_QUEUE_PAIRS: Final = 256  # of a host; of what has more, the first are shown
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class QueuePairSample:
    """A queue pair with its paths, of which RC has none."""

    info: QueuePairInfo
    paths: tuple[PathInfo, ...]


@dataclass(frozen=True, slots=True)
class HostSample:
    """The queue pairs of a host at `time` (ns, monotonic); or why they are not known. `left_out` are too many."""

    time: int
    pairs: tuple[QueuePairSample, ...] = ()
    problem: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A fabric at one moment; without links, `problem` says why."""

    links: tuple[LinkStatus, ...] = ()
    hosts: Mapping[str, HostSample] = field(default_factory=dict)
    problem: str = ""

    def problems(self) -> list[str]:
        """What could not be read."""
        own = [self.problem] if self.problem else []
        return own + [f"{name}: {host.problem}" for name, host in self.hosts.items() if host.problem]


class FabricSampler:
    """Reads a fabric whose controller is at `controller`, and whose agents are at `sockets`, by host; close() it."""

    def __init__(
        self, controller: str, sockets: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._controller = ControllerClient(controller)
        self._sockets = sockets
        self._clock = clock
        self._silent: dict[str, tuple[float, HostSample]] = {}  # until when to leave a host in peace
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="top")

    def close(self) -> None:
        """Wait for nothing any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._controller.close()

    def read(self) -> Sample:
        """The state now."""
        hosts = dict(zip(self._sockets, self._threads.map(self._host, self._sockets), strict=True))
        try:
            return Sample(tuple(self._controller.links()), hosts)
        except ControllerError as error:
            return Sample((), hosts, str(error))

    def _host(self, name: str) -> HostSample:
        until, found = self._silent.get(name, (0.0, HostSample(0)))
        if self._clock() < until:
            return found
        found = read_host(self._sockets[name])
        if found.problem:
            self._silent[name] = (self._clock() + RETRY_S, found)
        return found


def read_host(socket: str) -> HostSample:
    """What the agent at `socket` says."""
    try:
        with closing(AgentConnection(socket, client="mrc top", timeout_s=TIMEOUT_S)) as agent:
            pairs = []
            infos = agent.qps()
            for info in infos[:MAX_QUEUE_PAIRS]:
                try:
                    paths = agent.qp_paths(info.qpn) if info.type.source_routed else ()
                except NotFoundError:  # destroyed since
                    continue
                pairs.append(QueuePairSample(info, tuple(paths)))
    except (MrcError, OSError) as error:
        return HostSample(time.monotonic_ns(), problem=str(error))
    return HostSample(time.monotonic_ns(), tuple(pairs), left_out=max(0, len(infos) - MAX_QUEUE_PAIRS))
