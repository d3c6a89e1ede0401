"""A vector on BMv2: simple_switch_grpc on veth pairs, in a network namespace (its Thrift port is open to all).

The switch stays; every vector pushes its pipeline config, which empties tables and state. What a frame causes is
awaited by count (the embedded switch has told how many), and at the end for as long as nothing more comes.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc

from p4runtime_shim.program import load_program
from p4runtime_shim.server import packets
from tests.integration.wires import Wire, ip, until, wires
from tests.p4runtime_shim.differential.embedded import (
    WIDEST_REGISTER,
    collect_counters,
    packet_in,
    wanted,
)
from tests.p4runtime_shim.differential.vectors import (
    CPU_PORT,
    PORTS,
    Outcome,
    Vector,
    leaves,
    p4info,
    program_text,
    schema,
    shown,
)
from topologies.emulation import namespaces
from topologies.emulation.bmv2 import ThriftClient

THRIFT_PORT = 9090
PATIENCE_S = 0.5  # for a frame that is expected
QUIET_S = 0.08  # without anything new: the vector is over
SILENT_S = 0.003  # after a frame that is expected to be dropped
ELECTION = p4r.Uint128(high=0, low=1)

MISSING = (
    "BMv2 (simple_switch_grpc) is not installed"
    if shutil.which("simple_switch_grpc") is None
    else "making network namespaces needs root"
    if os.geteuid() != 0
    else None
)


class Bmv2:
    """A running switch without a program."""

    def __init__(self, cables: list[Wire], directory: Path, namespace: str) -> None:
        self._wires = dict(zip(PORTS, cables, strict=True))
        command = ["ip", "netns", "exec", namespace, "simple_switch_grpc", "--no-p4", "--device-id", "1"]
        for port, wire in self._wires.items():
            command += ["-i", f"{port}@{wire.inside}"]
        command += ["--thrift-port", str(THRIFT_PORT), "--notifications-addr", f"ipc://{directory}/notify.ipc", "--"]
        command += ["--grpc-server-addr", f"unix:{directory}/grpc.sock", "--priority-queues", "8"]
        command += ["--cpu-port", str(CPU_PORT)]
        with (directory / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until(lambda: (directory / "grpc.sock").exists(), "BMv2 to listen", 20)
        self._channel = grpc.insecure_channel(f"unix:{directory}/grpc.sock")
        grpc.channel_ready_future(self._channel).result(timeout=20)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._told: queue.Queue[p4r.StreamMessageResponse] = queue.Queue()
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=self._listen, daemon=True).start()
        update = p4r.MasterArbitrationUpdate(device_id=1, election_id=ELECTION)
        self._requests.put(p4r.StreamMessageRequest(arbitration=update))
        assert self._told.get(timeout=10).HasField("arbitration")

    def _listen(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for message in self._stream:
                self._told.put(message)

    def stop(self) -> None:
        """End the process."""
        self._requests.put(None)
        self._stream.cancel()
        self._channel.close()
        self._process.terminate()
        self._process.wait(10)

    def run(self, vector: Vector, expected: list[int]) -> Outcome:
        """The outcome of a vector; `expected` is how many frames to wait for after each that goes in."""
        self._load(vector.program)
        outcome = Outcome()
        try:
            self._write(vector.updates)
            for (port, frame), count in zip(vector.frames, expected, strict=True):
                self._send(vector.program, port, frame)
                self._collect(vector.program, outcome, count)
            self._collect_rest(vector.program, outcome)
            answers = self._stub.Read(p4r.ReadRequest(device_id=1, entities=wanted(vector.program)))
            collect_counters((entity for answer in answers for entity in answer.entities), vector.program, outcome)
            self._registers(vector.program, outcome)
        finally:
            self._forget(vector.updates)
        return outcome

    def _load(self, program: str) -> None:
        config = p4r.ForwardingPipelineConfig(p4info=p4info(program), p4_device_config=program_text(program).encode())
        request = p4r.SetForwardingPipelineConfigRequest(device_id=1, election_id=ELECTION, config=config)
        request.action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        self._stub.SetForwardingPipelineConfig(request, timeout=20)

    def _write(self, updates: tuple[bytes, ...]) -> None:
        for update in updates:
            request = p4r.WriteRequest(device_id=1, election_id=ELECTION, updates=[p4r.Update.FromString(update)])
            self._stub.Write(request, timeout=20)

    def _forget(self, updates: tuple[bytes, ...]) -> None:
        """Delete what outlives a program in BMv2: multicast groups, clone sessions."""
        for data in reversed(updates):
            update = p4r.Update.FromString(data)
            if update.entity.WhichOneof("entity") in ("packet_replication_engine_entry", "digest_entry"):
                update.type = p4r.Update.DELETE
                self._write((update.SerializeToString(),))

    def _send(self, program: str, port: int, frame: bytes) -> None:
        if port != CPU_PORT:
            self._wires[port].send(frame)
            return
        message = packets.from_frame(schema(program).packet_out, frame)
        assert message is not None
        packet = p4r.PacketOut(payload=message.payload)
        for item in message.metadata:
            packet.metadata.add(metadata_id=item.metadata_id, value=item.value)
        self._requests.put(p4r.StreamMessageRequest(packet=packet))

    def _collect(self, program: str, outcome: Outcome, count: int) -> None:
        if not count:
            time.sleep(SILENT_S)
            return
        deadline = time.monotonic() + PATIENCE_S
        while count > 0 and time.monotonic() < deadline:
            found = self._poll(program, outcome)
            count -= found
            if not found:
                time.sleep(0.0001)

    def _collect_rest(self, program: str, outcome: Outcome) -> None:
        last = time.monotonic()
        while time.monotonic() < last + QUIET_S:
            if self._poll(program, outcome):
                last = time.monotonic()
            time.sleep(0.002)

    def _poll(self, program: str, outcome: Outcome) -> int:
        count = 0
        for port, wire in self._wires.items():
            wire.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while frame := wire.socket.recv(65536):
                    outcome.frames.setdefault(str(port), []).append(shown(program, frame))
                    count += 1
        with contextlib.suppress(queue.Empty):
            while message := self._told.get_nowait():
                if message.HasField("packet"):
                    outcome.packet_ins.append(packet_in(message.packet))
                    count += 1
                elif message.HasField("digest"):
                    for item in message.digest.data:
                        outcome.add_digest([message.digest.digest_id, *leaves(item)])
        return count

    def _registers(self, program: str, outcome: Outcome) -> None:
        def read() -> dict[str, list[int]]:
            found: dict[str, list[int]] = {}
            with ThriftClient(THRIFT_PORT) as client:
                for register in load_program(program_text(program)).registers:
                    if register.width <= WIDEST_REGISTER:
                        cells = [client.register(register.name, index) for index in range(register.size)]
                        if any(cells):
                            found[register.name] = cells
            return found

        outcome.registers = namespaces.run_inside(self._process.pid, read)


@contextlib.contextmanager
def bmv2(directory: Path) -> Iterator[Bmv2]:
    """A BMv2 without a program, taken down afterwards."""
    namespace = f"mrcd{os.getpid()}"
    with wires(len(PORTS)) as cables:
        ip(f"netns add {namespace}")
        try:
            ip(f"-n {namespace} link set lo up")
            for wire in cables:
                ip(f"link set {wire.inside} netns {namespace}")
                quiet = f"echo 1 > /proc/sys/net/ipv6/conf/{wire.inside}/disable_ipv6"
                subprocess.run(["ip", "netns", "exec", namespace, "sh", "-c", quiet], check=True)
                ip(f"-n {namespace} link set {wire.inside} up")
            switch = Bmv2(cables, directory, namespace)
            try:
                yield switch
            finally:
                switch.stop()
        finally:
            ip(f"netns del {namespace}")


__all__: list[Any] = ["MISSING", "Bmv2", "bmv2"]
