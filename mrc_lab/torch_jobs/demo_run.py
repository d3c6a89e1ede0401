"""A run of the demo's PyTorch job: a rank in each host by ``mrc train``'s launcher, with links cut on the way.

The job is ``examples/gpt.py`` as users have it: what it prints says which step is complete, and how long rank 0 took
for it. Ranks are waited for in the main thread; a second one cuts the links when their steps have come.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TextIO

from mrc_common import children, written_files
from mrc_lab.demo.fabric_interface import World
from mrc_lab.demo.faults import FaultPlan, LinkCut, busiest_link
from mrc_lab.demo.progress import Progress
from mrc_lab.demo.record import RunRecord, StepReport
from mrc_lab.demo.settings import PROBE_FROM, PROBE_STEPS
from mrc_lab.torch_jobs.launch import RankFailure

GPT = Path(__file__).resolve().parents[2] / "examples" / "gpt.py"
_STEP = re.compile(r"\[(?P<host>[^\]]+)\] step (?P<step>\d+) loss (?P<loss>\S+) in (?P<seconds>\S+) s\n")


class Hosts(Protocol):
    """The hosts of a fabric that is up, where programs run."""

    def train(self, command: Sequence[str], more: Mapping[str, str], write: TextWriter) -> RankFailure | None:
        """Run `command` in every host (:func:`mrc_lab.torch_jobs.launch.launch`)."""
        ...

    def retransmitted(self) -> int:
        """Packets that all NICs have sent again so far."""
        ...


class TextWriter(Protocol):
    """Takes lines."""

    def __call__(self, text: str, /) -> object:
        """One line."""
        ...


class PytorchRun:
    """One run over `transport` (``gloo``, ``roce`` or ``mrc``); `record` is valid at any time.

    Rank 0 alone reports steps: it stands for all, since each waits for the others in every step. Raises what the world
    does; a rank that fails is in the record. `folder` (which exists) gets all ranks' output and weights.
    """

    def __init__(
        self,
        transport: str,
        world: World,
        hosts: Hosts,
        faults: Sequence[FaultPlan],
        progress: Progress,
        *,
        folder: Path,
    ) -> None:
        self._world = world
        self._hosts = hosts
        self._faults = faults
        self._progress = progress
        self._folder = folder
        self._transport = transport
        self._completed: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # steps as they are; None at the end
        self._ended = threading.Event()
        self._last_lines: dict[str, str] = {}
        self.retransmitted = 0

    def run(self, steps: int, timeout_s: float) -> RunRecord:
        """Train for `steps`. A step that takes more than `timeout_s` ends the run."""
        first = self._world.fabric.nics[0].name
        self.record = RunRecord(self._transport, (first,), steps, time.monotonic_ns())
        self._progress.progress(self.record)
        retransmitted = self._hosts.retransmitted()
        cuts = threading.Thread(target=self._cut_links, name="faults")
        cuts.start()
        try:
            with open(written_files.create(self._folder / f"{self._transport}.log"), "w") as log:
                failure = self._hosts.train(self._command(steps, timeout_s), self._variables(), self._reader(log))
            if failure is None:
                self.record.done[0] = {}
            else:
                words = self._last_lines.get(failure.host, "it printed nothing")
                self.record.failures.append(f"the rank on {failure.host} {failure.words}: {words}")
        except KeyboardInterrupt:
            self.record.interrupted = True
            raise
        finally:
            self._ended.set()
            self._completed.put(None)
            cuts.join()
            self.record.ended_ns = time.monotonic_ns()
        self.retransmitted = self._hosts.retransmitted() - retransmitted
        return self.record

    def _command(self, steps: int, timeout_s: float) -> Sequence[str]:
        backend = "gloo" if self._transport == "gloo" else "mrc"
        weights = self._folder / f"weights-{self._transport}"
        weights.mkdir()
        return children.user_script(
            str(GPT), "--backend", backend, "--steps", str(steps), "--timeout", str(timeout_s),
            "--weights", str(weights), "--float64",
        )  # fmt: skip

    def _variables(self) -> Mapping[str, str]:
        """Queue pairs never give up, so that a stall ends with the fault, or by the job's own timeout."""
        return {"MRC_QP_TYPE": "rc" if self._transport == "roce" else "mrc", "MRC_RETRY_COUNT": "255"}

    def _reader(self, log: TextIO) -> TextWriter:
        def read(line: str) -> None:
            log.write(line)
            host, _, text = line.partition("] ")
            if text.strip() and "the other ranks are ended" not in text:
                self._last_lines[host.removeprefix("[")] = text.strip()
            found = _STEP.fullmatch(line)
            if found is None:
                return
            now = time.monotonic_ns()
            step, took_ns = int(found["step"]) - 1, int(float(found["seconds"]) * 1e9)
            report = StepReport(step, 0, now - took_ns, now, 0, float(found["loss"]), 0.0, 0)
            self.record.steps[step] = {0: report}
            self.record.completed_steps += 1
            self._completed.put(step)
            self._progress.progress(self.record)

        return read

    # In the second thread

    def _cut_links(self) -> None:
        try:
            for fault, link in zip(self._faults, self._choose_links(), strict=True):
                if not self._reached(fault.at_step):
                    return
                self._cut(fault, link)
        except Exception as error:  # of the fabric; the run is not what it should be, and says so
            self.record.failures.append(f"a fault could not be made: {error}")

    def _cut(self, fault: FaultPlan, link: str) -> None:
        record = LinkCut(fault.kind, link, self.record.completed_steps - 1, self._world.link_down(link))
        self.record.faults.append(record)
        self._progress.mark(self.record, f"{link} down after step {record.step + 1}")
        self._reached(fault.by_step, time.monotonic() + fault.duration_s)
        record.link_up_ns = self._world.link_up(link)
        self._progress.mark(self.record, f"{link} up")

    def _choose_links(self) -> list[str]:
        """Those given, and for the rest the busiest of the first steps; none if the run ends before."""
        if all(fault.link is not None for fault in self._faults):
            return [fault.link for fault in self._faults if fault.link is not None]
        if not self._reached(PROBE_FROM):
            return [""] * len(self._faults)
        before = self._world.link_bytes()
        if not self._reached(PROBE_FROM + PROBE_STEPS):
            return [""] * len(self._faults)
        after = self._world.link_bytes()
        return [fault.link or busiest_link(self._world.fabric, fault.kind, before, after) for fault in self._faults]

    def _reached(self, step: int, deadline: float | None = None) -> bool:
        """Wait until `step` is complete; False if the run, or the time until `deadline`, ends before that."""
        while self.record.completed_steps <= step:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                if self._completed.get(timeout=left) is None:
                    self._completed.put(None)  # for the next who waits
                    return False
            except queue.Empty:
                return False
        return not self._ended.is_set()
