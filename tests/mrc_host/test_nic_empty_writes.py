"""Writes of zero bytes: they carry nothing, need no memory, and complete in order with all others."""

import random

import pytest

from mrc_host.errors import InvalidArgumentError
from mrc_host.verbs_types import CompletionOpcode, CompletionStatus, QpState, QpType
from mrc_host.wire import opcodes
from tests.mrc_host.nic_world import MS, Faults, World, connect
from tests.mrc_host.transport.far_end import FarEnd
from tests.seeds import SEED

KINDS = [QpType.MRC, QpType.RC]


@pytest.mark.parametrize("kind", KINDS)
def test_a_zero_length_write_completes_and_delivers_its_immediate(kind: QpType) -> None:
    world = World()
    a, b = connect(world, size=100, kind=kind)
    before = bytes(b.buffer)
    a.write(b, 0)
    a.write(b, 0, imm=77)
    assert world.run(100 * MS, until=a.idle)
    assert [(entry.wr_id, entry.status, entry.byte_len) for entry in a.done] == [
        (1, CompletionStatus.SUCCESS, 0),
        (2, CompletionStatus.SUCCESS, 0),
    ]
    (arrived,) = b.poll()
    assert (arrived.opcode, arrived.imm, arrived.byte_len) == (CompletionOpcode.RECV_WRITE_WITH_IMM, 77, 0)
    assert b.buffer == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("remote_address", [0, (1 << 64) - 1])
def test_keys_and_addresses_of_a_zero_length_write_are_ignored(kind: QpType, remote_address: int) -> None:
    """As in verbs, where such a request may have no scatter/gather entry at all."""
    world = World()
    a, b = connect(world, size=100, kind=kind)
    a.nic.deregister_memory(a.region.lkey)
    b.nic.deregister_memory(b.region.lkey)
    a.write(b, 0, imm=5, rkey=0, remote_address=remote_address)
    assert world.run(100 * MS, until=a.idle)
    assert a.done[0].status is CompletionStatus.SUCCESS
    assert [entry.imm for entry in b.poll()] == [5]


@pytest.mark.parametrize("kind", KINDS)
def test_zero_length_writes_arrive_once_and_in_order_despite_losses(kind: QpType) -> None:
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    world = World(faults=Faults(seed=seed, loss=0.05, trim=0.05, duplicate=0.05, delay=0.2, extra=50_000))
    a, b = connect(world, size=1 << 16, kind=kind)
    imms = []
    for number in range(200):
        length = rng.choice([0, 0, 1, 4096, 9000])
        imm = number if rng.random() < 0.5 else None
        if imm is not None:
            imms.append((imm, length))
        a.write(b, length, imm=imm)
    assert world.run(60_000 * MS, until=a.idle)
    assert [entry.wr_id for entry in a.done] == list(range(1, 201))
    assert {entry.status for entry in a.done} == {CompletionStatus.SUCCESS}
    assert [(entry.imm, entry.byte_len) for entry in b.poll()] == imms
    assert b.buffer[:9000] == a.buffer[:9000]


def test_negative_lengths_are_refused() -> None:
    a, b = connect(World(), size=100)
    with pytest.raises(InvalidArgumentError, match="0 to 4294967295 bytes, not -1"):
        a.write(b, -1)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (opcodes.ONLY, 1),
        (opcodes.ONLY_IMM, 4096),
        (0, 4096),
        (opcodes.MIDDLE, 4096),
        (opcodes.LAST, 100),
    ],
)
def test_payload_of_a_zero_length_message_is_not_placed(kind: int, size: int) -> None:
    """A message of zero bytes is one packet without payload; anything else that says so is an error of the peer's."""
    end = FarEnd()
    end.segment(0, kind, length=0, size=size, imm=3 if kind == opcodes.ONLY_IMM else None)
    assert end.nic.qp_state(end.qpn) is QpState.ERROR
    assert not any(end.buffer)
    assert end.poll() == []


@pytest.mark.parametrize("length", [0, 100])
@pytest.mark.parametrize("kind", [0, opcodes.MIDDLE, opcodes.LAST, opcodes.ONLY])
def test_an_empty_packet_of_a_longer_message_is_dropped(kind: int, length: int) -> None:
    end = FarEnd()
    end.segment(0, kind, length=length, size=0)
    whole = kind == opcodes.ONLY and not length
    assert end.nic.nic_counters()["drop_malformed"] == (0 if whole else 1)
    assert end.nic.qp_state(end.qpn) is QpState.RTS
