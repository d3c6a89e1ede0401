"""Replica groups of torchft: what ``mrc train --elastic torchft`` starts, and starts again when one is lost.

A group has one rank in each of its hosts, which get what torchrun and torchft's own launcher (its torchx component)
would give them: the usual variables, a store of the group, REPLICA_GROUP_ID, NUM_REPLICA_GROUPS and the lighthouse's
address. A group is lost when one of its ranks has failed; then its other ranks are killed, and all are started again as
often as is allowed. The others know nothing of it but by their own means. Once a group has trained to the end, the job
is done, and the others get a last minute. Lighthouse and stores are in a process in the first host (`coordination`); an
address in TORCHFT_LIGHTHOUSE is that of the user's own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mrc_common import children, strict_json
from mrc_lab.errors import ExperimentError
from mrc_lab.torch_jobs.launch import Rank, RankFailure, end, failed, start, variables
from mrc_lab.torch_jobs.outputs import Output, Outputs
from topologies.emulation import namespaces
from topologies.emulation.run_directory import RunDirectory

RESTARTS = 10  # torchft's own launcher's
LIGHTHOUSE = "TORCHFT_LIGHTHOUSE"
LAST_S = 60.0  # torchft's own timeout of operations, in which a group that was at the same step notices the end
_LOG = {"RUST_LOG": os.environ.get("RUST_LOG", "warn")}  # of torchft, which otherwise prints ten lines a step


@dataclass(slots=True)
class _Group:
    """Its ranks, the ports of its store and of its manager, and its processes now.

    The manager has the same port after a restart: the store keeps its address, which all ranks but the first read.
    """

    number: int
    ranks: Sequence[Rank]
    store: int
    manager: int
    restarts: int = 0  # so far
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    running: int = 0  # processes
    failure: RankFailure | None = None  # the first of the present start


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
        self._done = 0  # groups that have trained to the end
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
        self._groups = [_Group(number, ranks, store, _free_port(ranks[0])) for number, (ranks, store) in numbered]
        outputs.follow("lighthouse", process)

    def _start(self, group: _Group, outputs: Outputs) -> None:
        group.failure, group.processes, group.running = None, [], len(group.ranks)
        own = {
            "MASTER_ADDR": self._first.host,
            "REPLICA_GROUP_ID": str(group.number),
            "NUM_REPLICA_GROUPS": str(len(self._groups)),
            LIGHTHOUSE: self._lighthouse,
            "TORCHFT_MANAGER_PORT": str(group.manager),
            "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is there already
            "TORCHELASTIC_RESTART_COUNT": str(group.restarts),
            "TORCHELASTIC_MAX_RESTARTS": str(self._restarts),
            **_LOG,
            **self._more,
        }
        for number, rank in enumerate(group.ranks):
            process = start(self._run, rank, self._command, {**variables(group.ranks, number, group.store), **own})
            group.processes.append(process)
            outputs.follow(rank.host, process)

    def _follow(self, outputs: Outputs) -> RankFailure | None:
        first: RankFailure | None = None
        running, done_at = len(self._groups), 0.0
        while running:
            left = done_at + LAST_S - time.monotonic() if self._done else None
            if left is not None and left <= 0:
                break
            for output in outputs.wait(left):
                if output.process is self._coordination:
                    return self._without_lighthouse(output)
                group = next(group for group in self._groups if output.process in group.processes)
                group.running -= 1
                self._note_failure(group, output)
                if group.running:
                    continue
                if group.failure is None:
                    self._done += 1
                    done_at = done_at or time.monotonic()
                elif self._starts_again(group):
                    group.restarts += 1
                    self._start(group, outputs)
                    continue
                first = first or group.failure
                running -= 1
        if self._done < len(self._groups):
            self._write(f"{self._done} of {len(self._groups)} replica groups trained to the end.\n")
        return None if self._done else first

    def _starts_again(self, group: _Group) -> bool:
        return not self._done and group.restarts < self._restarts

    def _note_failure(self, group: _Group, output: Output) -> None:
        """If this rank is the first of its group that has failed, say so and kill the group's others."""
        status = output.process.wait()
        if not status or group.failure is not None:
            return
        group.failure = failure = failed(output.name, status)
        again = f"starts again ({group.restarts + 1} of {self._restarts})"
        what = again if self._starts_again(group) else "does not start again"
        self._write(f"[{output.name}] {failure.words}; replica group {group.number} {what}.\n")
        for process in group.processes:
            process.kill()

    def _without_lighthouse(self, output: Output) -> RankFailure:
        failure = failed(output.name, output.process.wait() or 1)  # it should not have ended at all
        self._write(f"[{output.name}] {failure.words}; without it no quorum forms, so all replica groups are ended.\n")
        return failure


def _free_port(rank: Rank) -> int:
    """A TCP port that nobody uses in a host now."""

    def find() -> int:
        with socket.create_server(("", 0)) as server:
            port: int = server.getsockname()[1]
            return port

    return namespaces.run_inside(rank.shell, find)
