"""A reading of a fabric: the counters of its agents, controller and switches, fetched from all at once.

Every reading asks afresh and keeps nothing, so a fabric may be taken down and brought up in another size in between.
Each process is asked in a thread of its own, with a time limit for each answer. Whatever does not answer in time is
missing from the reading, which is complete otherwise; agents that do not answer are named in it.

An agent answers for one queue pair after the other, so packets never wait for longer than one answer takes. If the
queue pairs of a NIC take longer than `NIC_LIMIT_S`, they are left out, but not the NIC.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import LinkStatus, SwitchCounters
from mrc_host.driver.nic_port import PortStatus
from mrc_host.errors import MrcError, NotFoundError
from mrc_host.verbs.remote.connection import AgentConnection
from mrc_host.verbs_types import QpType
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.running.switch_management import ask_process, targets
from mrc_lab.fabric.find_fabric import find_controller
from p4runtime_shim.proto import switch_v1_pb2 as pb
from topologies import loader
from topologies.emulation.errors import EmulationError
from topologies.emulation.run_directory import DEFAULT_ROOT, RunDirectory
from topologies.emulation.switches import address_in_use
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.record import FaultRecord

ANSWER_LIMIT_S = 2.0  # for each answer of an agent, the controller or a switch process
NIC_LIMIT_S = 4.0  # after which no further queue pair of a NIC is read
MAX_THREADS = 256  # so that processes that do not answer are waited for together
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class QueuePairReading:
    """A queue pair: its number, its remote end (``NIC:QPN``, or nothing), its counters by name (docs/counters.md)."""

    qpn: int
    type: QpType
    remote: str
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NicReading:
    """What an agent answered: counters of the NIC and its ports, the driver's view of the ports, the queue pairs.

    `queue_pairs` is None if they could not be read in time. `problem` says why the agent did not answer; then nothing
    else is known.
    """

    name: str
    counters: Mapping[str, int]
    ports: tuple[Mapping[str, int], ...] = ()
    interfaces: tuple[PortStatus, ...] = ()
    queue_pairs: tuple[QueuePairReading, ...] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FabricReading:
    """Everything known of the fabric `fabric`; `links`, `faults` and `counters` are None if the controller is silent.

    `counters` are those of the P4 program, `switches` what the embedded switches count themselves (none of BMv2).
    """

    fabric: Fabric
    nics: tuple[NicReading, ...]
    links: tuple[LinkStatus, ...] | None
    faults: tuple[FaultRecord, ...] | None
    counters: tuple[SwitchCounters, ...] | None
    switches: tuple[pb.Switch, ...]
    seconds: float


class FabricReader:
    """Reads the fabric `name` whenever it is up. To be closed."""

    def __init__(self, name: str, root: Path = DEFAULT_ROOT) -> None:
        self.name = name
        self._root = root
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="telemetry")

    def close(self) -> None:
        """End the threads, as soon as each has its answer."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read(self) -> FabricReading | None:
        """The fabric as it is now; None if it is not up."""
        began = time.monotonic()
        run = await self._call(self._run_directory)
        fabric = await self._call(lambda: _fabric(run))
        if run is None or fabric is None:
            return None
        nics, switches, (links, faults, counters) = await asyncio.gather(
            asyncio.gather(*(self._call(_nic_reader(run, name)) for name in fabric.nic_names)),
            asyncio.gather(*(self._call(_switch_reader(target)) for target in targets(fabric, address_in_use(run)))),
            self._ask_controller(run, fabric),
        )
        return FabricReading(
            fabric,
            tuple(nics),
            None if links is None else tuple(links),
            None if faults is None else tuple(faults),
            None if links is None else tuple(counters),
            tuple(switch for process in switches for switch in process),
            time.monotonic() - began,
        )

    async def _ask_controller(
        self, run: RunDirectory, fabric: Fabric
    ) -> tuple[Sequence[LinkStatus] | None, Sequence[FaultRecord] | None, Sequence[SwitchCounters]]:
        """Links, faults, and what the P4 program of each switch has counted.

        It is asked for one switch at a time, since its answer for several waits for the slowest.
        """
        client = await self._call(lambda: ControllerClient(run.controller_socket, timeout_s=ANSWER_LIMIT_S))
        try:
            return await asyncio.gather(
                self._call(lambda: _links(client)),
                self._call(lambda: _faults(client)),
                asyncio.gather(*(self._call(_counters_reader(client, switch.name)) for switch in fabric.switches)),
            )
        finally:
            await self._call(client.close)

    def _run_directory(self) -> RunDirectory | None:
        try:
            return find_controller(self.name, self._root)
        except (ExperimentError, EmulationError):
            return None

    async def _call(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)


def _fabric(run: RunDirectory | None) -> Fabric | None:
    """The fabric that is up; None also for one that is being taken down just now."""
    with suppress(FabricError, OSError):
        return None if run is None else loader.load_file(run.fabric_file)
    return None


def _links(controller: ControllerClient) -> list[LinkStatus] | None:
    """The links; None if the controller does not answer in time."""
    with suppress(ControllerError):
        return controller.links()
    return None


def _faults(controller: ControllerClient) -> list[FaultRecord] | None:
    with suppress(ControllerError):
        return controller.faults()
    return None


def _counters_reader(controller: ControllerClient, switch: str) -> Callable[[], SwitchCounters]:
    def read() -> SwitchCounters:
        try:
            (found,) = controller.counters(switch)
        except ControllerError as error:
            return SwitchCounters(switch, problem=str(error))
        return found

    return read


def _switch_reader(target: str) -> Callable[[], list[pb.Switch]]:
    def read() -> list[pb.Switch]:
        return ask_process(
            target, lambda stub: stub.GetSwitches(pb.GetSwitchesRequest(), timeout=ANSWER_LIMIT_S).switches
        )

    return read


def _nic_reader(run: RunDirectory, name: str) -> Callable[[], NicReading]:
    return lambda: read_nic(name, run.host_socket(name))


def read_nic(name: str, socket: Path) -> NicReading:
    """What the agent at `socket` has counted."""
    deadline = time.monotonic() + NIC_LIMIT_S
    try:
        with closing(AgentConnection(socket, client="mrc metrics", timeout_s=ANSWER_LIMIT_S)) as agent:
            pairs = _queue_pairs(agent, deadline)
            return NicReading(name, agent.hw_counters(), agent.port_counters(), agent.ports(), pairs)
    except (MrcError, OSError) as error:
        return NicReading(name, {}, problem=str(error))


def _queue_pairs(agent: AgentConnection, deadline: float) -> tuple[QueuePairReading, ...] | None:
    """Every queue pair but those destroyed meanwhile, whose counts are in the NIC's counters, which are read later."""
    found = []
    for qp in agent.qps():
        if time.monotonic() > deadline:
            return None
        with suppress(NotFoundError):
            found.append(QueuePairReading(qp.qpn, qp.type, qp.remote, agent.hw_counters(qp.qpn)))
    return tuple(found)
