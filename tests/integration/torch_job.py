"""A rank of a PyTorch program in each host of a fabric; what each prints goes to a file, and each may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mrc_lab.fabric.emulation import EmulatedWorld
from mrc_lab.torch_jobs.launch import Rank, variables
from tests.waiting import until
from topologies.emulation import host_environment, namespaces


class Job:
    """The ranks of `program`, which is called with `arguments` and gets the number of each process in PROCESS."""

    def __init__(self, world: EmulatedWorld, folder: Path, program: str, *arguments: str, port: int = 29500) -> None:
        self._world, self._folder, self._arguments, self._port = world, folder, arguments, port
        self._script = folder / "job.py"
        self._script.write_text(program)
        shells = world.emulation.run.shells()
        self.hosts = list(world.fabric.nic_names)
        self._ranks = [Rank(host, shells[host].pid) for host in self.hosts]
        self.outputs: list[Path] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        for number in range(len(self._ranks)):
            self.start(number)

    def start(self, number: int) -> int:
        """Start a rank, or another process for it; returns the number of the process."""
        rank, process = self._ranks[number], len(self.processes)
        self.outputs.append(self._folder / f"process{process}")
        with self.outputs[process].open("w") as output:
            self.processes.append(
                subprocess.Popen(
                    [*namespaces.enter_host(rank.shell), sys.executable, str(self._script), *self._arguments],
                    env={
                        **os.environ,
                        **host_environment.variables(self._world.emulation.run, rank.host),
                        **variables(self._ranks, number, self._port),
                        "PROCESS": str(process),
                    },
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
        return process

    def lines(self, process: int, word: str) -> list[str]:
        """Whole lines that a process printed with this word at the beginning."""
        printed = self.outputs[process].read_text()
        return [line for line in printed[: printed.rfind("\n") + 1].splitlines() if line.startswith(word)]

    def sums(self) -> int:
        """How far rank 0 says that the sums are."""
        return len(self.lines(0, "sum"))

    def go_on(self, count: int = 20) -> None:
        """Until the ranks have done as many more sums."""
        before = self.sums()
        until(lambda: self.sums() >= before + count, "the sums to go on")

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
