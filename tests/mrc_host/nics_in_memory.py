"""MRC NICs joined in the memory of one process, in real time, each behind an agent's socket: hosts without a fabric.

Programs with a process for each rank, such as PyTorch's own tests, run on them without root: rank r takes
``FOLDER/h<r+1>.sock``. The child, ``nics_in_memory FOLDER COUNT``, serves them until its input is closed. What a port
sends is at once at the NIC that its outer address names, as if switches had passed it on.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mrc_common import children
from mrc_host.agent.server import AgentServer
from mrc_host.back_to_back import nic_config
from mrc_host.driver.loop import Loop
from mrc_host.nic import Nic
from mrc_host.verbs_types import QpInfo

PLANES = 2
_MAC, _OUTER_USID = 6, 14 + 24 + 4  # of a frame: its receiver's address ends; the uSID behind the block begins
_BATCH = 16  # frames of one port before the next one's


def _all_arrive(sender: int, receiver: int, plane: int) -> bool:
    return True


class NicsInMemory:
    """`count` NICs and their agents, in `loop`; `carries` says whether a frame from one NIC to another arrives."""

    def __init__(
        self, folder: Path, count: int, loop: Loop, carries: Callable[[int, int, int], bool] = _all_arrive
    ) -> None:
        self._carries = carries
        configs = [nic_config(number, nics=count, planes=PLANES) for number in range(count)]
        self.nics = [Nic(config, seed=number) for number, config in enumerate(configs)]
        self._port_of = {
            port.usid.to_bytes(2, "big"): (number, port.mac)
            for number, config in enumerate(configs)
            for port in config.ports
        }
        self.servers = [AgentServer(nic, loop, folder / f"{nic.config.name}.sock") for nic in self.nics]
        for server in self.servers:
            server.start()
        loop.add_turn(self._turn)

    def _turn(self, now: int) -> int | None:
        for nic in self.nics:
            due = nic.wakeup()
            if due is not None and due <= now:
                nic.tick(now)
        carried = sum(self._carry(number, port, now) for number in range(len(self.nics)) for port in range(PLANES))
        if carried:
            return now
        return min((due for nic in self.nics if (due := nic.wakeup()) is not None), default=None)

    def _carry(self, sender: int, port: int, now: int) -> int:
        for number in range(_BATCH):
            frame = self.nics[sender].transmit(port, now)
            if frame is None:
                return number
            to, mac = self._port_of[bytes(frame[_OUTER_USID : _OUTER_USID + 2])]
            if self._carries(sender, to, port):
                self.nics[to].receive(port, memoryview(mac + frame[_MAC:]), now)
        return _BATCH


@dataclass(frozen=True)
class Hosts:
    """The sockets of NICs in a thread of this process, and the first of the NICs."""

    paths: list[Path]
    nic: Nic
    loop: Loop

    def queue_pairs(self) -> list[QpInfo]:
        """Those of the first NIC, in the order of their creation."""
        found = self.loop.call(lambda: [self.nic.query_qp(qpn) for qpn in self.nic._qps.by_qpn], 10)
        assert isinstance(found, list)
        return found


@contextlib.contextmanager
def nics_in_thread(folder: Path, count: int) -> Iterator[Hosts]:
    """NICs of this process, for tests that look at them, at sockets in `folder`."""
    loop = Loop()
    nics = NicsInMemory(folder, count, loop)
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    try:
        yield Hosts([folder / f"h{number + 1}.sock" for number in range(count)], nics.nics[0], loop)
    finally:
        for server in nics.servers:
            loop.call(server.close, 10)
        loop.stop()
        thread.join(10)
        loop.close()


@contextlib.contextmanager
def nics_in_memory(folder: Path, count: int) -> Iterator[None]:
    """NICs of a process of their own, at sockets in `folder`."""
    command = children.python(__name__, str(folder), str(count))
    with children.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.stdin.close()
            process.wait(20)


def main() -> None:
    """The child."""
    loop = Loop()
    nics = NicsInMemory(Path(sys.argv[1]), int(sys.argv[2]), loop)

    def until_closed() -> None:
        sys.stdin.read()
        loop.stop()

    threading.Thread(target=until_closed, daemon=True).start()
    print("ready", flush=True)
    loop.run()
    for server in nics.servers:
        server.close()


if __name__ == "__main__":
    main()
