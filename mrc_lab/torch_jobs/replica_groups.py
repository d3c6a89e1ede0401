"""Replica groups of torchft: what ``mrc train --elastic torchft`` starts, and starts again when one is lost.

A group has one rank in each of its hosts, which get what torchrun and torchft's own launcher (its torchx component)
would give them: the usual variables, a store of the group, REPLICA_GROUP_ID, NUM_REPLICA_GROUPS and the lighthouse's
address. A group is lost when one of its ranks has failed; then its other ranks are killed, and all are started again as
often as is allowed. The others know nothing of it but by their own means. Lighthouse and stores are in a process in the
first host (`coordination`); an address in TORCHFT_LIGHTHOUSE is that of the user's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mrc_common import children, strict_json
from mrc_lab.errors import ExperimentError
from mrc_lab.torch_jobs.launch import Rank, RankFailure, end, failed, start, variables
from mrc_lab.torch_jobs.outputs import Output, Outputs
from topologies.emulation.run_directory import RunDirectory

RESTARTS = 10  # torchft's own launcher's
LIGHTHOUSE = "TORCHFT_LIGHTHOUSE"
# The same after a restart: a store keeps the address of the manager before, and torchft's ranks but the first read it.
MANAGER_PORT = ("TORCHFT_MANAGER_PORT", "29511")
_LOG = {"RUST_LOG": os.environ.get("RUST_LOG", "warn")}  # of torchft, which otherwise prints ten lines a step


@dataclass(slots=True)
class _Group:
    """Its ranks, the port of its store, and its processes now."""

    number: int
    ranks: Sequence[Rank]
    store: int
    restarts: int = 0  # so far
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    failure: RankFailure | None = None  # the first of the present start

    @property
    def ended(self) -> bool:
        """Whether none of its processes runs."""
        return all(process.poll() is not None for process in self.processes)


def group_variables(group: int, groups: int, lighthouse: str, restart: int, restarts: int) -> dict[str, str]:
    """What a rank finds in its environment beside the variables of any torch job."""
    return {
        "REPLICA_GROUP_ID": str(group),
        "NUM_REPLICA_GROUPS": str(groups),
        LIGHTHOUSE: lighthouse,
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is there already
        "TORCHELASTIC_RESTART_COUNT": str(restart),
        "TORCHELASTIC_MAX_RESTARTS": str(restarts),
    }


class ReplicaGroups:
    """A job of groups with `size` ranks each, in the order of `ranks`; each is started again `restarts` times at most.

    Without `min_groups` of them at a time none trains.
    """

    def __init__(
        self,
        run: RunDirectory,
        ranks: Sequence[Rank],
        command: Sequence[str],
        *,
        size: int = 1,
        restarts: int = RESTARTS,
        min_groups: int = 1,
        more: Mapping[str, str] | None = None,
        write: Callable[[str], object] = sys.stdout.write,
        note: Callable[[str], object] = sys.stderr.write,
    ) -> None:
        assert len(ranks) % size == 0
        self._run, self._first, self._command, self._more = run, ranks[0], command, more or {}
        self._restarts, self._min_groups, self._write, self._note = restarts, min_groups, write, note
        self._parts = [ranks[at : at + size] for at in range(0, len(ranks), size)]
        self._groups: list[_Group] = []
        self._lighthouse = os.environ.get(LIGHTHOUSE, "")
        self._coordination: subprocess.Popen[bytes] | None = None

    def train(self) -> RankFailure | None:
        """Start all and wait for them; None if a group has trained to the end, otherwise the first failure.

        ExperimentError if the lighthouse cannot be started. If it ends before the groups, they are ended.
        """
        try:
            with Outputs(self._write) as outputs:
                self._coordinate(outputs)
                for group in self._groups:
                    self._start(group, outputs)
                self._note(f"{len(self._groups)} replica groups started; the lighthouse is at {self._lighthouse}\n")
                return self._follow(outputs)
        finally:
            processes = [process for group in self._groups for process in group.processes]
            end([*processes, *([self._coordination] if self._coordination is not None else [])])

    def _coordinate(self, outputs: Outputs) -> None:
        """Have a lighthouse and stores."""
        words = () if self._lighthouse else (str(self._min_groups),)
        command = children.python("mrc_lab.torch_jobs.coordination", str(len(self._parts)), *words)
        self._coordination = process = start(self._run, self._first, command, _LOG)
        assert process.stdout is not None
        last = b"It says nothing."
        while not (line := process.stdout.readline()).startswith(b"{"):  # what comes before is the lighthouse's log
            if not line:
                raise ExperimentError("the lighthouse of torchft cannot be started", last.decode(errors="replace"))
            last = line.strip() or last
        found = strict_json.loads(line.decode())
        self._lighthouse = self._lighthouse or found["lighthouse"]
        numbered = enumerate(zip(self._parts, found["stores"], strict=True))
        self._groups = [_Group(number, ranks, store) for number, (ranks, store) in numbered]
        outputs.follow("lighthouse", process)

    def _start(self, group: _Group, outputs: Outputs) -> None:
        group.failure = None
        group.processes = []
        own = group_variables(group.number, len(self._groups), self._lighthouse, group.restarts, self._restarts)
        for number, rank in enumerate(group.ranks):
            given = {
                **variables(group.ranks, number, group.store),
                "MASTER_ADDR": self._first.host,
                MANAGER_PORT[0]: MANAGER_PORT[1],
                **own,
                **_LOG,
                **self._more,
            }
            process = start(self._run, rank, self._command, given)
            group.processes.append(process)
            outputs.follow(rank.host, process)

    def _follow(self, outputs: Outputs) -> RankFailure | None:
        first: RankFailure | None = None
        done, running = 0, len(self._groups)
        while running:
            for output in outputs.wait():
                if output.process is self._coordination:
                    return self._without_lighthouse(output)
                group = next(group for group in self._groups if output.process in group.processes)
                self._note_failure(group, output)
                if not group.ended:
                    continue
                first = first or group.failure
                if group.failure is not None and group.restarts < self._restarts:
                    group.restarts += 1
                    self._start(group, outputs)
                    continue
                running -= 1
                done += group.failure is None
        if done < len(self._groups):
            self._write(f"{done} of {len(self._groups)} replica groups trained to the end.\n")
        return None if done else first

    def _note_failure(self, group: _Group, output: Output) -> None:
        """If this rank is the first of its group that has failed, say so and kill the group's others."""
        status = output.process.wait()
        if not status or group.failure is not None:
            return
        group.failure = failure = failed(output.name, status)
        what = f"starts again ({group.restarts + 1} of {self._restarts})"
        if group.restarts == self._restarts:
            what = "does not start again"
        self._write(f"[{output.name}] {failure.words}; replica group {group.number} {what}.\n")
        for process in group.processes:
            process.kill()

    def _without_lighthouse(self, output: Output) -> RankFailure:
        failure = failed(output.name, output.process.wait())
        self._write(f"[{output.name}] {failure.words}; without it no quorum forms, so all replica groups are ended.\n")
        return failure
