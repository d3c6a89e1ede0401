"""Kills processes of a fabric under traffic by a plan, and checks that everything recovers.

After every few kills comes a calm in which everything has to have recovered: the controller finds every switch
programmed, and every flow finishes a write that was begun in the calm. At any time, every crash is recorded by the
fabric's watch, no byte may be wrong, and a flow may fail only when one of its agents has been killed. When the owner is
killed the fabric is gone: then cleaning must leave nothing, and it comes up again under the same name.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.client import ControllerClient
from controller.errors import ControllerError
from mrc_lab.errors import ExperimentError
from tests.soak_kill.fabric_process import Owner
from tests.soak_kill.flow import Failure, SoakFlow
from tests.soak_kill.kill_plan import OWNER, Kill
from tests.soak_kill.leftovers import Traces
from topologies import loader
from topologies.emulation import cleanup, process_watch
from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric

CALM_EVERY = 6  # kills
_RECOVERY_S = 300.0
_LOOK_S = 0.05


@dataclass(slots=True)
class SoakResult:
    """What a soak saw; it is good when `wrong` is empty. Times are in seconds."""

    seed: int
    wrong: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    writes: int = 0
    nbytes: int = 0
    failures: list[Failure] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    peer_seconds: list[float] = field(default_factory=list)
    calms: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The figures, for printing."""
        return {
            "seed": self.seed,
            "wrong": self.wrong,
            "kills": dict(sorted(self.kills.items())),
            "writes": self.writes,
            "bytes": self.nbytes,
            "lives_ended": len(self.failures),
            "longest_restart_s": round(max(self.restarts, default=0.0), 2),
            "longest_until_a_peer_noticed_s": round(max(self.peer_seconds, default=0.0), 2),
            "longest_until_calm_s": round(max(self.calms, default=0.0), 2),
        }


