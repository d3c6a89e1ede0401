"""Clients of the P4Runtime server that mean harm: random and mutated requests, programs and streams, over gRPC.

The switch runs in a process of its own, on a UNIX socket. Each request must be answered in time, with a status that
says what is wrong with it: INTERNAL and UNKNOWN are crashes (but UNKNOWN with the details of a failed batch, which
P4Runtime asks for). Beside the hostile ones a well-behaved client must be able to do its work after every case, with
one of several programs, and is told when its entries have been idle; the process must not grow without bound.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc, rpc_code
from google.protobuf.message import DecodeError, Message

from mrc_common import children
from tests.fuzz.p4runtime_targets import Target, targets
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.test_hostile import mutilate

LIMIT_S = 30.0  # for one answer; a program may have to be compiled
STREAM_S = 1.0  # of a hostile stream, which may be silent with good reason
IDLE_S = 0.6  # after which entries with the shortest timeout have expired
IDLE_SHARE = 0.2  # of the cases, which take that long
MAX_GROWTH = 1 << 30  # bytes of resident memory; each program that was loaded stays
FORBIDDEN = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
METHODS = ("Write", "Read", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig", "Capabilities")
ACTIONS = p4r.SetForwardingPipelineConfigRequest.Action.values()


class Fuzzer:
    """One switch with a CPU port and no interfaces, its good client, and its bad ones."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        address = f"unix:{self._folder.name}/s"
        command = children.python("p4runtime_shim", "--no-p4", "--cpu-port", "5", "--grpc-server-addr", address)
        self._errors = Path(self._folder.name) / "errors"
        with self._errors.open("w") as errors:
            self.process = children.popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready ")
        self._channel = grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1)])
        self._address = address
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._elections = itertools.count(2)
        self._target = targets()[0]
        self._become_primary()
        self._memory = self._resident()

    def close(self) -> None:
        self._requests.put(None)
        self._channel.close()
        self.process.terminate()
        try:
            status = self.process.wait(2.5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self._folder.cleanup()
        assert status == 0, f"the switch ended with status {status}"

    def case(self, chance: random.Random) -> None:
        attack: Callable[[random.Random], None] = chance.choice(
            (self.write, self.write, self.idle, self.read, self.garbage, self.config, self.config, self.stream)
        )
        attack(chance)
        self.check_health(chance.choice(targets()), wait_idle=chance.random() < IDLE_SHARE)

    # --- attacks

    def write(self, chance: random.Random) -> None:
        request = p4r.WriteRequest(device_id=0, election_id=p4r.Uint128(low=self._election))
        request.atomicity = chance.choice([0, 0, 1, 2])
        for _ in range(chance.choice([0, 1, 4, 64])):
            update = chance.choice(self._target.valid)
            request.updates.append(_mutated(update, chance) if chance.random() < 0.8 else update)
        self._call(self._stub.Write, _mutated(request, chance) if chance.random() < 0.2 else request)

    def idle(self, chance: random.Random) -> None:
        """Entries expire, or are deleted or changed before."""
        for _ in range(chance.choice([1, 2, 5])):
            self.write(chance)
        if self._target.timeout_ns:
            time.sleep(IDLE_S)

    def read(self, chance: random.Random) -> None:
        request = p4r.ReadRequest(device_id=0)
        for _ in range(chance.choice([0, 1, 4, 2000])):
            entity = p4r.Entity()
            entity.CopyFrom(_mutated(chance.choice(self._target.valid), chance).entity)
            if chance.random() < 0.3 and entity.HasField("table_entry"):
                entity.table_entry.time_since_last_hit.SetInParent()
            request.entities.append(entity)
        call = self._stub.Read(request, timeout=LIMIT_S)
        with answering():
            for number, _ in enumerate(call):
                if number > chance.randrange(1000):
                    call.cancel()
                    break

    def garbage(self, chance: random.Random) -> None:
        method = self._channel.unary_unary(f"/p4.v1.P4Runtime/{chance.choice(METHODS)}")
        self._call(method, chance.randbytes(chance.choice([0, 1, 10, 1000, 100_000])))

    def config(self, chance: random.Random) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(device_id=0, action=chance.choice([*ACTIONS, 1, 3, 3]))
        request.election_id.low = self._election
        target = chance.choice((self._target, self._target, *targets()))
        p4info = target.p4info
        request.config.p4info.CopyFrom(_mutated(p4info, chance) if chance.random() < 0.3 else p4info)
        document = target.program()
        for _ in range(chance.choice([0, 1, 1, 2, 5])):
            _disturb(document, chance)
        text = json.dumps(document)
        if chance.random() < 0.1:
            depth = chance.choice([100, 900, 100_000])
            text = chance.choice(["[", '{"a":']) * depth
        request.config.p4_device_config = text.encode()
        self._call(self._stub.SetForwardingPipelineConfig, request)

    def stream(self, chance: random.Random) -> None:
        with grpc.insecure_channel(self._address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
            responses = p4r_grpc.P4RuntimeStub(channel).StreamChannel(iter(requests.get, None), timeout=STREAM_S)
            for number in range(chance.choice([1, 10, 300])):
                message = p4r.StreamMessageRequest()
                kind = chance.randrange(5) if number or chance.random() < 0.2 else 0
                if kind == 0:
                    message.arbitration.device_id = chance.choice([0, 0, 0, 1])
                    message.arbitration.election_id.low = chance.choice([1, 1, next(self._elections)])
                    message.arbitration.role.name = chance.choice(["", "a", "b", "x" * chance.choice([10, 100_000])])
                elif kind == 1:
                    message.packet.payload = bytes(chance.choice([0, 1, 60, 1500, 70_000, 3_000_000]))
                elif kind == 2:
                    message.digest_ack.digest_id = chance.choice([0, sample.DIGEST])
                else:
                    message = _mutated(message, chance)
                requests.put(message)
            with answering(patient=True):
                for _ in range(chance.choice([0, 1, 10])):
                    next(responses)
            requests.put(None)
            responses.cancel()

    # --- what must hold

    def check_health(self, target: Target | None = None, *, wait_idle: bool = False) -> None:
        """The good client is served, whatever the others did; it takes its place and its program back if need be.

        With `wait_idle` it is also told when its entry has been idle, where the program has timeouts.
        """
        self._target = target or self._target
        began = time.monotonic()
        self._become_primary()
        request = p4r.SetForwardingPipelineConfigRequest(device_id=0, action=3)
        request.election_id.low = self._election
        request.config.p4info.CopyFrom(self._target.p4info)
        request.config.p4_device_config = self._target.config
        self._stub.SetForwardingPipelineConfig(request, timeout=LIMIT_S)
        write = p4r.WriteRequest(device_id=0, election_id=p4r.Uint128(low=self._election), updates=[self._target.entry])
        self._stub.Write(write, timeout=LIMIT_S)
        wanted = [p4r.Entity(table_entry={"time_since_last_hit": {}}), p4r.Entity(value_set_entry={})]
        read = self._stub.Read(p4r.ReadRequest(device_id=0, entities=wanted), timeout=LIMIT_S)
        found = [entity for response in read for entity in response.entities]
        entries = [entity.table_entry for entity in found if entity.HasField("table_entry")]
        assert len(entries) == self._target.entries, found
        timed = [entry for entry in entries if entry.HasField("time_since_last_hit")]
        assert len(timed) == (1 if self._target.timeout_ns else 0), found
        assert not any(entity.value_set_entry.members for entity in found), found
        if wait_idle and self._target.timeout_ns:
            self._await_idle(self._target.entry.entity.table_entry)
        assert time.monotonic() - began < LIMIT_S
        errors = self._errors.read_text(errors="replace")
        assert "Traceback" not in errors, errors
        grown = self._resident() - self._memory
        assert grown < MAX_GROWTH, f"the switch has grown by {grown} bytes"

    def _become_primary(self) -> None:
        self._election = next(self._elections) << 20
        if hasattr(self, "_requests"):
            self._requests.put(None)
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._responses = self._stub.StreamChannel(iter(self._requests.get, None))
        message = p4r.StreamMessageRequest()
        message.arbitration.device_id = 0
        message.arbitration.election_id.low = self._election
        self._requests.put(message)
        heard: queue.Queue[p4r.StreamMessageResponse] = queue.Queue()
        self._heard = heard
        threading.Thread(target=_listen, args=(self._responses, heard), daemon=True).start()
        answer = heard.get(timeout=LIMIT_S)
        assert answer.arbitration.status.code == rpc_code.OK, answer

    def _await_idle(self, wanted: p4r.TableEntry) -> None:
        """Wait for the notification of an entry; there may be some of what the attack left."""
        end = time.monotonic() + LIMIT_S
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                told = self._heard.get(timeout=left)
                for entry in told.idle_timeout_notification.table_entry:
                    if (entry.table_id, list(entry.match)) == (wanted.table_id, list(wanted.match)):
                        return
        raise AssertionError("the switch does not tell that an entry has been idle")

    def _resident(self) -> int:
        assert self.process.poll() is None, "the switch has ended"
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096

    @staticmethod
    def _call(method: Any, request: Any) -> None:
        with answering():
            method(request, timeout=LIMIT_S)


def _listen(responses: Any, heard: queue.Queue[p4r.StreamMessageResponse]) -> None:
    with contextlib.suppress(grpc.RpcError):
        for message in responses:
            heard.put(message)


@contextlib.contextmanager
def answering(*, patient: bool = False) -> Iterator[None]:
    """Errors are answers, but for those that say that the server is at fault; no answer is none, unless `patient`."""
    try:
        yield
    except StopIteration:
        return
    except grpc.RpcError as error:
        batch = error.code() == grpc.StatusCode.UNKNOWN and "failed; the first, number" in (error.details() or "")
        oversized = "metadata size" in (error.details() or "")  # its message was larger than a client accepts
        if oversized or (error.code() in FORBIDDEN and not batch):
            raise AssertionError(f"{error.code()}: {error.details()}") from None
        if error.code() == grpc.StatusCode.UNAVAILABLE or (
            error.code() == grpc.StatusCode.DEADLINE_EXCEEDED and not patient
        ):
            raise AssertionError(f"{error.code()}: {error.details()}") from None


def _mutated(message: Any, chance: random.Random) -> Any:
    """The message with a few bytes changed, as long as it still parses."""
    kind: type[Message] = type(message)
    for _ in range(5):
        with contextlib.suppress(DecodeError):
            return kind.FromString(mutilate(message.SerializeToString(), chance))
    return message


def _disturb(document: Any, chance: random.Random) -> None:
    """Changes one value somewhere in a JSON document: to another that is there, to an edge, to another kind."""
    while True:
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = document[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.9:
            document = inner
            continue
        break
    kind = chance.randrange(8)
    if kind == 0:
        del document[key]
    elif kind == 1 and isinstance(document, list):
        document.append(document[key])
    elif kind == 2:
        document[key] = document[chance.choice(keys)]
    elif kind == 3 and isinstance(inner, int):
        document[key] = inner + chance.choice([-1, 1])
    else:
        document[key] = chance.choice(EDGES)


EDGES: list[Any] = [
    *(0, 1, -1, 2, 7, 8, 9, 63, 64, 65, 511, 2048, 2049, 2**15, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 4 * 10**10),
    *(
        None,
        True,
        False,
        1.5,
        "",
        "x",
        "0x0",
        "0x1",
        "-0x1",
        "0x" + "f" * 300,
        "0x" + "f" * 5000,
        "*/ int x; /*",
        "\n#",
    ),
    *([], {}, [[]], "drop", "I.drop", "exact", "hexstr", "expression", "scalars", "\ud800", "a" * 100_000),
]
