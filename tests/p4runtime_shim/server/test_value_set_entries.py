"""Parser value sets through P4Runtime, on the engine: writes and reads, errors, rollback, pipeline configs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from finsy.proto import p4i, p4r, rpc_code
from google.protobuf import text_format

from mrc_common.p4_match import Exact, Match
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.server import p4info
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.forwarding_state import ForwardingState
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from p4runtime_shim.server.rpc_errors import BatchError, RpcError
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import value_set_program
from tests.p4runtime_shim.server.entities import ROLLBACK
from tests.p4runtime_shim.server.world import delete, insert, modify

INFO = text_format.Parse(value_set_program.compiled().p4info, p4i.P4Info())
IDS = {item.preamble.name: item.preamble.id for item in INFO.value_sets}
KINDS, TYPES = IDS["P.kinds"], IDS["P.types"]
UNKNOWN = 0x03FFFFFF

Request = p4r.SetForwardingPipelineConfigRequest


@contextmanager
def made() -> Iterator[tuple[EmbeddedSwitch, ForwardingState]]:
    with EmbeddedSwitch(value_set_program.pipeline(), ports=range(5), seed=0) as switch:
        yield switch, ForwardingState(p4info.build(INFO), switch.control_plane)


@pytest.fixture
def state() -> Iterator[ForwardingState]:
    with made() as (_, found):
        yield found


def types(*numbers: int) -> p4r.ValueSetEntry:
    members = [{"match": [{"field_id": 1, "exact": {"value": bytes([number])}}]} for number in numbers]
    return p4r.ValueSetEntry(value_set_id=TYPES, members=members)


def kinds(*fields: dict[str, object]) -> p4r.ValueSetEntry:
    return p4r.ValueSetEntry(value_set_id=KINDS, members=[{"match": fields}])


def read(state: ForwardingState, id_: int = 0) -> list[p4r.ValueSetEntry]:
    return [item.value_set_entry for item in state.read([p4r.Entity(value_set_entry={"value_set_id": id_})])]


def test_modify_sets_all_members_and_reads_return_them(state: ForwardingState) -> None:
    empty = [p4r.ValueSetEntry(value_set_id=KINDS), p4r.ValueSetEntry(value_set_id=TYPES)]
    assert read(state) == empty
    state.write([modify(value_set_entry=types(1, 2))])
    state.write([modify(value_set_entry=types(3, 2))])
    assert read(state, TYPES) == [types(3, 2)]
    assert read(state) == [empty[0], types(3, 2)]
    state.write([modify(value_set_entry=types())])
    assert read(state) == empty


def test_fields_follow_the_rules_of_table_entries(state: ForwardingState) -> None:
    """All kinds of match, in the shortest form, without those that match anything."""
    full = [
        {"field_id": 1, "exact": {"value": b"\x05"}},
        {"field_id": 2, "ternary": {"value": b"\x01", "mask": b"\x0f\x01"}},
        {"field_id": 3, "lpm": {"value": b"\x20" + bytes(8), "prefix_len": 1}},
        {"field_id": 4, "range": {"low": b"\x01", "high": b"\x02"}},
        {"field_id": 5, "optional": {"value": b"\x1f"}},
    ]
    for entry in (kinds(*full), kinds(full[0])):
        state.write([modify(value_set_entry=entry)])
        assert read(state, KINDS) == [entry]
    state.write([modify(value_set_entry=kinds({"field_id": 1, "exact": {"value": b"\x00\x05"}}))])
    assert read(state, KINDS) == [kinds(full[0])]


@pytest.mark.parametrize(
    ("update", "code"),
    [
        (insert(value_set_entry=types(1)), rpc_code.INVALID_ARGUMENT),
        (delete(value_set_entry=types(1)), rpc_code.INVALID_ARGUMENT),
        (modify(value_set_entry={}), rpc_code.INVALID_ARGUMENT),
        (modify(value_set_entry={"value_set_id": UNKNOWN}), rpc_code.NOT_FOUND),
        (insert(value_set_entry={"value_set_id": UNKNOWN}), rpc_code.NOT_FOUND),
        (modify(value_set_entry=types(1, 2, 3, 4, 5)), rpc_code.RESOURCE_EXHAUSTED),
        (modify(value_set_entry=types(1, 1)), rpc_code.ALREADY_EXISTS),
        (modify(value_set_entry={"value_set_id": TYPES, "members": [{}]}), rpc_code.INVALID_ARGUMENT),
        (modify(value_set_entry=kinds({"field_id": 1, "ternary": {}})), rpc_code.INVALID_ARGUMENT),
        (modify(value_set_entry=kinds({"field_id": 9, "exact": {"value": b"\x01"}})), rpc_code.INVALID_ARGUMENT),
        (modify(value_set_entry=kinds({"field_id": 1, "exact": {"value": b"\x01\x00"}})), rpc_code.OUT_OF_RANGE),
    ],
)
def test_invalid_updates_change_nothing(state: ForwardingState, update: p4r.Update, code: int) -> None:
    state.write([modify(value_set_entry=types(9))])
    before = read(state)
    with pytest.raises(BatchError) as caught:
        state.write([update])
    assert [item.code for item in caught.value.results if item] == [code]
    assert read(state) == before


def test_an_unknown_set_cannot_be_read(state: ForwardingState) -> None:
    with pytest.raises(BatchError) as caught:
        read(state, UNKNOWN)
    assert [item.code for item in caught.value.results if item] == [rpc_code.NOT_FOUND]


def test_a_failed_batch_restores_the_members() -> None:
    with made() as (switch, state):
        state.write([modify(value_set_entry=types(1))])
        with pytest.raises(BatchError):
            state.write([modify(value_set_entry=types(2)), modify(value_set_entry=types(3, 3))], ROLLBACK)
        assert read(state, TYPES) == [types(1)]
        for number, port in ((1, value_set_program.TYPED), (2, value_set_program.NONE)):
            switch.receive(0, value_set_program.frame((0, 0, 0, 0, 0), number), 0)
            assert switch.transmit(port, 0)


class Ears:
    """A client's stream that is not looked at."""

    def send(self, message: p4r.StreamMessageResponse) -> None:
        """Take it."""


