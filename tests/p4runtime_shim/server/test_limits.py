"""What a client or a program can make large is bounded, and is refused with a status and one sentence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import grpc
import grpc.aio
import pytest
from finsy.proto import p4i, p4r, p4t, rpc_code
from google.protobuf import text_format

from p4runtime_shim import limits
from p4runtime_shim.entities import ActionCall, CounterValue, Digest, Entry, Exact, MeterConfig, Replica
from p4runtime_shim.errors import InvalidProgram, ResourceExhausted, Unsupported
from p4runtime_shim.program import load_program
from p4runtime_shim.server import p4data, p4info
from p4runtime_shim.server.arbitration import Arbitration
from p4runtime_shim.server.device import P4RuntimeDevice
from p4runtime_shim.server.digests import Digests
from p4runtime_shim.server.p4runtime_service import P4RuntimeService, make_server
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from p4runtime_shim.server.rpc_errors import RpcError
from p4runtime_shim.server.stream_channel import ClientStream
from p4runtime_shim.switch import Pipeline, Switch
from tests.p4runtime_shim.builder import Builder, call, const, field
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.world import (
    Client,
    World,
    dropping,
    failing,
    insert,
    modify,
    run,
    stream_end,
    with_client,
)
from tests.waiting import until_async

INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED


# --- programs


def looping(*names: str) -> str:
    """Tables of which each leads to the next, and the last to the first."""
    made = Builder()
    action = made.action("a", [call("no_op")])
    for name in names:
        made.table(name, [], [action], default=action, const=True)
    tables = made.data["pipelines"][0]["tables"]
    for table, following in zip(tables, [*names[1:], names[0]], strict=True):
        table["next_tables"] = {"a": following}
        table["base_default_next"] = following
    return made.text()


def with_constant(width: int) -> str:
    made = Builder()
    value = {"type": "hexstr", "value": "0x1", "bitwidth": width}
    made.data["calculations"] = [{"name": "c", "id": 0, "algo": "crc16", "input": [value]}]
    return made.text()


def deep(levels: int) -> str:
    made = Builder()
    value: Any = const(1)
    for _ in range(levels):
        value = {"type": "expression", "value": {"op": "+", "left": value, "right": const(1)}}
    made.action("a", [call("assign", field("standard_metadata", "egress_spec"), value)])
    return made.text()


def cells(**sizes: int) -> str:
    made = Builder()
    for name, size in sizes.items():
        made.data["counter_arrays"].append({"name": name, "id": 0, "is_direct": False, "size": size})
    return made.text()


def wide(headers: int) -> str:
    made = Builder()
    made.header_type("h_t", [(f"f{i}", 2048) for i in range(32)])
    for number in range(headers):
        made.header(f"h{number}", "h_t")
    return made.text()


def learning(fields: int) -> str:
    made = Builder()
    made.header_type("h_t", [(f"f{i}", 2048) for i in range(fields)])
    made.header("h", "h_t", metadata=True)
    elements = [field("h", f"f{i}") for i in range(fields)]
    made.data["learn_lists"] = [{"id": 1, "name": "d", "elements": elements}]
    return made.text()


def parsing(*, parameter: str = "0x1", lookahead: int = 0, shift: int = 1) -> str:
    """A parser that shifts, then looks ahead; and an action with a constant."""
    made = Builder()
    value = {"type": "hexstr", "value": parameter, "bitwidth": 16}
    made.action("a", [call("assign", field("standard_metadata", "egress_spec"), value)])
    key = [{"type": "lookahead", "value": [lookahead, 8]}]
    state = {"name": "start", "id": 0, "parser_ops": [{"op": "shift", "parameters": [shift]}]}
    transitions = [{"type": "default", "value": None, "mask": None, "next_state": None}]
    made.data["parsers"][0] |= {
        "init_state": "start",
        "parse_states": [{**state, "transition_key": key, "transitions": transitions}],
    }
    return made.text()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (looping("t"), "leads back to itself"),
        (looping("t", "u", "v"), "leads back to itself"),
        (with_constant(4 * 10**10), "40000000000 bits"),
        (deep(limits.MAX_EXPRESSION_DEPTH + 1), "nested too deeply"),
        (deep(330), "nested too deeply"),
        (cells(a=1 << 24, b=1), "counters, meters and registers"),
        (wide(9), "headers and metadata"),
        (learning(129), "digest of"),
        (parsing(parameter="0x" + "1" * limits.MAX_HEX_DIGITS), "digits; the most is"),
        (parsing(lookahead=limits.MAX_LOOKAHEAD_BITS + 1), "lookahead over"),
        (parsing(shift=limits.MAX_LOOKAHEAD_BITS // 8 + 1), "shift of"),
        ("[" * 100_000, "not JSON"),
        ('{"program": "\\ud800"}', "lone surrogate"),
    ],
    ids=[
        "loop",
        "longer-loop",
        "constant",
        "depth",
        "depth-in-python",
        "cells",
        "headers",
        "digest",
        "digits",
        "lookahead",
        "shift",
        "json",
        "surrogate",
    ],
)
def test_a_program_that_is_too_large_is_refused_at_once(text: str, word: str) -> None:
    began = time.thread_time()
    with pytest.raises((InvalidProgram, Unsupported), match=word):
        load_program(text)
    assert time.thread_time() - began < 5


def test_what_is_large_but_not_too_large_is_taken() -> None:
    for text in (
        with_constant(limits.MAX_VALUE_BITS),
        deep(limits.MAX_EXPRESSION_DEPTH - 2),
        cells(a=(1 << 24) - 1),
        wide(7),
        learning(100),
        parsing(parameter="0x" + "0" * (limits.MAX_HEX_DIGITS - 3) + "1"),
        parsing(lookahead=limits.MAX_LOOKAHEAD_BITS),
        parsing(shift=limits.MAX_LOOKAHEAD_BITS // 8),
    ):
        load_program(text)


def test_control_that_joins_again_is_no_loop() -> None:
    """A diamond of conditions, 60 high: 2^60 ways through it."""
    made = Builder()
    last = "end"
    action = made.action("a", [call("no_op")])
    made.table("end", [], [action], default=action, const=True)
    conditions = made.data["pipelines"][0]["conditionals"]
    for number in range(60):
        true = {"type": "expression", "value": {"op": "==", "left": const(1), "right": const(1)}}
        for side in ("l", "r"):
            conditions.append(
                {"name": f"{side}{number}", "id": 0, "expression": true, "true_next": last, "false_next": last}
            )
        conditions.append(
            {"name": f"c{number}", "id": 0, "expression": true, "true_next": f"l{number}", "false_next": f"r{number}"}
        )
        last = f"c{number}"
    began = time.thread_time()
    load_program(made.text())
    assert time.thread_time() - began < 5


def struct_types(depth: int, members: int, leaf: str) -> p4t.P4TypeInfo:
    types = p4t.P4TypeInfo()
    for level in range(depth):
        inner = f'struct {{ name: "s{level + 1}" }}' if level + 1 < depth else leaf
        for number in range(members):
            item = types.structs[f"s{level}"].members.add(name=f"m{number}")
            item.type_spec.CopyFrom(text_format.Parse(inner, p4t.P4DataTypeSpec()))
    return types


@pytest.mark.parametrize("leaf", ["bitstring { bit { bitwidth: 8 } }", "tuple {}"])
def test_structs_of_structs_are_not_counted_to_the_end(leaf: str) -> None:
    spec = text_format.Parse('struct { name: "s0" }', p4t.P4DataTypeSpec())
    began = time.thread_time()
    with pytest.raises(RpcError, match="more than 1024 members"):
        p4data.count_leaves(spec, struct_types(15, 8, leaf), "digest d")
    assert time.thread_time() - began < 5
    assert p4data.count_leaves(spec, struct_types(2, 30, "bool {}"), "digest d") == 900


def test_a_p4info_that_is_too_large() -> None:
    info = sample.p4info()
    info.pkg_info.doc.description = "x" * limits.MAX_P4INFO_BYTES
    with pytest.raises(RpcError, match="P4Info has") as caught:
        p4info.build(info)
    assert caught.value.code == rpc_code.INVALID_ARGUMENT
    info = sample.p4info()
    for number in range(10):
        info.controller_packet_metadata[0].metadata.add(id=100 + number, name=f"m{number}", bitwidth=2048)
    with pytest.raises(RpcError, match="bits; the maximum is 8192"):
        p4info.build(info)


@pytest.mark.parametrize("config", [b"[" * 100_000, b'{"a":' * 100_000, b"{}" + b" " * limits.MAX_PROGRAM_BYTES])
def test_json_of_any_depth_and_length_has_a_clear_answer(config: bytes) -> None:
    async def work(client: Client, made: World) -> None:
        error = await failing(client.set_config(p4i.P4Info(), config))
        assert error.code() == INVALID
        assert "Error(" not in (error.details() or "")

    with_client(work)


# --- writes


def large(size: int) -> tuple[Switch, p4i.P4Info, str]:
    """A switch, its P4Info and JSON, with a counter, a meter and a register of so many cells."""
    made = Builder()
    made.data["counter_arrays"] = [{"name": "c", "id": 0, "is_direct": False, "size": size}]
    made.data["register_arrays"] = [{"name": "r", "id": 0, "bitwidth": 48, "size": size}]
    meter = {"name": "m", "id": 0, "is_direct": False, "rate_count": 2, "type": "bytes", "size": min(size, 1 << 20)}
    made.data["meter_arrays"] = [meter]
    info = p4i.P4Info()
    info.counters.add(size=size).preamble.MergeFrom(p4i.Preamble(id=1, name="c"))
    info.registers.add(size=size).preamble.MergeFrom(p4i.Preamble(id=2, name="r"))
    info.registers[0].type_spec.bitstring.bit.bitwidth = 48
    info.meters.add(size=meter["size"]).preamble.MergeFrom(p4i.Preamble(id=3, name="m"))
    return Switch(Pipeline.load(made.text()), ports=(1, 2), seed=1), info, made.text()


def test_all_cells_of_an_array_are_written_and_read_in_one_go() -> None:
    switch, _, _ = large(50_000)
    with switch:
        switch.control_plane.externs.counter_write("c", 7, CounterValue(1, 2))
        before = switch.control_plane.externs.counter_read_all("c")
        switch.control_plane.externs.counter_fill("c", CounterValue(3, 4))
        switch.control_plane.externs.counter_write("c", 49_999, CounterValue(5, 6))
        assert (before[7], before[8], len(before)) == (CounterValue(1, 2), CounterValue(), 50_000)
        after = switch.control_plane.externs.counter_read_all("c")
        assert {after[i] for i in range(49_999)} == {CounterValue(3, 4)}
        assert after[-1] == CounterValue(5, 6)
        with pytest.raises(IndexError):
            after[50_000]
        switch.control_plane.externs.register_fill("r", 2**47)
        switch.control_plane.externs.register_write("r", 20_000, 9)
        registers = switch.control_plane.externs.register_read_all("r")
        assert (registers[0], registers[20_000], registers[49_999]) == (2**47, 9, 2**47)
        config = MeterConfig(1, 2, 3, 4)
        switch.control_plane.externs.meter_write("m", 5, MeterConfig(2, 2, 2, 2))
        switch.control_plane.externs.meter_fill("m", config)
        switch.control_plane.externs.meter_write("m", 6, None)
        meters = switch.control_plane.externs.meter_read_all("m")
        assert (meters[5], meters[6], meters[7]) == (config, None, config)
        assert (switch.control_plane.externs.meter_read("m", 6), switch.control_plane.externs.meter_read("m", 7)) == (
            None,
            config,
        )
        switch.control_plane.externs.meter_fill("m", None)
        assert switch.control_plane.externs.meter_read("m", 7) is None


def test_writes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: Client, made: World) -> None:
        many = [insert(table_entry=dropping(1))] * (limits.MAX_UPDATES + 1)
        assert (await failing(client.write(*many))).code() == EXHAUSTED
        entry = dropping(1)
        entry.metadata = b"x" * (limits.MAX_METADATA_BYTES + 1)
        assert "metadata has at most" in ((await failing(client.write(insert(table_entry=entry)))).details() or "")
        monkeypatch.setattr(limits, "MAX_UNDO_CELLS", 3)
        every = modify(counter_entry={"counter_id": sample.COUNTER, "data": {"packet_count": 9}})
        error = await failing(client.write(every, atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR))
        assert "can restore" in (error.details() or "")
        await client.write(every)
        monkeypatch.setattr(limits, "MAX_FILLED_CELLS", 7)
        error = await failing(client.write(every, every))
        assert "1 of 2 updates failed" in (error.details() or "")

    with_client(work)


def test_entries_members_groups_and_replicas_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(word: str, write: Any) -> None:
        with pytest.raises(ResourceExhausted, match=word):
            write()

    with sample.real() as switch:
        monkeypatch.setattr(limits, "MAX_ENTRIES", 4)  # two are const
        switch.control_plane.table("I.exact_").insert(Entry((Exact(1),), ActionCall("I.drop")))
        switch.control_plane.table("I.exact_").insert(Entry((Exact(2),), ActionCall("I.drop")))
        full(
            "can have 4 entries",
            lambda: switch.control_plane.table("I.exact_").insert(Entry((Exact(3),), ActionCall("I.drop"))),
        )
        switch.control_plane.table("I.exact_").delete((Exact(1),))
        switch.control_plane.table("I.exact_").insert(Entry((Exact(3),), ActionCall("I.drop")))

        monkeypatch.setattr(limits, "MAX_MEMBERS", 2)
        for number in (1, 2):
            switch.control_plane.profile("I.selector").member_add(number, ActionCall("I.drop"))
        full("full", lambda: switch.control_plane.profile("I.selector").member_add(3, ActionCall("I.drop")))
        monkeypatch.setattr(limits, "MAX_SLOTS", 10)
        switch.control_plane.profile("I.selector").group_add(1, [(1, 6)])
        full("more than 10", lambda: switch.control_plane.profile("I.selector").group_add(2, [(1, 5)]))
        switch.control_plane.profile("I.selector").group_modify(1, [(1, 10)])
        switch.control_plane.profile("I.selector").group_modify(1, [(1, 1)])
        switch.control_plane.profile("I.selector").group_add(2, [(1, 9)])
        full("groups", lambda: switch.control_plane.profile("I.selector").group_add(3, []))
        switch.control_plane.profile("I.selector").group_delete(2)
        switch.control_plane.profile("I.selector").group_add(3, [(2, 9)])

        monkeypatch.setattr(limits, "MAX_REPLICAS", 3)
        switch.control_plane.replication.group_set(1, [Replica(1, 1), Replica(2, 1)])
        full("3 replicas", lambda: switch.control_plane.replication.group_set(2, [Replica(1, 1), Replica(2, 1)]))
        switch.control_plane.replication.group_set(1, [Replica(1, 1)])
        switch.control_plane.replication.group_set(2, [Replica(1, 1), Replica(2, 1)])
        switch.control_plane.replication.group_delete(2)
        switch.control_plane.replication.group_set(3, [Replica(1, 1), Replica(2, 1)])


# --- reads


def serving(switch: Switch, info: p4i.P4Info, text: str, work: Any) -> None:
    """`work(channel, service)` with a server for the switch."""

    async def inside() -> None:
        device = P4RuntimeDevice(1, switch, PipelineConfigLoader(Pipeline.load))
        device.start(asyncio.get_running_loop())
        service = P4RuntimeService([device])
        server = make_server(service)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                client = Client(channel)
                await client.arbitrate()
                await client.set_config(info, text.encode())
                await work(client, service)
        finally:
            await server.stop(None)
            device.stop()

    with switch:
        asyncio.run(inside())


async def watch(longest: list[float]) -> None:
    """Seconds of this thread's processor time between two turns of the event loop, the longest ones in order."""
    before = time.thread_time()
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        if now - before > longest[-1]:
            longest.append(now - before)
        before = now