class Soak:
    """One soak on `fabric`, whose switches are of kind `switch`; `echo` is given a line for everything that happens."""

    def __init__(self, fabric: Fabric, switch: str, seed: int, folder: Path, echo: Callable[[str], None]) -> None:
        self._fabric = fabric
        self._switch = switch
        self._file = folder / "fabric.yaml"
        self._file.write_text(loader.dump_text(fabric))
        self._run = RunDirectory(fabric.name)
        self._traces = Traces(fabric.name)
        self._print = echo
        self._began = time.monotonic()
        self._killed: list[tuple[float, float, str]] = []  # from when until when (monotonic s) each was being killed
        self._owner: Owner
        self.verdict = SoakResult(seed)
        names = tuple(fabric.nic_names)
        self._flows = [
            SoakFlow(one, other, (self._socket(one), self._socket(other)), seed, self._wrong, self._log)
            for one, other in zip(names, (*names[1:], names[0]), strict=True)
        ]

    async def play(self, kills: Iterator[Kill], *, seconds: float, most: int | None = None) -> SoakResult:
        """Kill until `seconds` are over (or `most` kills are done), and take everything down."""
        await self._bring_up()
        traffic = [asyncio.ensure_future(flow.run()) for flow in self._flows]
        try:
            await self._calm()
            deadline, number = time.monotonic() + seconds, 0
            while time.monotonic() < deadline and (most is None or number < most):
                number += 1
                await self._carry_out(next(kills))
                if number % CALM_EVERY == 0:
                    await self._calm()
            await self._calm()
            for flow in self._flows:
                flow.stopping = True
            await self._within(asyncio.gather(*traffic), "the flows do not end")
        finally:
            for task in traffic:
                task.cancel()
            await asyncio.gather(*traffic, return_exceptions=True)
            self._traces.note()
            await self._owner.take_down()
        await self._look_for_leftovers("after taking down")
        self._judge()
        return self.verdict

    def _socket(self, host: str) -> str:
        return str(self._run.host_socket(host))

    # Kills

    async def _carry_out(self, kill: Kill) -> None:
        await asyncio.sleep(kill.after)
        self._log(f"kill -9: {kill}")
        if OWNER in kill.victims:
            await self._lose_everything(kill)
            return
        killed = {name: self._kill(name) for name in kill.victims}
        await asyncio.sleep(kill.pause)
        for name, pid in killed.items():
            await self._within(self._noticed(pid), f"the fabric's watch did not report that {name} crashed")
        for name in kill.victims:
            await self._revive(name, kill.again)

    def _kill(self, name: str) -> int | None:
        """Kill a process; returns its id, None if it does not run."""
        for record in self._run.records():
            if record.name == name and record.alive():
                began = time.monotonic()
                cleanup.kill({record.pid: record.alive})
                self._killed.append((began, time.monotonic(), name))
                self.verdict.kills[name] += 1
                return record.pid
        return None

    async def _noticed(self, pid: int | None) -> None:
        """Wait until a crash has been recorded (``topologies.emulation.process_watch``)."""
        while pid is not None and pid not in {crash.pid for crash in process_watch.written(self._run)}:
            await asyncio.sleep(_LOOK_S)

    async def _revive(self, name: str, again: float | None) -> None:
        """Have a process restarted, and kill it `again` seconds later; it may or may not be ready by then."""
        before = {record.pid for record in self._run.records() if record.name == name}
        restart = asyncio.ensure_future(self._owner.restart(name))
        if again is not None:
            await asyncio.sleep(again)
            if {record.pid for record in self._run.records() if record.name == name} != before:
                self._kill(name)
            try:
                await restart
            except ExperimentError as error:
                self._log(f"its restart was reported as: {error}")
            restart = asyncio.ensure_future(self._owner.restart(name))
        self.verdict.restarts.append(await restart)
        self._traces.note()

    async def _lose_everything(self, kill: Kill) -> None:
        self._traces.note()
        began = time.monotonic()
        cleanup.kill({self._owner.pid: lambda: True})  # our own child: its id is not free
        self.verdict.kills[OWNER] += 1
        await self._owner.ended()
        await asyncio.sleep(kill.pause)
        report = await asyncio.to_thread(cleanup.clean, self._fabric.name)
        self._killed.append((began, time.monotonic(), OWNER))
        self._log(f"cleaned {report.processes} processes, {report.interfaces} interfaces")
        await self._look_for_leftovers("after cleaning")
        await self._bring_up()

    async def _bring_up(self) -> None:
        self._owner = await Owner.start(self._file, self._switch)
        self._traces.note()
        self._log(f"up in {self._owner.up_s:.2f} s")

    # Judgement

    async def _calm(self) -> None:
        """Wait until everything is as it should be."""
        began = time.monotonic()
        await self._within(self._programmed(), "the controller does not find every switch programmed")
        for flow in self._flows:
            # A write that is finished may have been begun before the calm, so it takes as many as there are slots.
            await self._within(_grows(flow, flow.writes + 5), f"{flow.name} does not go on")
        self.verdict.calms.append(time.monotonic() - began)
        self._log(f"calm after {self.verdict.calms[-1]:.2f} s")

    async def _programmed(self) -> None:
        while not await asyncio.to_thread(self._reconciled):
            await asyncio.sleep(_LOOK_S)

    def _reconciled(self) -> bool:
        try:
            with ControllerClient(self._run.controller_socket) as client:
                return client.reconcile().ready
        except ControllerError:
            return False

    async def _within(self, work: Any, otherwise: str) -> None:
        try:
            await asyncio.wait_for(work, _RECOVERY_S)
        except asyncio.TimeoutError:
            self._wrong(f"{otherwise} within {_RECOVERY_S:.0f} s")

    async def _look_for_leftovers(self, when: str) -> None:
        # In a thread, like whatever else uses pyroute2, which has an event loop of its own.
        for trace in await asyncio.to_thread(self._traces.left):
            self._wrong(f"{when}: {trace}")

    def _judge(self) -> None:
        for flow in self._flows:
            self.verdict.writes += flow.writes
            self.verdict.nbytes += flow.nbytes
            self.verdict.peer_seconds += flow.peer_seconds
            for failure in flow.failures:
                self.verdict.failures.append(failure)
                ends = {flow.source, flow.destination, OWNER}
                # A connection may begin while its agent is being killed.
                if not any(
                    began <= failure.ended and failure.began <= ended and name in ends
                    for began, ended, name in self._killed
                ):
                    self._wrong(f"{flow.name} failed although its agents lived: {failure.reason}")

    def _wrong(self, what: str) -> None:
        self.verdict.wrong.append(what)
        self._log(f"WRONG: {what}")

    def _log(self, what: str) -> None:
        self._print(f"{time.monotonic() - self._began:7.2f} s  {what}")


async def _grows(flow: SoakFlow, writes: int) -> None:
    while flow.writes < writes:
        await asyncio.sleep(_LOOK_S)
