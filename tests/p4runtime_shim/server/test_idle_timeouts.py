"""Idle timeouts of table entries through P4Runtime, on the engine, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from finsy.proto import p4r, rpc_code

from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.server import p4info
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.forwarding_state import ForwardingState
from p4runtime_shim.server.idle_timeouts import SHORTEST_NS
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from p4runtime_shim.server.rpc_errors import BatchError
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim.server import idle_program
from tests.p4runtime_shim.server.entities import ROLLBACK
from tests.p4runtime_shim.server.world import delete, insert, modify

SECOND = 1_000_000_000
IDS = idle_program.ids()
MANY = 1000


class World:
    """A forwarding state on the engine, and the time."""

    def __init__(self, switch: EmbeddedSwitch) -> None:
        self.now = 5 * SECOND
        self.switch = switch
        schema = p4info.build(idle_program.p4info())
        self.state = ForwardingState(schema, switch.control_plane, lambda: self.now)

    def write(self, *updates: p4r.Update, atomicity: int = 0) -> None:
        self.state.write(updates, atomicity)

    def packet(self, a: int, b: int = 255) -> None:
        self.switch.receive(0, bytes([a, b]), self.now)
        self.switch.transmit(1, self.now)

    def expired(self) -> list[p4r.TableEntry]:
        return self.state.idle_entries(self.now, MANY)

    def idle(self, **filters: Any) -> dict[int, int]:
        """Times since the last hit by key, of the entries by_a."""
        wanted = p4r.Entity(table_entry={"table_id": IDS["I.by_a"], "time_since_last_hit": {}, **filters})
        found = [item.table_entry for item in self.state.read([wanted])]
        assert all(item.HasField("time_since_last_hit") for item in found)
        return {item.match[0].exact.value[0]: item.time_since_last_hit.elapsed_ns for item in found}


@pytest.fixture
def world() -> Iterator[World]:
    pipeline = Pipeline.load(idle_program.compiled().json)
    with EmbeddedSwitch(pipeline, ports=(0, 1), seed=0) as switch:
        yield World(switch)


def by_a(a: int, timeout: int = 0, **more: Any) -> p4r.TableEntry:
    action = {"action": {"action_id": IDS["I.send"], "params": [{"param_id": 1, "value": b"\x01"}]}}
    match = [{"field_id": 1, "exact": {"value": bytes([a])}}]
    return p4r.TableEntry(
        **{"table_id": IDS["I.by_a"], "match": match, "action": action, "idle_timeout_ns": timeout, **more}
    )


def by_b(priority: int, timeout: int) -> p4r.TableEntry:
    action = {"action": {"action_id": IDS["NoAction"]}}
    return p4r.TableEntry(table_id=IDS["I.by_b"], priority=priority, action=action, idle_timeout_ns=timeout)


def test_an_entry_expires_once_per_idle_timeout(world: World) -> None:
    world.write(insert(table_entry=by_a(1, SECOND, metadata=b"m", controller_metadata=7)))
    world.now += SECOND - 1
    assert world.expired() == []
    world.now += 1
    told = by_a(1, SECOND, metadata=b"m", controller_metadata=7)
    told.ClearField("action")
    assert world.expired() == [told]
    assert world.expired() == []
    world.now += SECOND - 1
    assert world.expired() == []
    assert world.state.idle_timeouts.due() == world.now + 1
    world.now += 1
    assert world.expired() == [told]


def test_packets_postpone_the_timeout(world: World) -> None:
    world.write(insert(table_entry=by_a(1, SECOND)), insert(table_entry=by_a(2, SECOND)))
    world.now += SECOND // 2
    world.packet(1)
    world.packet(9)  # misses
    world.now += SECOND // 2
    assert [item.match[0].exact.value for item in world.expired()] == [b"\x02"]
    assert world.state.idle_timeouts.due() == world.now + SECOND // 2
    world.now += SECOND // 2
    assert [item.match[0].exact.value for item in world.expired()] == [b"\x01"]


def test_reads_tell_the_time_since_the_last_hit_if_asked(world: World) -> None:
    world.write(insert(table_entry=by_a(1)), insert(table_entry=by_a(2, SECOND)))
    world.now += 30
    world.packet(1)
    world.now += 12
    assert world.idle() == {1: 12, 2: 42}
    assert world.idle(match=by_a(1).match) == {1: 12}
    wanted = p4r.Entity(table_entry={"table_id": IDS["I.by_a"]})
    plain = [item.table_entry for item in world.state.read([wanted])]
    assert plain == [by_a(1), by_a(2, SECOND)]
    everywhere = list(world.state.read([p4r.Entity(table_entry={"time_since_last_hit": {}})]))
    assert len(everywhere) == 2


def test_the_clock_may_start_at_zero_and_hits_at_that_time_count(world: World) -> None:
    world.now = 0
    world.write(insert(table_entry=by_a(1, SECOND)))
    world.packet(1)
    world.now = 9
    assert world.idle() == {1: 9}


def test_a_modified_timeout_counts_from_the_last_hit(world: World) -> None:
    world.write(insert(table_entry=by_a(1, 10 * SECOND)))
    world.now += 2 * SECOND
    world.packet(1)
    world.now += 2 * SECOND
    world.write(modify(table_entry=by_a(1, 3 * SECOND)))
    world.now += SECOND - 1
    assert world.expired() == []
    world.now += 1
    assert len(world.expired()) == 1
    world.write(modify(table_entry=by_a(1, 0)))
    assert world.state.idle_timeouts.due() is None
    world.now += 100 * SECOND
    assert world.expired() == []


def test_a_deleted_entry_does_not_expire_and_one_put_back_does(world: World) -> None:
    world.write(insert(table_entry=by_a(1, SECOND)), insert(table_entry=by_b(3, SECOND)))
    world.write(delete(table_entry=by_b(3, 0)))
    with pytest.raises(BatchError):
        world.write(delete(table_entry=by_a(1)), insert(table_entry=by_a(1, -1)), atomicity=ROLLBACK)
    world.now += SECOND
    assert [item.table_id for item in world.expired()] == [IDS["I.by_a"]]


@pytest.mark.parametrize("change", [delete(table_entry=by_a(1)), modify(table_entry=by_a(1))])
def test_a_change_that_is_rolled_back_leaves_idle_times_and_timeouts_as_they_were(
    world: World, change: p4r.Update
) -> None:
    world.write(insert(table_entry=by_a(1, SECOND)))
    world.now += SECOND
    world.packet(1)
    world.now += SECOND
    assert len(world.expired()) == 1
    world.now += SECOND // 2
    with pytest.raises(BatchError):
        world.write(change, insert(table_entry=by_a(2, -1)), atomicity=ROLLBACK)
    assert world.idle() == {1: SECOND + SECOND // 2}
    assert world.expired() == []
    world.now += SECOND // 2
    assert len(world.expired()) == 1


def test_shorter_timeouts_count_as_the_shortest(world: World) -> None:
    world.write(insert(table_entry=by_a(1, 1)))
    assert world.state.idle_timeouts.due() == world.now + SHORTEST_NS
    (entry,) = [item.table_entry for item in world.state.read([p4r.Entity(table_entry={"table_id": IDS["I.by_a"]})])]
    assert entry.idle_timeout_ns == 1


def test_entries_written_again_and_again_take_no_memory(world: World) -> None:
    world.write(insert(table_entry=by_a(1, SECOND)))
    for number in range(1000):
        world.write(modify(table_entry=by_a(1, (1 + number % 2) * SECOND)))
    assert len(world.state.idle_timeouts._waiting) < 100
    world.now += 2 * SECOND
    assert len(world.expired()) == 1


@pytest.mark.parametrize(
    "update",
    [
        insert(table_entry=by_a(1, -1)),
        insert(table_entry=by_a(1, SECOND, time_since_last_hit={})),
        insert(table_entry=by_a(1, SECOND, table_id=IDS["I.plain"], action={"action": {"action_id": IDS["NoAction"]}})),
        insert(
            table_entry=by_a(
                1, table_id=IDS["I.plain"], action={"action": {"action_id": IDS["NoAction"]}}, time_since_last_hit={}
            )
        ),
        modify(table_entry={"table_id": IDS["I.by_a"], "is_default_action": True, "idle_timeout_ns": 1}),
        modify(table_entry={"table_id": IDS["I.by_a"], "is_default_action": True, "time_since_last_hit": {}}),
    ],
)
def test_timeouts_that_cannot_be_are_invalid(world: World, update: p4r.Update) -> None:
    with pytest.raises(BatchError) as caught:
        world.write(update)
    assert [item.code for item in caught.value.results if item] == [rpc_code.INVALID_ARGUMENT]
    assert list(world.state.read([p4r.Entity(table_entry={})])) == []


@pytest.mark.parametrize("more", [{"table_id": IDS["I.plain"]}, {"table_id": IDS["I.by_a"], "is_default_action": True}])
def test_times_that_do_not_exist_cannot_be_read(world: World, more: dict[str, Any]) -> None:
    with pytest.raises(BatchError) as caught:
        list(world.state.read([p4r.Entity(table_entry={"time_since_last_hit": {}, **more})]))
    assert [item.code for item in caught.value.results if item] == [rpc_code.INVALID_ARGUMENT]


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_are_those_of_a_model(world: World, seed: int) -> None:
    """Entries are written, hit and looked at; a model keeps for each its timeout, last hit and last expiry."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    model: dict[int, list[int]] = {}  # timeout, last hit or insertion, last of these and of expiries
    expired = 0
    for _ in range(600):
        world.now += rng.choice([0, 1, SECOND // 3, SECOND])
        key, timeout = rng.randrange(8), rng.choice([0, SECOND, 2 * SECOND, 5 * SECOND])
        choice = rng.randrange(6)
        if choice == 0 and key not in model:
            world.write(insert(table_entry=by_a(key, timeout)))
            model[key] = [timeout, world.now, world.now]
        elif choice == 1 and key in model:
            world.write(modify(table_entry=by_a(key, timeout)))
            if not model[key][0] and timeout:
                model[key][2] = model[key][1]
            model[key][0] = timeout
        elif choice == 2 and key in model and rng.random() < 0.3:
            world.write(delete(table_entry=by_a(key)))
            del model[key]
        elif choice == 3:
            world.packet(key)
            if key in model:
                model[key][1:] = [world.now, world.now]
        elif choice == 4:
            assert world.idle() == {key: world.now - last for key, (_, last, _) in model.items()}
        else:
            wanted = {key for key, (timeout, _, since) in model.items() if timeout and world.now - since >= timeout}
            assert {item.match[0].exact.value[0] for item in world.expired()} == wanted
            expired += len(wanted)
            for key in wanted:
                model[key][2] = world.now
    assert expired > 10


def test_timeouts_move_to_another_program_and_start_again(world: World) -> None:
    world.write(insert(table_entry=by_a(1, SECOND)), insert(table_entry=by_b(3, 2 * SECOND)))
    world.now += SECOND
    with EmbeddedSwitch(world.switch.pipeline, ports=(0, 1), seed=0) as other:
        after = ForwardingState(p4info.build(idle_program.p4info()), other.control_plane, lambda: world.now)
        after.replay(world.state.entities(counts=True))
        assert after.idle_timeouts.due() == world.now + SECOND
        world.now += 2 * SECOND
        assert len(after.idle_entries(world.now, MANY)) == 2
        assert len(after.idle_entries(world.now, MANY)) == 0


class Ears:
    """A client's stream: what it was sent."""

    def __init__(self) -> None:
        self.heard: list[p4r.IdleTimeoutNotification] = []
        self.told = asyncio.Event()

    def send(self, message: p4r.StreamMessageResponse) -> None:
        if message.HasField("idle_timeout_notification"):
            self.heard.append(message.idle_timeout_notification)
            self.told.set()


def test_the_primary_is_told_in_batches_and_nobody_else() -> None:
    """The clock stands still until the test moves it; the scan after the move finds all that has expired."""

    async def work() -> None:
        now = 0
        with EmbeddedSwitch(None, ports=(0, 1), seed=0) as switch:
            device = P4RuntimeDevice(1, switch, PipelineConfigLoader(Pipeline.load), clock=lambda: now)
            device.start(asyncio.get_running_loop())
            first, second, third = Ears(), Ears(), Ears()

            def join(ears: Ears, election: int) -> None:
                message = p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=election))
                device.arbitrate(ears, message)

            join(first, 2)
            join(second, 1)
            request = p4r.SetForwardingPipelineConfigRequest(
                device_id=1,
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                election_id=p4r.Uint128(low=2),
            )
            request.config.p4info.CopyFrom(idle_program.p4info())
            request.config.p4_device_config = idle_program.compiled().json.encode()
            await device.set_config(request)
            updates = [insert(table_entry=by_a(number, SECOND)) for number in range(20)]
            write = p4r.WriteRequest(device_id=1, election_id=p4r.Uint128(low=2), updates=updates)
            await device.write(write)
            now = SECOND
            write.ClearField("updates")
            deadline = time.monotonic() + 30
            while not first.told.is_set() and time.monotonic() < deadline:
                await device.write(write)  # the next look is at once, not in a second; no further write puts it off
                await asyncio.sleep(0.001)
            assert [len(item.table_entry) for item in first.heard] == [20]
            assert first.heard[0].timestamp > 0
            device.leave(first)
            now = 3 * SECOND
            join(third, 3)  # hears at once what expired while nobody listened
            await asyncio.wait_for(third.told.wait(), 30)
            assert [len(item.table_entry) for item in third.heard] == [20]
            assert not second.heard
            assert len(first.heard) == 1
            device.stop()

    asyncio.run(work())
