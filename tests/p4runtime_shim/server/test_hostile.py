"""Mutilated requests: an error for each, never another exception, and the state stays consistent."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from finsy.proto import p4i, p4r
from google.protobuf.message import DecodeError

from p4runtime_shim.server import p4info
from p4runtime_shim.server.forwarding_state import ForwardingState
from p4runtime_shim.server.rpc_errors import BatchError, RpcError
from tests.p4runtime_shim.server import sample
from tests.p4runtime_shim.server.entities import (
    default,
    exact,
    group,
    indirect,
    kinds,
    member,
    one_shot,
)
from tests.p4runtime_shim.server.world import delete, insert, modify
from tests.seeds import SEED

ROUNDS = 3000

VALID = [
    insert(table_entry=exact(counter_data={"packet_count": 5}, metadata=b"m")),
    modify(table_entry=exact(2)),
    delete(table_entry=exact()),
    insert(table_entry=kinds(meter_config={"cir": 1, "pir": 2})),
    modify(table_entry=default(sample.EXACT, action={"action": {"action_id": sample.SET_DEFAULT}})),
    insert(action_profile_member=member(1)),
    insert(action_profile_group=group(1, 1)),
    insert(table_entry=indirect(10, action_profile_group_id=1)),
    insert(table_entry=indirect(11, **one_shot(1, 2))),
    delete(table_entry=indirect(11)),
    delete(action_profile_group=group(1)),
    delete(action_profile_member=member(1)),
    modify(counter_entry={"counter_id": sample.COUNTER, "index": {"index": 1}, "data": {"byte_count": 3}}),
    modify(register_entry={"register_id": sample.SIGNED, "index": {}, "data": {"bitstring": b"\x01"}}),
    modify(meter_entry={"meter_id": sample.METER, "index": {"index": 2}, "config": {"cir": 1, "pir": 1}}),
    modify(direct_counter_entry={"table_entry": exact(), "data": {"packet_count": 1}}),
    modify(direct_meter_entry={"table_entry": kinds(), "config": {"cir": 1, "pir": 1}}),
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


def mutilate(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, cut out or doubled."""
    mutable = bytearray(data)
    for _ in range(chance.randint(0, 3)):
        at = chance.randrange(len(mutable)) if mutable else 0
        kind = chance.randrange(4)
        if kind == 0 and mutable:
            mutable[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif kind == 1 and mutable:
            mutable[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del mutable[at : at + chance.randint(1, 4)]
        else:
            mutable[at:at] = mutable[at : at + chance.randint(1, 8)]
    return bytes(mutable)


def failure(work: Callable[[], object]) -> BatchError | None:
    """The error that is allowed; any other escapes."""
    try:
        work()
    except BatchError as error:
        return error
    return None


@pytest.mark.parametrize("make", [sample.fake, sample.real], ids=["fake", "engine"])
@pytest.mark.parametrize("atomicity", [p4r.WriteRequest.CONTINUE_ON_ERROR, p4r.WriteRequest.ROLLBACK_ON_ERROR])
def test_mutated_entities_are_handled_or_refused(make, atomicity: int) -> None:  # type: ignore[no-untyped-def]
    seed = SEED
    print(f"seed {seed}")
    chance = random.Random(seed)
    under = make()
    state = ForwardingState(p4info.build(sample.p4info()), under.control_plane)
    done = refused = 0
    for _ in range(ROUNDS):
        try:
            batch = [
                p4r.Update.FromString(mutilate(chance.choice(VALID).SerializeToString(), chance))
                for _ in range(chance.randint(1, 4))
            ]
        except DecodeError:
            continue
        failed = failure(lambda batch=batch: state.write(batch, atomicity))
        done, refused = done + (failed is None), refused + (failed is not None)
        assert failed is None or (len(failed.results) == len(batch) and failed.details() is not None)
        wanted = [item.entity for item in batch]
        failed = failure(lambda wanted=wanted: list(state.read(wanted)))
        assert failed is None or len(failed.results) == len(wanted)
    assert done
    assert refused
    # What is there can be listed, and written into an empty switch.
    updates = state.entities(counts=True)
    again = ForwardingState(state.schema, make().control_plane)
    again.replay(updates)
    assert sorted(map(str, again.entities(counts=True))) == sorted(map(str, updates))
    under.close()


def test_mutated_p4infos_are_handled_or_refused() -> None:
    seed = SEED
    print(f"seed {seed}")
    chance = random.Random(seed)
    data = sample.p4info().SerializeToString()
    for _ in range(ROUNDS):
        try:
            message = p4i.P4Info.FromString(mutilate(data, chance))
        except DecodeError:
            continue
        try:
            schema = p4info.build(message)
        except RpcError:
            continue
        under = sample.fake()
        state = ForwardingState(schema, under.control_plane)
        failed = failure(lambda state=state: state.write(VALID))
        assert failed is None or len(failed.results) == len(VALID)
