"""SetForwardingPipelineConfig on the engine is all or nothing, whichever step fails."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from finsy.proto import p4i, p4r, rpc_code

from p4runtime_shim.ctypes_bindings import NO_MEMORY, Engine
from p4runtime_shim.errors import SwitchClosed, SwitchError
from p4runtime_shim.server.arbitration import Session
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from p4runtime_shim.server.rpc_errors import RpcError, from_switch
from p4runtime_shim.switch import EmbeddedSwitch, Pipeline
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.entities import default, exact, group, indirect, kinds, member, set_action
from tests.p4runtime_shim.server.world import insert, modify

Request = p4r.SetForwardingPipelineConfigRequest
ACTIONS = (Request.VERIFY_AND_COMMIT, Request.RECONCILE_AND_COMMIT, Request.VERIFY_AND_SAVE, Request.VERIFY)
FRAME = bytes([0x77]) * 64  # misses every entry, so that no counter moves

STATE = [
    modify(table_entry=default(sample.KEYLESS, action={"action": set_action(2)})),
    insert(table_entry=exact(counter_data={"packet_count": 5}, metadata=b"m")),
    insert(table_entry=kinds(meter_config={"cir": 1, "pir": 2})),
    insert(action_profile_member=member(1)),
    insert(action_profile_group=group(1, 1)),
    insert(table_entry=indirect(10, action_profile_group_id=1)),
    modify(counter_entry={"counter_id": sample.COUNTER, "index": {"index": 1}, "data": {"byte_count": 3}}),
    modify(register_entry={"register_id": sample.SIGNED, "index": {}, "data": {"bitstring": b"\x01"}}),
    modify(meter_entry={"meter_id": sample.METER, "index": {"index": 2}, "config": {"cir": 1, "pir": 1}}),
    insert(
        packet_replication_engine_entry={
            "multicast_group_entry": {"multicast_group_id": 1, "replicas": [{"port": b"\x01"}]}
        }
    ),
    insert(
        packet_replication_engine_entry={"clone_session_entry": {"session_id": 1, "replicas": [{"egress_port": 1}]}}
    ),
    insert(digest_entry={"digest_id": sample.DIGEST, "config": {"max_list_size": 1}}),
]


MAKES = frozenset({"sw_create", "sw_ctl_insert", "sw_ctl_member_add", "sw_ctl_group_add"})
STEPS = frozenset({"sw_load", "sw_ctl_default", "sw_ctl_modify", "sw_ctl_group_modify", "sw_ctl_replicas"})


class Failing:
    """The engine's library, of which one call that may fail does; `calls` counts those that may."""

    def __init__(self, native: Engine) -> None:
        self._library = native.library
        self.hot = native.hot
        self.library = self
        self.calls = 0
        self.fail_at = -1

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        makes = name in MAKES
        if not makes and name not in STEPS:
            return function

        def counted(*arguments: Any) -> Any:
            if name == "sw_load" and arguments[1] is None:
                return function(*arguments)
            self.calls += 1
            if self.calls == self.fail_at:
                return None if makes else NO_MEMORY
            return function(*arguments)

        return counted


class Ears:
    """A client's stream that is not looked at."""

    def send(self, message: p4r.StreamMessageResponse) -> None:
        """Take it."""


@dataclass
class World:
    """A device on the engine, whose library can be made to fail."""

    device: P4RuntimeDevice
    switch: EmbeddedSwitch
    native: Failing
    session: Session

    async def configure(self, action: int, config: bytes | None = None, info: p4i.P4Info | None = None) -> None:
        request = Request(device_id=1, action=action, election_id=p4r.Uint128(low=1))
        if config is not None:
            request.config.p4info.CopyFrom(info or sample.p4info())
            request.config.p4_device_config = config
            request.config.cookie.cookie = len(config)
        await self.device.set_config(request)

    async def write(self, *updates: p4r.Update) -> None:
        await self.device.write(p4r.WriteRequest(device_id=1, election_id=p4r.Uint128(low=1), updates=updates))

    def seen(self) -> Any:
        """All that a client can see, and what becomes of a packet."""
        wanted = [
            p4r.Entity(table_entry={"counter_data": {}, "meter_config": {}}),
            p4r.Entity(action_profile_member={}),
            p4r.Entity(action_profile_group={}),
            p4r.Entity(packet_replication_engine_entry={}),
            p4r.Entity(digest_entry={}),
            p4r.Entity(register_entry={"register_id": sample.SIGNED, "index": {}}),  # the program counts in another
            p4r.Entity(meter_entry={}),
        ]
        found = [str(item) for item in self.device.read(p4r.ReadRequest(device_id=1, entities=wanted))]
        self.switch.receive(1, FRAME, 0)
        sent = [self.switch.transmit(port, 0) for port in (1, 2, 3)]
        return str(self.device.get_config(0)), found, sent


def program(**changes: Any) -> bytes:
    """The sample, or with another size of its table of const entries, or one more byte of space."""
    data = json.loads(sample.device_config())
    for pipeline in data["pipelines"]:
        for table in pipeline["tables"]:
            if table["name"] == "I.const_":
                table.update(changes)
    return json.dumps(data).encode()


