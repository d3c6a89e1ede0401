"""Keep a PyTorch job going on the hosts that are left: torchrun in every host of a fabric, and a watch over the NICs.

    sudo mrc up --name lab
    sudo .venv/bin/python examples/elastic.py lab --steps 100 --checkpoint /tmp/gpt.pt

It does what a cluster's scheduler does. Each host runs an elastic torchrun with ``examples/gpt.py`` below it; they find
each other at the first host. When a rank's operation fails, for its peer is gone, torchrun ends the rank, meets the
others again, and starts a new one that goes on from the last checkpoint. It cannot know that a host's NIC is gone,
though, and would start ranks there in vain. So every half a second each host's NIC is asked for its state, and where
no NIC answers, that host is drained: all that runs there is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import find_fabric
from topologies.emulation.run_directory import RunDirectory
from topologies.loader import load_file

GPT = Path(__file__).with_name("gpt.py")
BIN = Path(sys.executable).parent
WATCH_S = 0.5
# A node that is silent for 3 s is gone; when ranks meet again, the last one is waited for for 2 s.
MEETING = "keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=2,join_timeout=120"


class Node:
    """One host: its torchrun, and the processes below it."""

    def __init__(self, run: RunDirectory, host: str, hosts: list[str], arguments: list[str]) -> None:
        self.host = host
        self._socket = run.host_socket(host)
        self.process = subprocess.Popen(
            [
                BIN / "mrc", "exec", "--fabric", run.name, host, "--", BIN / "torchrun", "--nnodes", f"1:{len(hosts)}",
                "--nproc-per-node", "1", "--max-restarts", "5", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                f"{hosts[0]}:29400", "--rdzv-id", "gpt", "--rdzv-conf", MEETING, "--local-addr", host, GPT, *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        threading.Thread(target=self._print, daemon=True).start()

    def healthy(self) -> bool:
        """Whether the NIC answers; it may take as long as it likes, as a slow one is not gone."""
        try:
            verbs.open(str(self._socket)).close()
        except MrcError:
            return False
        return True

    def drain(self) -> None:
        """Kill torchrun and its ranks."""
        for group in self._groups():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.process.wait()

    def _groups(self) -> set[int]:
        """The process groups of torchrun and of its ranks, which have their own."""
        below = [self.process.pid]
        for pid in below:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                below += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        groups = set()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                groups.add(os.getpgid(pid))
        return groups

    def _print(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(f"[{self.host}] {line}", end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="Other options go to gpt.py.")
    parser.add_argument("fabric")
    options, arguments = parser.parse_known_args()
    try:
        run = find_fabric(options.fabric)
    except ExperimentError as error:
        parser.error(str(error))
    hosts = [nic.name for nic in load_file(run.fabric_file).nics]
    nodes = [Node(run, host, hosts, ["--timeout", "20", *arguments]) for host in hosts]
    try:
        while running := [node for node in nodes if node.process.poll() is None]:
            for node in running:
                if not node.healthy():
                    print(f"[{node.host}] is drained: its NIC does not answer", flush=True)
                    node.drain()
                    nodes.remove(node)
            time.sleep(WATCH_S)
    finally:
        for node in nodes:
            if node.process.poll() is None:
                node.drain()
    return max((node.process.returncode for node in nodes), key=abs, default=1)


if __name__ == "__main__":
    sys.exit(main())
