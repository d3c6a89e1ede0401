"""A vector on BMv2: simple_switch_grpc on veth pairs, in a network namespace (its Thrift port is open to all).

The switch stays; every vector pushes its pipeline config, which empties tables and state. Frames go in one at a time,
each when BMv2 has done with the one before, so that a slow machine changes nothing. A BMv2 that crashes or hangs is
reported with the last lines of its log, and the next vector gets a new one.

BMv2 1.15.5 crashes (SIGSEGV) on a pipeline config that arrives while a digest of the program before is on its way: its
P4Runtime server acknowledges the digest (PI, digest_mgr.cpp, TaskNewDigest) by looking its name up in the new P4Info,
which has none. No config is pushed here before BMv2 is idle.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from finsy.proto import p4i, p4r

from p4runtime_shim.server import packet_io
from tests.integration.veth_switch import Wire, namespace, wires
from tests.p4runtime_shim.differential.embedded import collect_counters, packet_in, wanted
from tests.p4runtime_shim.differential.process import Process
from tests.p4runtime_shim.differential.vectors import CPU_PORT, PORTS, Outcome, Vector, leaves, schema, shown

KERNEL_S = 2.0  # for a frame that BMv2 has sent to be at the other end of the wire

MISSING = (
    "BMv2 (simple_switch_grpc) is not installed"
    if shutil.which("simple_switch_grpc") is None
    else "making network namespaces needs root"
    if os.geteuid() != 0
    else None
)


class Bmv2Error(AssertionError):
    """BMv2 crashed, hung, or refused what the embedded switch takes."""


class Bmv2:
    """A place for one BMv2 at a time: wires, a namespace, a directory."""

    def __init__(self, cables: list[Wire], directory: Path, namespace: str) -> None:
        self._wires = dict(zip(PORTS, cables, strict=True))
        self._directory = directory
        self._namespace = namespace
        self._started = 0
        self.process: Process | None = None

    def run(self, vector: Vector, expected: int, json: str | None = None) -> Outcome:
        """The outcome of a vector; `expected` is how many frames and packet-ins the embedded switch sent.

        With `json`, it is that of another compiler's output than p4c's.

        Raises Bmv2Error, after which the next vector gets a new process.
        """
        try:
            return self._run(self.process or self._start(), vector, expected, json)
        except Exception as error:
            state = "it did not start" if self.process is None else self.process.state()
            self.stop()
            raise Bmv2Error(f"{vector.program}: {error}\n{state}") from error

    def frame(self, info: p4i.P4Info, json: str, port: int, data: bytes) -> dict[str, list[str]]:
        """Frames that any program, without entries, makes of one frame: by port, in hexadecimal."""
        process = self.process or self._start()
        process.push(info, json)
        self._wires[port].send(data)
        process.finish(port, len(data))
        outcome = Outcome()
        self._collect("", outcome, 1)
        return outcome.frames

    def stop(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def _start(self) -> Process:
        self._started += 1
        directory = self._directory / str(self._started)
        directory.mkdir()
        self.process = Process(self._wires, directory, self._namespace)
        self.process.connect()
        return self.process

    def _run(self, process: Process, vector: Vector, expected: int, json: str | None) -> Outcome:
        process.load(vector.program, json)
        outcome = Outcome()
        for update in vector.updates:
            process.write(p4r.Update.FromString(update))
        for port, frame in vector.frames:
            self._pass(process, vector.program, port, frame, outcome)
        _note(process.stream_messages(), outcome)
        self._collect(vector.program, outcome, expected - len(outcome.packet_ins))
        collect_counters(process.read(wanted(vector.program)), vector.program, outcome)
        outcome.registers = process.registers(vector.program)
        self._forget(process, vector.updates)
        return outcome

    def _pass(self, process: Process, program: str, port: int, frame: bytes, outcome: Outcome) -> None:
        if port != CPU_PORT:
            self._wires[port].send(frame)
            process.finish(port, len(frame))
            return
        message = packet_io.from_frame(schema(program).packet_out, frame)
        assert message is not None
        packet = p4r.PacketOut(payload=message.payload)
        for item in message.metadata:
            packet.metadata.add(metadata_id=item.metadata_id, value=item.value)
        _note(process.packet_out(packet), outcome)

    def _collect(self, program: str, outcome: Outcome, expected: int) -> None:
        """Take what has come out of the ports; BMv2 has sent it, only the kernel may still have it."""
        deadline = time.monotonic() + KERNEL_S
        while True:
            for port, wire in self._wires.items():
                wire.socket.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while frame := wire.socket.recv(65536):
                        outcome.frames.setdefault(str(port), []).append(shown(program, frame))
            if sum(map(len, outcome.frames.values())) >= expected or time.monotonic() > deadline:
                return
            time.sleep(0.001)

    @staticmethod
    def _forget(process: Process, updates: tuple[bytes, ...]) -> None:
        """Delete what outlives a program in BMv2: multicast groups, clone sessions."""
        for data in reversed(updates):
            update = p4r.Update.FromString(data)
            if update.entity.WhichOneof("entity") in ("packet_replication_engine_entry", "digest_entry"):
                update.type = p4r.Update.DELETE
                process.write(update)


def _note(messages: list[p4r.StreamMessageResponse], outcome: Outcome) -> None:
    for message in messages:
        if message.HasField("packet"):
            outcome.packet_ins.append(packet_in(message.packet))
        elif message.HasField("digest"):
            for item in message.digest.data:
                outcome.digests.append([message.digest.digest_id, *leaves(item)])


@contextlib.contextmanager
def bmv2(directory: Path) -> Iterator[Bmv2]:
    """A place for BMv2, with its process taken down afterwards."""
    with wires(len(PORTS)) as cables, namespace(f"mrcd{os.getpid()}", cables) as place:
        switch = Bmv2(cables, directory, place)
        try:
            yield switch
        finally:
            switch.stop()


__all__ = ["MISSING", "Bmv2", "Bmv2Error", "bmv2"]