def run(work: Callable[[World], Awaitable[None]]) -> None:
    @asynccontextmanager
    async def made() -> Any:
        first = Pipeline.load(sample.PROGRAM.read_text())
        native: Any = Failing(first.native)

        def load(text: str) -> Pipeline:
            return replace(Pipeline.load(text), native=native)

        with EmbeddedSwitch(None, ports=(1, 2, 3), seed=1, native=native) as switch:
            device = P4RuntimeDevice(1, switch, PipelineConfigLoader(load))
            device.start(asyncio.get_running_loop())
            ears = Ears()
            device.arbitrate(ears, p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=1)))
            try:
                yield World(device, switch, native, ears)
            finally:
                device.stop()

    async def inside() -> None:
        async with made() as world:
            await world.configure(Request.VERIFY_AND_COMMIT, sample.device_config())
            await world.write(*STATE)
            await work(world)

    asyncio.run(inside())


async def refusal(call: Awaitable[None]) -> RpcError:
    with pytest.raises((RpcError, SwitchError)) as caught:
        await call
    error = caught.value
    return error if isinstance(error, RpcError) else from_switch(error)


@pytest.mark.parametrize("action", ACTIONS)
def test_after_a_failure_at_any_step_the_old_config_works_as_before(action: int) -> None:
    async def work(world: World) -> None:
        other = program() + b" "
        before = world.seen()
        assert any(before[2])
        world.native.calls = 0
        await world.configure(Request.VERIFY, other)
        steps = world.native.calls + (len(STATE) if action == Request.RECONCILE_AND_COMMIT else 0)
        assert steps > 5
        failed = 0
        for step in range(1, steps + 1):
            world.native.calls, world.native.fail_at = 0, step
            try:
                await world.configure(action, other)
            except (RpcError, SwitchError) as error:
                failed += 1
                refused = error if isinstance(error, RpcError) else from_switch(error)
                assert refused.code in (
                    rpc_code.RESOURCE_EXHAUSTED,
                    rpc_code.INVALID_ARGUMENT,
                )
            else:
                break
            world.native.fail_at = -1
            assert world.seen() == before
            await world.write(modify(table_entry=exact(metadata=b"again")))
            await world.write(modify(table_entry=exact(metadata=b"m")))
            assert world.seen() == before
        assert failed > 5
        world.native.fail_at = -1
        await world.configure(action, other)
        if action in (Request.VERIFY_AND_COMMIT, Request.RECONCILE_AND_COMMIT):
            assert world.seen()[0] != before[0]
            assert (world.seen()[1] == before[1]) == (action == Request.RECONCILE_AND_COMMIT)
        elif action == Request.VERIFY:
            assert world.seen() == before

    run(work)


@pytest.mark.parametrize("action", ACTIONS)
def test_const_entries_beyond_the_table_size_are_refused_at_once(action: int) -> None:
    """VERIFY says what COMMIT would find, and what is read back is what forwards."""

    async def work(world: World) -> None:
        before = world.seen()
        refused = await refusal(world.configure(action, program(max_size=1)))
        assert refused.code == rpc_code.RESOURCE_EXHAUSTED
        assert "I.const_" in refused.message
        assert world.seen() == before

    run(work)


def test_a_saved_config_is_committed_with_the_entries_written_to_it() -> None:
    async def work(world: World) -> None:
        await world.configure(Request.VERIFY_AND_SAVE, program() + b" ")
        await world.write(*STATE[3:6])
        saved = world.seen()
        forwarded = world.switch.pipeline
        await refusal(world.configure(Request.VERIFY_AND_SAVE, program(max_size=1)))
        assert world.seen()[1] == saved[1]  # the saved one is still there
        assert world.switch.pipeline is forwarded
        world.native.calls, world.native.fail_at = 0, 1  # nothing in a COMMIT can fail
        await world.configure(Request.COMMIT)
        assert world.native.calls == 0
        assert world.switch.pipeline is not forwarded
        assert world.seen()[1] == saved[1]
        world.native.fail_at = -1
        await world.write(*STATE[1:3])
        world.switch.port_changed(1, False, 0)  # groups follow the ports of the switch they came to
        world.switch.port_changed(1, True, 0)
        assert (await refusal(world.configure(Request.COMMIT))).code == rpc_code.NOT_FOUND

    run(work)


def test_a_client_that_disconnects_with_a_staged_config_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(world: World) -> None:
        before = world.seen()
        began, go = asyncio.Event(), threading.Event()
        loop, stage = asyncio.get_running_loop(), world.switch.stage
        made: list[EmbeddedSwitch] = []

        def slowly(pipeline: Pipeline) -> EmbeddedSwitch:
            loop.call_soon_threadsafe(began.set)
            assert go.wait(30)
            made.append(stage(pipeline))
            return made[0]

        monkeypatch.setattr(world.switch, "stage", slowly)
        task = asyncio.ensure_future(world.configure(Request.VERIFY_AND_COMMIT, program() + b" "))
        await began.wait()
        task.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(SwitchClosed):
            _ = made[0].handle
        assert world.seen() == before

    run(work)