def test_other_calls_are_answered_while_half_a_million_cells_are_read() -> None:
    async def work(client: Client, service: P4RuntimeService) -> None:
        longest = [0.0]
        watching = asyncio.ensure_future(watch(longest))
        reading = client.stub.Read(p4r.ReadRequest(device_id=1, entities=[p4r.Entity(counter_entry={"counter_id": 1})]))
        first = await reading.read()
        cell = {"counter_id": 1, "index": {"index": 499_999}}
        for number in range(20):
            await client.write(modify(counter_entry={**cell, "data": {"packet_count": number + 1}}))
            await client.read(p4r.Entity(counter_entry=cell))
        seen = len(first.entities)
        while (response := await reading.read()) is not grpc.aio.EOF:
            seen += len(response.entities)
            last = response.entities[-1].counter_entry
        watching.cancel()
        assert seen == 500_000
        assert (last.index.index, last.data.packet_count) == (499_999, 0)  # as it was when the read began
        assert longest[-1] < 0.5, longest  # 6 s when a read of the array held up the others

    serving(*large(500_000), work)


def test_reads_are_bounded_one_by_one_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    every = p4r.Entity(counter_entry={"counter_id": 1})

    async def work(client: Client, service: P4RuntimeService) -> None:
        error = await failing(client.read(*[p4r.Entity(table_entry={})] * (limits.MAX_READS + 1)))
        assert error.code() == EXHAUSTED
        monkeypatch.setattr(limits, "MAX_READING_CELLS", 150_000)
        reading = client.stub.Read(p4r.ReadRequest(device_id=1, entities=[every]))
        await reading.read()
        error = await failing(client.read(every))
        assert "other clients are reading" in (error.details() or "")
        assert await client.read(p4r.Entity(counter_entry={"counter_id": 1, "index": {}}))
        reading.cancel()
        await until_async(lambda: not service.reading.cells, "the client's share to be given back")
        assert len(await client.read(every)) == 100_000

    serving(*large(100_000), work)


