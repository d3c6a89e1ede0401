"""Writes whose bytes come from several pieces of memory, or from the request itself."""

import random
from collections.abc import Sequence

import pytest

from mrc_host.errors import InvalidArgumentError
from mrc_host.verbs_types import Completion, CompletionStatus, QpType, Sge, WorkRequest, WrOpcode
from tests.mrc_host.nic_world import ALL_RIGHTS, MS, End, Faults, World, connect
from tests.seeds import SEED

KINDS = [QpType.MRC, QpType.RC]


def post(
    a: End, b: End, pieces: Sequence[Sge] = (), *, inline: bytes | None = None, at: int = 0, length: int | None = None
) -> None:
    total = len(inline or b"") + sum(piece.length for piece in pieces)
    request = WorkRequest(
        a.next_id, WrOpcode.WRITE, 0, 0, total if length is None else length, b.region.address + at, b.region.rkey,
        sges=tuple(pieces), inline=inline,
    )  # fmt: skip
    a.next_id += 1
    a.nic.post_send(a.qpn, request, a.world.now)


def outcome(world: World, a: End) -> list[Completion]:
    assert world.run(60_000 * MS, until=a.idle)
    return a.done


@pytest.mark.parametrize("kind", KINDS)
def test_gathered_pieces_arrive_as_one_message_despite_losses(kind: QpType) -> None:
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    world = World(faults=Faults(seed=seed, loss=0.05, duplicate=0.05, delay=0.2, extra=50_000))
    a, b = connect(world, size=1 << 17, kind=kind)
    other = bytearray(rng.randbytes(1 << 16))
    second = a.nic.register_memory(0, memoryview(other), ALL_RIGHTS, 3)
    expected = bytearray()
    for _ in range(5):
        pieces = []
        at = len(expected)
        for _ in range(rng.randrange(2, 17)):
            region, memory = rng.choice([(a.region, a.buffer), (second, other)])
            start, length = rng.randrange(1 << 15), rng.choice([0, 1, rng.randrange(5000)])
            pieces.append(Sge(region.address + start, region.lkey, length))
            expected += memory[start : start + length]
        post(a, b, pieces, at=at)
    assert {entry.status for entry in outcome(world, a)} == {CompletionStatus.SUCCESS}
    assert a.done[-1].byte_len == len(expected) - at
    assert b.buffer == expected + bytes(len(b.buffer) - len(expected))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [0, 1, 512])
def test_inline_data_needs_no_memory(kind: QpType, length: int) -> None:
    world = World()
    a, b = connect(world, size=1000, kind=kind)
    a.nic.deregister_memory(a.region.lkey)
    post(a, b, inline=b"i" * length)
    assert [(entry.status, entry.byte_len) for entry in outcome(world, a)] == [(CompletionStatus.SUCCESS, length)]
    assert b.buffer == b"i" * length + bytes(1000 - length)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("key", "offset"), [(1, 0), (0, 901), (0, -1)])
@pytest.mark.parametrize("place", [0, 1])
def test_one_invalid_piece_fails_the_request_and_sends_nothing(kind: QpType, key: int, offset: int, place: int) -> None:
    world = World()
    a, b = connect(world, size=1000, kind=kind)
    pieces = [Sge(a.region.address, a.region.lkey, 100)]
    pieces.insert(place, Sge(a.region.address + offset, a.region.lkey ^ key, 100))
    post(a, b, pieces)
    assert outcome(world, a)[0].status is CompletionStatus.LOCAL_PROTECTION_ERROR
    assert not any(b.buffer)


@pytest.mark.parametrize(
    ("lengths", "inline", "length"),
    [
        ((5,), None, 5),  # one piece is `local_address`
        ((1,) * 17, None, 17),
        ((5, 5), None, 9),
        ((5, -5), None, 0),
        ((), b"abc", 4),
        ((), bytes(513), 513),
        ((1, 2), b"abc", 3),
    ],
)
def test_inconsistent_requests_are_refused(lengths: tuple[int, ...], inline: bytes | None, length: int) -> None:
    a, b = connect(World(), size=1000)
    with pytest.raises(InvalidArgumentError, match="2 to 16 pieces, or inline up to 512"):
        post(a, b, [Sge(a.region.address, a.region.lkey, size) for size in lengths], inline=inline, length=length)
    assert a.poll() == []
