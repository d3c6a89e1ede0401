"""A switch process on wires: veth pairs whose far ends are raw sockets of the test."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.time_limit_keeper import share
from tests.waiting import TIMEOUT_S

ETH_P_ALL = 3
PACKET_IGNORE_OUTGOING = 23
PREFIX = f"sp{os.getpid() % 10000}"


def ip(command: str) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *command.split()], check=True, capture_output=True)


class Wire:
    """One veth pair: `inside` is for the switch, the test holds the other end."""

    def __init__(self, number: int) -> None:
        self.inside, self.outside = f"{PREFIX}s{number}", f"{PREFIX}t{number}"
        self._socket: socket.socket | None = None
        self.create()

    def create(self) -> None:
        ip(f"link add {self.inside} mtu 4500 type veth peer name {self.outside} mtu 4500")
        for name in (self.inside, self.outside):
            with contextlib.suppress(OSError):  # a kernel without IPv6 says nothing of its own anyway
                Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            ip(f"link set {name} up")
        self.open()

    def open(self) -> None:
        """Hold the far end by a new socket, in which nothing waits."""
        if self._socket is not None:
            self._socket.close()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0))
        self._socket.setsockopt(263, PACKET_IGNORE_OUTGOING, 1)  # SOL_PACKET
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        self._socket.bind((self.outside, ETH_P_ALL))

    def delete(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        with contextlib.suppress(subprocess.CalledProcessError):
            ip(f"link del {self.inside}")

    @property
    def socket(self) -> socket.socket:
        assert self._socket is not None
        return self._socket

    def send(self, frame: bytes) -> None:
        self.socket.send(frame)

    def receive(self, timeout: float = 2.0) -> bytes | None:
        """The next frame, or None when none comes in time."""
        self.socket.settimeout(timeout)
        try:
            return self.socket.recv(65536)
        except TimeoutError:
            return None

    def drain(self) -> int:
        """Throw away what has come; how many frames."""
        count = 0
        while self.receive(0.05) is not None:
            count += 1
        return count

    def far_end(self, state: str) -> None:
        """Set the test's end up or down: the switch's end gains or loses carrier."""
        ip(f"link set {self.outside} {state}")


class Process:
    """A running `python -m p4runtime_shim`."""

    def __init__(self, *arguments: str) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "p4runtime_shim", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.ready_after = time.monotonic() - self.started

    @property
    def address(self) -> str:
        """Where clients connect."""
        words = dict(word.partition("=")[::2] for word in self.line.split()[1:])
        return words["grpc"]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float, str]:
        """Exit status, seconds it took, standard error.

        A switch process ends within two seconds, if need be without tidying up (``p4runtime_shim/shutdown.py``). On a
        machine that is too busy for the rest that is as good as status 0.
        """
        start = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            _, errors = self.process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        cut_short = self.process.returncode == 128 + signal.SIGTERM and share() < 1
        return 0 if cut_short else self.process.returncode, time.monotonic() - start, errors


@contextlib.contextmanager
def wires(count: int) -> Iterator[list[Wire]]:
    """Veth pairs, removed afterwards."""
    made: list[Wire] = []
    try:
        made.extend(Wire(number) for number in range(1, count + 1))
        yield made
    finally:
        for wire in made:
            wire.delete()


@contextlib.contextmanager
def namespace(name: str, cables: list[Wire]) -> Iterator[str]:
    """A network namespace that holds the switch's ends of the wires, all up; removed afterwards, with the wires."""
    ip(f"netns add {name}")
    try:
        ip(f"-n {name} link set lo up")
        for wire in cables:
            ip(f"link set {wire.inside} netns {name}")
            quiet = f"echo 1 > /proc/sys/net/ipv6/conf/{wire.inside}/disable_ipv6"
            subprocess.run(["ip", "netns", "exec", name, "sh", "-c", quiet], check=True)
            ip(f"-n {name} link set {wire.inside} up")
        yield name
    finally:
        for wire in cables:  # at once, not when the kernel gets round to the namespace
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(f"link del {wire.outside}")
        ip(f"netns del {name}")


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[Process]:
    """A process that must become ready, stopped afterwards if the test has not."""
    process = Process(*arguments)
    try:
        if not process.line.startswith("ready "):
            _, _, errors = process.stop()
            raise AssertionError(f"the process did not become ready: {errors}")
        yield process
    finally:
        if process.process.poll() is None:
            process.stop()
        for pipe in (process.process.stdout, process.process.stderr):
            if pipe is not None:
                pipe.close()