def test_a_read_that_finds_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_READ_CELLS", 99_999)

    async def work(client: Client, service: P4RuntimeService) -> None:
        error = await failing(client.read(p4r.Entity(counter_entry={"counter_id": 1})))
        assert "read less at a time" in (error.details() or "")

    serving(*large(100_000), work)


def test_a_client_that_does_not_take_what_it_reads_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_READ_WAIT_S", 0.2)

    async def work(client: Client, service: P4RuntimeService) -> None:
        reading = client.stub.Read(p4r.ReadRequest(device_id=1, entities=[p4r.Entity(counter_entry={"counter_id": 1})]))
        await until_async(lambda: service.reading.cells, "the reading to begin")
        await until_async(lambda: not service.reading.cells, "the end of it: the client has not read a thing")
        seen = 0
        with contextlib.suppress(grpc.aio.AioRpcError):
            while (response := await reading.read()) is not grpc.aio.EOF:
                seen += len(response.entities)
        assert 0 < seen < 1_000_000
        assert await reading.code() == EXHAUSTED
        assert await client.read(p4r.Entity(counter_entry={"counter_id": 1, "index": {}}))

    serving(*large(1_000_000), work)


# --- clients


def test_roles_are_bounded_and_forgotten_when_nobody_has_them() -> None:
    class Ears:
        def send(self, message: p4r.StreamMessageResponse) -> None:
            """Take it."""

    def join(name: str) -> Ears:
        ears = Ears()
        message = p4r.MasterArbitrationUpdate(device_id=1, election_id=p4r.Uint128(low=1), role=p4r.Role(name=name))
        arbitration.update(ears, message)
        return ears

    arbitration = Arbitration(1)
    with pytest.raises(RpcError, match="name has 100000 characters") as caught:
        join("x" * 100_000)
    assert caught.value.code == rpc_code.INVALID_ARGUMENT
    for number in range(3 * limits.MAX_ROLES):
        arbitration.leave(join(f"short-lived {number}"))
    held = [join(f"r{number}") for number in range(limits.MAX_ROLES)]
    with pytest.raises(RpcError, match="roles with clients") as caught:
        join("one more")
    assert caught.value.code == rpc_code.RESOURCE_EXHAUSTED
    arbitration.leave(held[5])
    join("one more")


