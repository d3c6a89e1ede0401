"""One simple_switch_grpc process: started, spoken to over P4Runtime and Thrift, and known to be done.

Nothing here waits for a time to pass. BMv2 has taken a frame when the frame is in the file to which it dumps what it
receives; it has done with it when its threads are at rest (tests/integration/rest.py); and what it has sent to the
controller has arrived when the answer to an arbitration message has, which travels behind it in the same stream. Each
of these has a higher election id, since BMv2 does not answer when nothing changes.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
from finsy.proto import p4i, p4r, p4r_grpc

from p4runtime_shim.program import load_program
from tests.integration.rest import wait_until_at_rest
from tests.integration.veth_switch import Wire
from tests.p4runtime_shim.differential.embedded import WIDEST_REGISTER
from tests.p4runtime_shim.differential.vectors import CPU_PORT, p4info, program_text
from topologies.emulation import namespaces
from topologies.emulation.bmv2 import ThriftClient
from topologies.emulation.switches import bmv2_options

THRIFT_PORT = 9090
HUNG_S = 60.0  # for whatever must happen, however slow the machine
PCAP_HEADER, PCAP_RECORD = 24, 16  # bytes, of a capture file and of each frame in it
LAST_LINES = 15


class Process:
    """A running switch that the test controls, without a program at first. `stop` must be called."""

    def __init__(self, wires: dict[int, Wire], directory: Path, namespace: str) -> None:
        self._directory = directory
        self._received = {port: (directory / f"{wire.inside}_in.pcap", PCAP_HEADER) for port, wire in wires.items()}
        command = ["ip", "netns", "exec", namespace, "simple_switch_grpc", "--no-p4", "--device-id", "1"]
        for port, wire in wires.items():
            command += ["-i", f"{port}@{wire.inside}"]
        command += ["--log-console", "--log-level", "error", "--pcap", str(directory)]
        addresses = {"--thrift-port": str(THRIFT_PORT), "--notifications-addr": f"ipc://{directory}/notify.ipc"}
        command += [*bmv2_options(addresses), "--"]
        command += ["--grpc-server-addr", f"unix:{directory}/grpc.sock", "--priority-queues", "8"]
        command += ["--cpu-port", str(CPU_PORT)]
        with (directory / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._channel = grpc.insecure_channel(
            f"unix:{directory}/grpc.sock", options=[("grpc.initial_reconnect_backoff_ms", 50)]
        )
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._told: queue.Queue[p4r.StreamMessageResponse] = queue.Queue()
        self._election = p4r.Uint128(high=0, low=0)

    @property
    def pid(self) -> int:
        """Of simple_switch_grpc."""
        return self._process.pid

    def connect(self) -> None:
        """Wait for the server, and become the primary controller."""
        ready = grpc.channel_ready_future(self._channel)
        deadline = time.monotonic() + HUNG_S
        while True:
            with contextlib.suppress(grpc.FutureTimeoutError):
                ready.result(timeout=0.2)
                break
            assert self._process.poll() is None, "BMv2 ended before it listened"
            assert time.monotonic() < deadline, "BMv2 does not listen"
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=self._listen, daemon=True).start()
        self.stream_messages()

    def stop(self) -> None:
        """End the process."""
        self._requests.put(None)
        self._channel.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:  # it hangs
            self._process.kill()
            self._process.wait()

    def state(self) -> str:
        """Whether it lives, and the last lines of its log."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)  # what it broke may be noticed before its end
        status = self._process.returncode
        alive = "BMv2 is alive" if status is None else f"BMv2 has ended with status {status}"
        lines = (self._directory / "log").read_text(errors="replace").splitlines()[-LAST_LINES:]
        return f"{alive}; its last lines: " + ("\n  ".join(["", *lines]) if lines else "none")

    def load(self, program: str, json: str | None = None) -> None:
        """Push a pipeline config, which empties tables and cells; `json` instead of what p4c made of the program."""
        self.push(p4info(program), program_text(program) if json is None else json)

    def push(self, info: p4i.P4Info, json: str) -> None:
        """As `load`, of any program."""
        config = p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=json.encode())
        request = p4r.SetForwardingPipelineConfigRequest(device_id=1, election_id=self._election, config=config)
        request.action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        self._stub.SetForwardingPipelineConfig(request, timeout=HUNG_S)

    def write(self, update: p4r.Update) -> None:
        """One update of a table or the like."""
        self._stub.Write(p4r.WriteRequest(device_id=1, election_id=self._election, updates=[update]), timeout=HUNG_S)

    def read(self, entities: list[p4r.Entity]) -> Iterator[p4r.Entity]:
        """What P4Runtime says about some entities."""
        for answer in self._stub.Read(p4r.ReadRequest(device_id=1, entities=entities), timeout=HUNG_S):
            yield from answer.entities

    def registers(self, program: str) -> dict[str, list[int]]:
        """Register arrays that are not all zero."""

        def read() -> dict[str, list[int]]:
            found: dict[str, list[int]] = {}
            with ThriftClient(THRIFT_PORT) as client:
                for register in load_program(program_text(program)).registers:
                    if register.width <= WIDEST_REGISTER:
                        cells = [client.register(register.name, index) for index in range(register.size)]
                        if any(cells):
                            found[register.name] = cells
            return found

        return namespaces.run_inside(self._process.pid, read)

    def finish(self, port: int, length: int) -> None:
        """Wait until BMv2 has done all that it does for a frame just sent to one of its ports."""
        capture, size = self._received[port]
        size += PCAP_RECORD + length
        self._received[port] = capture, size
        deadline = time.monotonic() + HUNG_S
        while capture.stat().st_size < size:
            assert self._process.poll() is None, "BMv2 has ended"
            assert time.monotonic() < deadline, "BMv2 does not read its port"
            time.sleep(0.0001)
        wait_until_at_rest(self._process.pid, HUNG_S)

    def packet_out(self, packet: p4r.PacketOut) -> list[p4r.StreamMessageResponse]:
        """Send a packet, wait until BMv2 has done with it; all that it has sent to the controller meanwhile."""
        self._requests.put(p4r.StreamMessageRequest(packet=packet))
        stream_messages = self.stream_messages()
        wait_until_at_rest(self._process.pid, HUNG_S)
        return stream_messages

    def stream_messages(self) -> list[p4r.StreamMessageResponse]:
        """Everything that BMv2 has sent to the controller since the last call."""
        self._election.low += 1
        update = p4r.MasterArbitrationUpdate(device_id=1, election_id=self._election)
        self._requests.put(p4r.StreamMessageRequest(arbitration=update))
        messages: list[p4r.StreamMessageResponse] = []
        while not (message := self._next()).HasField("arbitration"):
            messages.append(message)
        return messages

    def _next(self) -> p4r.StreamMessageResponse:
        deadline = time.monotonic() + HUNG_S
        while True:
            with contextlib.suppress(queue.Empty):
                return self._told.get(timeout=0.2)
            assert self._process.poll() is None, "BMv2 has ended"
            assert time.monotonic() < deadline, "BMv2 does not answer in its stream"

    def _listen(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for message in self._stream:
                self._told.put(message)
