"""One device: its switch, its clients, its pipeline configuration, its packets and digests.

Everything here runs in the event loop's thread and, but for the compilation of a program, without yielding, so requests
are serialized as the specification asks ("Batching and Ordering of Updates"). Packets move meanwhile in the driver's
thread.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from finsy.proto import p4r

from p4runtime_shim.errors import SwitchError
from p4runtime_shim.server import packets
from p4runtime_shim.server.allowance import Allowance
from p4runtime_shim.server.arbitration import Arbitration, Session
from p4runtime_shim.server.errors import BatchError, RpcError, invalid, not_found, precondition
from p4runtime_shim.server.errors import denied as permission_denied
from p4runtime_shim.server.forwarding import Forwarding
from p4runtime_shim.server.pipeline import Config, Programs
from p4runtime_shim.server.target import Target

NO_PIPELINE = "No forwarding pipeline config set for this device"  # BMv2's words; finsy knows them
DEFAULT_PACKET_RATE = 5000  # packets a second; one costs the server some 30 microseconds
_PACKET_BURST = 500  # of these, at once
_PACKET_BATCH = 64  # packets to the controller before other events have their turn

Request = p4r.SetForwardingPipelineConfigRequest


class Device:
    """A switch as P4Runtime shows it.

    `scratch(pipeline)` makes a switch without ports, for writes to a saved configuration (VERIFY_AND_SAVE). `cpu_port`
    turns packet-in and packet-out on; `packet_rate` is how many packets a second go to clients (0 = no limit), so that
    a flood starves no request: the others wait in the queues of the CPU port, and are dropped and counted there.
    """

    def __init__(
        self,
        device_id: int,
        target: Target,
        programs: Programs,
        scratch: Callable[[Any], Target],
        *,
        cpu_port: int | None = None,
        packet_rate: int = DEFAULT_PACKET_RATE,
    ) -> None:
        self.device_id = device_id
        self.arbitration = Arbitration(device_id)
        self.cpu_port = cpu_port
        self.packets_delivered = 0
        self.packets_undeliverable = 0
        self.limit_packets(packet_rate)
        self._target = target
        self._programs = programs
        self._scratch = scratch
        self._lock = asyncio.Lock()
        self._committed: Config | None = None
        self._forwarding: Forwarding | None = None
        self._saved: tuple[Config, Forwarding, Target] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._packet_event = -1
        self._packet_timer: asyncio.TimerHandle | None = None
        self._digest_event = -1
        self._digest_timer: asyncio.TimerHandle | None = None

    # --- requests

    def write(self, request: p4r.WriteRequest) -> None:
        """Write RPC."""
        self._check_primary(request)
        self._state().write(request.updates, request.atomicity)

    def read(self, request: p4r.ReadRequest) -> Iterator[p4r.Entity]:
        """Read RPC; every client may read, in any role."""
        return self._state().read(request.entities)

    async def set_config(self, request: Request) -> None:
        """SetForwardingPipelineConfig RPC."""
        self._check_primary(request)
        async with self._lock:
            if request.action == Request.COMMIT:
                if request.HasField("config"):
                    raise invalid("COMMIT takes the saved config; leave config unset")
                self._commit_saved()
                return
            if request.action not in (
                Request.VERIFY,
                Request.VERIFY_AND_SAVE,
                Request.VERIFY_AND_COMMIT,
                Request.RECONCILE_AND_COMMIT,
            ):
                raise invalid("the request has no action, like VERIFY_AND_COMMIT")
            if not request.HasField("config"):
                raise invalid("the request has no pipeline config")
            config = await self._programs.realize(request.config)
            self._check_primary(request)  # it may have changed during compilation
            if request.action == Request.VERIFY_AND_SAVE:
                self._save(config)
            elif request.action == Request.VERIFY_AND_COMMIT:
                self._commit(config)
            elif request.action == Request.RECONCILE_AND_COMMIT:
                self._reconcile(config)

    def get_config(self, response_type: int) -> p4r.ForwardingPipelineConfig | None:
        """GetForwardingPipelineConfig RPC; None when there is no config."""
        if self._committed is None:
            return None
        message = self._committed.message
        shown = p4r.ForwardingPipelineConfig()
        if message.HasField("cookie"):
            shown.cookie.CopyFrom(message.cookie)
        kinds = p4r.GetForwardingPipelineConfigRequest
        if response_type in (kinds.ALL, kinds.P4INFO_AND_COOKIE):
            shown.p4info.CopyFrom(message.p4info)
        if response_type in (kinds.ALL, kinds.DEVICE_CONFIG_AND_COOKIE):
            shown.p4_device_config = message.p4_device_config
        return shown

    def _check_primary(self, request: p4r.WriteRequest | Request) -> None:
        if request.role_id:
            raise invalid("role_id is deprecated; name the role instead")
        election_id = request.election_id if request.HasField("election_id") else None
        self.arbitration.check_write(request.role, election_id)

    def _state(self) -> Forwarding:
        """What reads and writes refer to: the saved configuration while there is one."""
        if self._saved is not None:
            return self._saved[1]
        if self._forwarding is None:
            raise precondition(NO_PIPELINE)
        return self._forwarding

    # --- pipeline configuration

    def _save(self, config: Config) -> None:
        self._drop_saved()
        target = self._scratch(config.pipeline)
        self._saved = (config, Forwarding(config.schema, target), target)

    def _drop_saved(self) -> None:
        if self._saved is not None:
            self._saved[2].close()
            self._saved = None

    def _commit(self, config: Config) -> None:
        self._drop_saved()
        self._target.set_pipeline(config.pipeline)
        self._committed = config
        self._forwarding = Forwarding(config.schema, self._target)

    def _commit_saved(self) -> None:
        if self._saved is None:
            raise not_found("no config is saved; send VERIFY_AND_SAVE first")
        config, saved, _ = self._saved
        updates = saved.entities(counts=True)
        self._commit(config)
        self._replay(updates)

    def _replay(self, updates: list[p4r.Update]) -> None:
        assert self._forwarding is not None
        self._forwarding.clear_initial_entries()
        self._forwarding.replay(updates)

    def _reconcile(self, config: Config) -> None:
        """Change the program and keep the forwarding state; all or nothing."""
        before, state = self._committed, self._forwarding
        if before is None or state is None:
            self._commit(config)
            return
        if before.pipeline is config.pipeline and before.message.p4info == config.message.p4info:
            self._drop_saved()
            self._committed = config  # only the cookie can differ
            return
        updates = state.entities(counts=True)
        self._commit(config)
        try:
            self._replay(updates)
        except (BatchError, SwitchError) as error:
            self._commit(before)
            self._replay(updates)
            message = error.message if isinstance(error, BatchError) else str(error)
            raise invalid(f"the forwarding state cannot be kept under the new pipeline: {message}") from None

    # --- streams

    def arbitrate(self, session: Session, message: p4r.MasterArbitrationUpdate) -> None:
        """A MasterArbitrationUpdate from a client of this device."""
        if self.arbitration.update(session, message) and self._forwarding is not None:
            self._forwarding.digests.forget()

    def leave(self, session: Session) -> None:
        """The client's stream has closed."""
        self.arbitration.leave(session)

    def packet_out(self, session: Session, message: p4r.PacketOut) -> None:
        """A packet from a client; RpcError says why it was dropped."""
        if not self.arbitration.is_primary(session):
            raise permission_denied("only the primary client may send packets")
        if self.cpu_port is None:
            raise precondition("this switch has no CPU port; start it with --cpu-port to send and receive packets")
        if self._forwarding is None:
            raise precondition(NO_PIPELINE)
        frame = packets.to_frame(self._forwarding.schema.packet_out, message)
        self._target.receive(self.cpu_port, frame, time.monotonic_ns())

    def digest_ack(self, session: Session, message: p4r.DigestListAck) -> None:
        """An acknowledgement from a client; RpcError when it makes no sense."""
        if not self.arbitration.is_primary(session):
            raise permission_denied("only the primary client acknowledges digests")
        if self._forwarding is None:
            raise precondition(NO_PIPELINE)
        self._forwarding.digests.acknowledge(message)

    # --- packets and digests from the data plane

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen to the switch; until `stop`."""
        self._loop = loop
        if self.cpu_port is not None:
            self._packet_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            loop.add_reader(self._packet_event, self._packets_ready)
            self._target.set_port_event(self.cpu_port, self._packet_event)
        self._digest_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        loop.add_reader(self._digest_event, self._digests_ready)
        self._target.set_digest_event(self._digest_event)

    def stop(self) -> None:
        """Stop listening; the switch is not closed."""
        assert self._loop is not None
        self._drop_saved()
        if self._digest_timer is not None:
            self._digest_timer.cancel()
        if self._packet_timer is not None:
            self._packet_timer.cancel()
        self._target.set_digest_event(-1)
        if self.cpu_port is not None:
            self._target.set_port_event(self.cpu_port, -1)
        for event in (self._packet_event, self._digest_event):
            if event >= 0:
                self._loop.remove_reader(event)
                os.close(event)

    @property
    def packet_rate(self) -> int:
        """Packets a second that go to clients, 0 = no limit."""
        return self._allowance.rate

    def limit_packets(self, rate: int) -> None:
        """Change it."""
        self._allowance = Allowance(rate, _PACKET_BURST)

    def _packets_ready(self) -> None:
        _clear(self._packet_event)
        if self._packet_timer is None:
            self._take_packets()

    def _take_packets(self) -> None:
        self._packet_timer = None
        assert self._loop is not None
        assert self.cpu_port is not None
        header = self._forwarding.schema.packet_in if self._forwarding else None
        for _ in range(_PACKET_BATCH):
            now = time.monotonic_ns()
            if wait := self._allowance.wait(now):
                self._packet_timer = self._loop.call_later(wait / 1e9, self._take_packets)
                return
            frame = self._target.transmit(self.cpu_port, now)
            if frame is None:
                return
            self._allowance.take(now)
            message = packets.from_frame(header, frame)
            if message is None or not self._tell_primaries(p4r.StreamMessageResponse(packet=message)):
                self.packets_undeliverable += 1
            else:
                self.packets_delivered += 1
        self._packet_timer = self._loop.call_later(0, self._take_packets)

    def _tell_primaries(self, message: p4r.StreamMessageResponse) -> bool:
        told = False
        for session in self.arbitration.primaries():
            session.send(message)
            told = True
        return told

    def _digests_ready(self) -> None:
        _clear(self._digest_event)
        digests = self._target.take_digests()
        if self._forwarding is not None:
            self._send_digests(self._forwarding.digests.offer(digests, time.monotonic_ns()))

    def _digests_due(self) -> None:
        self._digest_timer = None
        if self._forwarding is not None:
            self._send_digests(self._forwarding.digests.flush(time.monotonic_ns()))

    def _send_digests(self, lists: list[p4r.DigestList]) -> None:
        assert self._loop is not None
        assert self._forwarding is not None
        for message in lists:
            self._tell_primaries(p4r.StreamMessageResponse(digest=message))
        due = self._forwarding.digests.due()
        if self._digest_timer is None and due is not None:
            delay = max(due - time.monotonic_ns(), 0) / 1e9
            self._digest_timer = self._loop.call_later(delay, self._digests_due)


def _clear(event: int) -> None:
    try:
        os.eventfd_read(event)
    except BlockingIOError:
        return


__all__ = ["NO_PIPELINE", "Device", "RpcError"]