def queued(stream: ClientStream) -> list[p4r.StreamMessageResponse]:
    """What a stream still sends once its client reads."""
    read: list[p4r.StreamMessageResponse] = []

    class Context:
        async def write(self, message: p4r.StreamMessageResponse) -> None:
            read.append(message)

    async def work() -> None:
        writing = asyncio.ensure_future(stream.write_to(Context()))
        await asyncio.sleep(0)  # which is enough to write all there is
        writing.cancel()

    asyncio.run(work())
    return read


def test_a_client_that_never_reads_costs_a_bounded_number_of_bytes() -> None:
    stream = ClientStream()
    ended: list[bool] = []
    stream.end = lambda: ended.append(True)
    packet = p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=bytes(60_000)))
    for _ in range(2000):
        stream.send(packet)
    dropped = stream.dropped
    assert not ended
    for _ in range(5 * limits.MAX_WAITING_MESSAGES):
        stream.send(p4r.StreamMessageResponse(arbitration=p4r.MasterArbitrationUpdate(role=p4r.Role(name="r" * 200))))
    assert ended == [True]
    messages = queued(stream)
    assert sum(message.ByteSize() for message in messages) <= limits.MAX_WAITING_BYTES
    assert dropped == 2000 - sum(message.HasField("packet") for message in messages)