def with_device(work: Callable[[P4RuntimeDevice, EmbeddedSwitch], Awaitable[None]]) -> None:
    async def inside() -> None:
        with EmbeddedSwitch(None, ports=range(5), seed=0) as switch:
            device = P4RuntimeDevice(1, switch, PipelineConfigLoader(Pipeline.load))
            device.start(asyncio.get_running_loop())
            device.arbitrate(Ears(), p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=1)))
            try:
                await work(device, switch)
            finally:
                device.stop()

    asyncio.run(inside())


async def configure(device: P4RuntimeDevice, action: int, config: bytes, info: p4i.P4Info = INFO) -> None:
    request = Request(device_id=1, action=action, election_id=p4r.Uint128(low=1))
    request.config.p4info.CopyFrom(info)
    request.config.p4_device_config = config
    await device.set_config(request)


def members(switch: EmbeddedSwitch) -> tuple[tuple[Match, ...], ...]:
    return switch.control_plane.value_set("P.types").members()


def smaller(size: int) -> p4i.P4Info:
    """The P4Info with another size of the set `types`."""
    info = p4i.P4Info()
    info.CopyFrom(INFO)
    next(item for item in info.value_sets if item.preamble.id == TYPES).size = size
    return info


def test_members_are_kept_by_reconciliation_and_reset_by_another_config() -> None:
    async def work(device: P4RuntimeDevice, switch: EmbeddedSwitch) -> None:
        config = value_set_program.compiled().json.encode()
        await configure(device, Request.VERIFY_AND_COMMIT, config)
        update = modify(value_set_entry=types(1, 2))
        await device.write(p4r.WriteRequest(device_id=1, election_id=p4r.Uint128(low=1), updates=[update]))
        assert members(switch) == ((Exact(1),), (Exact(2),))
        await configure(device, Request.RECONCILE_AND_COMMIT, config, smaller(2))
        assert members(switch) == ((Exact(1),), (Exact(2),))
        with pytest.raises(RpcError) as caught:
            await configure(device, Request.RECONCILE_AND_COMMIT, config, smaller(1))
        assert caught.value.code == rpc_code.INVALID_ARGUMENT
        switch.receive(0, value_set_program.frame((0, 0, 0, 0, 0), 2), 0)
        assert switch.transmit(value_set_program.TYPED, 0)
        await configure(device, Request.VERIFY_AND_COMMIT, config)
        assert members(switch) == ()
        switch.receive(0, value_set_program.frame((0, 0, 0, 0, 0), 2), 0)
        assert switch.transmit(value_set_program.NONE, 0)

    with_device(work)


def test_members_count_among_the_updates_of_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p4runtime_shim.limits.MAX_UPDATES", 5)

    async def work(device: P4RuntimeDevice, switch: EmbeddedSwitch) -> None:
        await configure(device, Request.VERIFY_AND_COMMIT, value_set_program.compiled().json.encode())
        write = p4r.WriteRequest(device_id=1, election_id=p4r.Uint128(low=1))
        write.updates.extend([modify(value_set_entry=types(1)), modify(value_set_entry=types(2, 3))])
        await device.write(write)
        write.updates.append(modify(value_set_entry=types()))
        with pytest.raises(RpcError, match="3 updates and 3 members") as caught:
            await device.write(write)
        assert caught.value.code == rpc_code.RESOURCE_EXHAUSTED
        assert members(switch) == ((Exact(2),), (Exact(3),))

    with_device(work)


def test_p4info_of_another_program_is_refused() -> None:
    async def work(device: P4RuntimeDevice, switch: EmbeddedSwitch) -> None:
        info = p4i.P4Info()
        info.CopyFrom(INFO)
        info.value_sets[0].preamble.name = "P.other"
        with pytest.raises(RpcError, match=r"value set P\.other"):
            await configure(device, Request.VERIFY, value_set_program.compiled().json.encode(), info)

    with_device(work)
