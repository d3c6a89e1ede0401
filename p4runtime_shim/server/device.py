"""A device of the server: its switch, its clients, its pipeline configuration, its packets and digests.

Requests are serialized as the specification requires ("Batching and Ordering of Updates"): reads, writes and
arbitration run in the event loop's thread without yielding. A pipeline config takes longer: in other threads, its
program is compiled, and a second switch with its state is prepared (`SwitchInterface.stage`). Writes wait for the
latter; reads and packets do not. The last step, which swaps the two switches, cannot fail.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from p4runtime_shim import limits
from p4runtime_shim.errors import SwitchError
from p4runtime_shim.server import packet_io
from p4runtime_shim.server.arbitration import Arbitration, Session
from p4runtime_shim.server.budget import ReadBudget
from p4runtime_shim.server.forwarding_state import ForwardingState
from p4runtime_shim.server.packet_io import TokenBucket
from p4runtime_shim.server.pipeline_config import PipelineConfig, PipelineConfigLoader
from p4runtime_shim.server.rpc_errors import BatchError, exhausted, invalid, not_found, precondition
from p4runtime_shim.server.rpc_errors import denied as permission_denied
from p4runtime_shim.server.switch_interface import SwitchInterface

NO_PIPELINE = "No forwarding pipeline config set for this device"  # BMv2's words; finsy knows them
DEFAULT_PACKET_RATE = 5000  # packets per second; each costs the server some 30 microseconds
_PACKET_BURST = 500  # packets
_IDLE_SCAN = 500  # entries that one notification can have
_IDLE_SCAN_S = 0.01  # between two notifications
_PACKET_BATCH = 64  # packets to the controller before other events are handled

Request = p4r.SetForwardingPipelineConfigRequest


@dataclass(frozen=True, slots=True)
class _Staged:
    """A switch prepared beside the active one, with its config and state."""

    config: PipelineConfig
    forwarding: ForwardingState
    switch: SwitchInterface


class P4RuntimeDevice:
    """A switch as a P4Runtime device.

    `cpu_port` enables packet-in and packet-out. `packet_rate` limits the packets per second to clients (0 = no limit),
    so that a flood does not starve requests: the others wait in the queues of the CPU port, where they are dropped and
    counted. `clock` is that of the switch's verbs, in ns.
    """

    def __init__(
        self,
        device_id: int,
        switch: SwitchInterface,
        programs: PipelineConfigLoader,
        *,
        cpu_port: int | None = None,
        packet_rate: int = DEFAULT_PACKET_RATE,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.device_id = device_id
        self.arbitration = Arbitration(device_id)
        self.cpu_port = cpu_port
        self.packets_delivered = 0
        self.packets_undeliverable = 0
        self.limit_packets(packet_rate)
        self._switch = switch
        self._clock = clock
        self._programs = programs
        self._configuring = asyncio.Lock()  # one pipeline config at a time
        self._writing = asyncio.Lock()  # no write while one is staged and adopted
        self._waiting_configs = 0
        self._committed: PipelineConfig | None = None
        self._forwarding: ForwardingState | None = None
        self._saved: _Staged | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._packet_event = -1
        self._packet_timer: asyncio.TimerHandle | None = None
        self._digest_event = -1
        self._digest_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    # --- requests

    async def write(self, request: p4r.WriteRequest) -> None:
        """Write RPC."""
        members = sum(len(update.entity.value_set_entry.members) for update in request.updates)
        if len(request.updates) + members > limits.MAX_UPDATES:
            what = f"{len(request.updates)} updates" + (f" and {members} members of value sets" if members else "")
            raise exhausted(f"the write has {what}; the maximum is {limits.MAX_UPDATES}")
        async with self._writing:
            self._check_primary(request)
            try:
                self._state().write(request.updates, request.atomicity)
            finally:
                self._watch_idle()

    def read(self, request: p4r.ReadRequest, budget: ReadBudget | None = None) -> Iterator[p4r.Entity]:
        """Read RPC, for any client in any role. Entities are copied now, and converted to messages when sent."""
        if len(request.entities) > limits.MAX_READS:
            raise exhausted(f"the read requests {len(request.entities)} entities; the maximum is {limits.MAX_READS}")
        return self._state().read(request.entities, budget)

    async def set_config(self, request: Request) -> None:
        """SetForwardingPipelineConfig RPC."""
        self._check_primary(request)
        if self._waiting_configs >= limits.MAX_CONFIGS:
            raise exhausted(f"{limits.MAX_CONFIGS} pipeline configs are queued already; try again later")
        self._waiting_configs += 1
        try:
            await self._set_config(request)
        finally:
            self._waiting_configs -= 1

    async def _set_config(self, request: Request) -> None:
        async with self._configuring:
            if request.action == Request.COMMIT:
                if request.HasField("config"):
                    raise invalid("COMMIT takes the saved config; leave config unset")
                self._check_primary(request)
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
            async with self._writing:
                self._check_primary(request)  # it may have changed during compilation
                staged = await self._stage_in_thread(config, request.action == Request.RECONCILE_AND_COMMIT)
                try:
                    self._check_primary(request)
                    self._conclude(request.action, staged)
                finally:
                    if staged is not self._saved:
                        staged.switch.close()

    def get_config(self, response_type: int) -> p4r.ForwardingPipelineConfig | None:
        """GetForwardingPipelineConfig RPC; None if there is no config."""
        if self._committed is None:
            return None
        config = self._committed
        response = p4r.ForwardingPipelineConfig()
        if config.cookie is not None:
            response.cookie.cookie = config.cookie
        kinds = p4r.GetForwardingPipelineConfigRequest
        if response_type in (kinds.ALL, kinds.P4INFO_AND_COOKIE):
            response.p4info.CopyFrom(config.p4info)
        if response_type in (kinds.ALL, kinds.DEVICE_CONFIG_AND_COOKIE):
            response.p4_device_config = config.device_config
        return response

    def _check_primary(self, request: p4r.WriteRequest | Request) -> None:
        if request.role_id:
            raise invalid("role_id is deprecated; name the role instead")
        election_id = request.election_id if request.HasField("election_id") else None
        self.arbitration.check_write(request.role, election_id)

    def _state(self) -> ForwardingState:
        """The state that reads and writes refer to: that of the saved config, if there is one."""
        if self._saved is not None:
            return self._saved.forwarding
        if self._forwarding is None:
            raise precondition(NO_PIPELINE)
        return self._forwarding

    # --- pipeline configuration

    async def _stage_in_thread(self, config: PipelineConfig, reconcile: bool) -> _Staged:
        """`_stage` in another thread; waits for it to finish even if the client disconnects."""
        work = asyncio.ensure_future(asyncio.to_thread(self._stage, config, reconcile))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            (await work).switch.close()
            raise

    def _stage(self, config: PipelineConfig, reconcile: bool) -> _Staged:
        """Prepare a second switch with the config, and with the current state if requested."""
        before, state = self._committed, self._forwarding
        switch = self._switch.stage(config.pipeline)
        try:
            staged = _Staged(config, ForwardingState(config.schema, switch.control_plane, self._clock), switch)
            if reconcile and before is not None and state is not None and not _same_program(before, config):
                _carry_over(state, staged.forwarding)
        except BaseException:
            switch.close()
            raise
        return staged

    def _conclude(self, action: int, staged: _Staged) -> None:
        """Carry out the request's action; nothing can fail any more."""
        if action == Request.VERIFY_AND_SAVE:
            self._drop_saved()
            self._saved = staged
        elif action == Request.VERIFY_AND_COMMIT:
            self._adopt(staged)
        elif action == Request.RECONCILE_AND_COMMIT:
            if self._committed is not None and _same_program(self._committed, staged.config):
                self._drop_saved()
                self._committed = staged.config  # only the cookie can differ
            else:
                self._adopt(staged)

    def _adopt(self, staged: _Staged) -> None:
        """Swap the staged switch with the active one; `staged.switch` has the old program afterwards."""
        self._switch.adopt(staged.switch)
        self._committed = staged.config
        self._forwarding = staged.forwarding
        if self._saved is not staged:
            self._drop_saved()
        self._watch_idle()

    def _drop_saved(self) -> None:
        if self._saved is not None:
            self._saved.switch.close()
            self._saved = None

    def _commit_saved(self) -> None:
        if self._saved is None:
            raise not_found("no config is saved; send VERIFY_AND_SAVE first")
        self._adopt(self._saved)
        self._drop_saved()

    # --- streams

    def arbitrate(self, session: Session, message: p4r.MasterArbitrationUpdate) -> None:
        """A MasterArbitrationUpdate from a client of this device."""
        new = not self.arbitration.knows(session)
        if new and self.arbitration.sessions >= limits.MAX_STREAMS:
            raise exhausted(f"device {self.device_id} already has {limits.MAX_STREAMS} clients")
        if self.arbitration.update(session, message) and self._forwarding is not None:
            self._forwarding.digests.forget()
        self._watch_idle()

    def leave(self, session: Session) -> None:
        """The client's stream has closed."""
        self.arbitration.leave(session)

    def packet_out(self, session: Session, message: p4r.PacketOut) -> None:
        """A packet from a client; raises RpcError if it is dropped."""
        if not self.arbitration.is_primary(session):
            raise permission_denied("only the primary client may send packets")
        if self.cpu_port is None:
            raise precondition("this switch has no CPU port; start it with --cpu-port to send and receive packets")
        if self._forwarding is None:
            raise precondition(NO_PIPELINE)
        if len(message.payload) > limits.MAX_PACKET_OUT_BYTES:
            raise exhausted(
                f"the packet has {len(message.payload)} bytes; the maximum is {limits.MAX_PACKET_OUT_BYTES}"
            )
        frame = packet_io.to_frame(self._forwarding.schema.packet_out, message)
        self._switch.receive(self.cpu_port, frame, time.monotonic_ns())

    def digest_ack(self, session: Session, message: p4r.DigestListAck) -> None:
        """An acknowledgement from a client; raises RpcError if it is invalid."""
        if not self.arbitration.is_primary(session):
            raise permission_denied("only the primary client may acknowledge digests")
        if self._forwarding is None:
            raise precondition(NO_PIPELINE)
        self._forwarding.digests.acknowledge(message)

    # --- packets and digests from the data plane

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the switch for packets and digests, until `stop`."""
        self._loop = loop
        if self.cpu_port is not None:
            self._packet_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            loop.add_reader(self._packet_event, self._packets_ready)
            self._switch.set_port_event(self.cpu_port, self._packet_event)
        self._digest_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        loop.add_reader(self._digest_event, self._digests_ready)
        self._switch.set_digest_event(self._digest_event)

    def stop(self) -> None:
        """Stop watching; the switch is not closed."""
        assert self._loop is not None
        self._drop_saved()
        if self._digest_timer is not None:
            self._digest_timer.cancel()
        if self._packet_timer is not None:
            self._packet_timer.cancel()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._switch.set_digest_event(-1)
        if self.cpu_port is not None:
            self._switch.set_port_event(self.cpu_port, -1)
        for event in (self._packet_event, self._digest_event):
            if event >= 0:
                self._loop.remove_reader(event)
                os.close(event)

    @property
    def packet_rate(self) -> int:
        """Packets per second to clients, 0 = no limit."""
        return self._token_bucket.rate

    def limit_packets(self, rate: int) -> None:
        """Set the packet rate."""
        self._token_bucket = TokenBucket(rate, _PACKET_BURST)

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
            if wait := self._token_bucket.wait(now):
                self._packet_timer = self._loop.call_later(wait / 1e9, self._take_packets)
                return
            frame = self._switch.transmit(self.cpu_port, now)
            if frame is None:
                return
            self._token_bucket.take(now)
            message = packet_io.from_frame(header, frame)
            if message is None or not self._send_to_primaries(p4r.StreamMessageResponse(packet=message)):
                self.packets_undeliverable += 1
            else:
                self.packets_delivered += 1
        self._packet_timer = self._loop.call_later(0, self._take_packets)

    def _send_to_primaries(self, message: p4r.StreamMessageResponse) -> bool:
        sent = False
        for session in self.arbitration.primaries():
            session.send(message)
            sent = True
        return sent

    def _digests_ready(self) -> None:
        _clear(self._digest_event)
        digests = self._switch.control_plane.take_digests()
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
            self._send_to_primaries(p4r.StreamMessageResponse(digest=message))
        due = self._forwarding.digests.due()
        if self._digest_timer is None and due is not None:
            delay = max(due - time.monotonic_ns(), 0) / 1e9
            self._digest_timer = self._loop.call_later(delay, self._digests_due)

    # --- idle timeouts

    def _watch_idle(self) -> None:
        """Look at the entries when the next one may expire; not while there is nobody to tell."""
        due = self._forwarding.idle_timeouts.due() if self._forwarding is not None else None
        if self._loop is None or due is None or not any(self.arbitration.primaries()):
            return
        when = self._loop.time() + max((due - self._clock()) / 1e9, _IDLE_SCAN_S)
        if self._idle_timer is not None:
            if self._idle_timer.when() <= when:
                return  # however often a client writes, the next look is not put off
            self._idle_timer.cancel()
        self._idle_timer = self._loop.call_at(when, self._tell_idle)

    def _tell_idle(self) -> None:
        self._idle_timer = None
        assert self._forwarding is not None
        if any(self.arbitration.primaries()):
            found = self._forwarding.idle_entries(self._clock(), _IDLE_SCAN)
            if found:
                message = p4r.IdleTimeoutNotification(table_entry=found, timestamp=time.time_ns())
                self._send_to_primaries(p4r.StreamMessageResponse(idle_timeout_notification=message))
        self._watch_idle()


def _same_program(before: PipelineConfig, after: PipelineConfig) -> bool:
    return before.pipeline is after.pipeline and before.p4info == after.p4info


def _carry_over(state: ForwardingState, new: ForwardingState) -> None:
    """Copy a forwarding state into a new one; raises INVALID_ARGUMENT if it does not fit entirely."""
    try:
        updates = state.entities(counts=True)
        new.clear_initial_entries()
        new.replay(updates)
    except (BatchError, SwitchError) as error:
        message = error.message if isinstance(error, BatchError) else str(error)
        message = _with_names(message, state.schema.p4info)
        raise invalid(f"the forwarding state cannot be kept under the new pipeline: {message}") from None


def _with_names(message: str, info: p4i.P4Info) -> str:
    """A message about another program, with the names of ids that this one has."""
    kinds = (info.tables, info.actions, info.action_profiles, info.counters, info.meters, info.registers, info.digests)
    names = {item.preamble.id: item.preamble.name for kind in (*kinds, info.value_sets) for item in kind}

    def named(found: re.Match[str]) -> str:
        name = names.get(int(found[1]))
        return found[0] if name is None else f"{found[0]} ({name})"

    return re.sub(r"\bid (\d+)", named, message)


def _clear(event: int) -> None:
    try:
        os.eventfd_read(event)
    except BlockingIOError:
        return