def test_small_messages_that_a_client_never_reads_are_bounded_in_number() -> None:
    stream = ClientStream()
    for _ in range(5 * limits.MAX_WAITING_MESSAGES):
        stream.send(p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=b"x")))
    assert stream.dropped == 4 * limits.MAX_WAITING_MESSAGES
    assert len(queued(stream)) == limits.MAX_WAITING_MESSAGES


def test_pipeline_configs_that_wait_for_one_another_are_bounded() -> None:
    async def work(client: Client, made: World) -> None:
        device = made.devices[1]
        async with device._configuring:
            waiting = [asyncio.ensure_future(client.set_config(p4i.P4Info(), b"{}")) for _ in range(limits.MAX_CONFIGS)]
            while device._waiting_configs < limits.MAX_CONFIGS:
                await asyncio.sleep(0)
            error = await failing(client.set_config(p4i.P4Info(), b"{}"))
        assert error.code() == EXHAUSTED
        await asyncio.gather(*waiting, return_exceptions=True)
        assert device._waiting_configs == 0

    with_client(work)


def test_digests_that_nobody_acknowledges_cost_a_bounded_number_and_time() -> None:
    schema = p4info.build(sample.p4info())
    digests = Digests(schema)
    name = schema.digests[sample.DIGEST].name
    config = {"max_timeout_ns": 0, "ack_timeout_ns": 2**62, "max_list_size": 2**31 - 1}
    digests.write(p4r.Update.INSERT, p4r.DigestEntry(digest_id=sample.DIGEST, config=config), None)
    began = time.thread_time()
    for number in range(2 * limits.MAX_DIGESTS_SENT):
        digests.offer([Digest(name, (number, 1), number)], number)
    assert time.thread_time() - began < 20
    (stream,) = digests._streams.values()
    assert len(stream.unacknowledged) == len(stream.sent) <= limits.MAX_DIGESTS_SENT + 1
    digests.write(
        p4r.Update.MODIFY, p4r.DigestEntry(digest_id=sample.DIGEST, config={**config, "max_timeout_ns": 2**62}), None
    )
    many = [Digest(name, (number, 2), 0) for number in range(limits.MAX_DIGESTS + 1)]
    (full,) = digests.offer(many, 0)
    assert len(full.data) == limits.MAX_DIGESTS


def test_packet_outs_of_16_megabytes_are_refused_and_not_sent_back() -> None:
    async def work(client: Client, made: World) -> None:
        for _ in range(3):
            await client.stream.write(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=bytes(16_000_000))))
            answer = await client.next()
            assert answer.error.canonical_code == rpc_code.RESOURCE_EXHAUSTED
            assert answer.ByteSize() < 1000
        assert made.fakes[1].inbox == []

    with_client(work)


def test_streams_that_say_nothing_are_few_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_IDLE_STREAMS", 2)

    async def work(made: World) -> None:
        async with made.channel() as channel:
            ends = [asyncio.ensure_future(stream_end(Client(channel))) for _ in range(3)]
            (first,), waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            assert first.result() == EXHAUSTED
            assert len(waiting) == 2
            for end in waiting:
                end.cancel()
        monkeypatch.setattr(limits, "MAX_IDLE_STREAMS", 9)
        monkeypatch.setattr(limits, "MAX_IDLE_S", 0.1)
        async with made.channel() as channel:
            assert await stream_end(Client(channel)) == grpc.StatusCode.FAILED_PRECONDITION
            client = Client(channel)
            while not await in_time(client):
                client = Client(channel)
            await asyncio.sleep(0.15)  # longer than a silent one may last
            await client.arbitrate()  # one that has spoken may be silent

    async def in_time(client: Client) -> bool:
        """On a busy machine its arbitration may come when it has been silent for too long."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, AssertionError):
            await client.arbitrate()
            return True
        return False

    run(work)


def test_clients_of_a_device_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STREAMS", 3)

    async def work(made: World) -> None:
        async with made.channel() as channel:
            clients = [Client(channel, election=number + 1, role=f"r{number}") for number in range(4)]
            for client in clients[:3]:
                await client.arbitrate()
            await clients[3].send_arbitration()
            assert await stream_end(clients[3]) == EXHAUSTED

    run(work)


def test_bytes_that_are_no_message_are_refused_as_such() -> None:
    async def work(client: Client, made: World) -> None:
        async with made.channel() as channel:
            for method in ("Write", "SetForwardingPipelineConfig", "Capabilities"):
                error = await failing(channel.unary_unary(f"/p4.v1.P4Runtime/{method}")(b"\xff\xff\xff"))
                assert error.code() == INVALID
            reading = channel.unary_stream("/p4.v1.P4Runtime/Read")(b"\xff\xff\xff")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await reading.read()
            assert caught.value.code() == INVALID
            stream = channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")()
            await stream.write(b"\xff\xff\xff")
            assert await stream.code() == INVALID

    with_client(work)
