"""Messages between agent and client."""

from __future__ import annotations

import contextlib
import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.agent import protocol
from mrc_host.agent.protocol import HEADER, MAX_MESSAGE, MessageKind
from mrc_host.values import Completion, CompletionOpcode, CompletionStatus, WorkRequest, WrOpcode
from mrc_host.verbs.errors import ProtocolError

u32 = st.integers(0, (1 << 32) - 1)
u64 = st.integers(0, (1 << 64) - 1)


def _request(numbers: tuple[int, ...], imm: int | None, signaled: bool) -> WorkRequest:
    wr_id, local, remote, lkey, rkey, length = numbers
    opcode = WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM
    return WorkRequest(wr_id, opcode, local, lkey, length, remote, rkey, imm, signaled)


requests = st.builds(_request, st.tuples(u64, u64, u64, u32, u32, u32), st.none() | u32, st.booleans())
completions = st.builds(
    Completion, u64, u32, st.sampled_from(CompletionOpcode), st.just(CompletionStatus.SUCCESS), u32, st.none() | u32
)


@given(u32, st.lists(requests, max_size=5))
def test_posts_come_back_equal(qpn: int, posts: list[WorkRequest]) -> None:
    message = protocol.pack_posts(qpn, posts)
    assert protocol.unpack_header(message)[0] == MessageKind.POST
    assert protocol.unpack_posts(memoryview(message)[HEADER.size :]) == [(qpn, post) for post in posts]


@given(u32, st.lists(completions, max_size=5))
def test_completions_come_back_equal(cq: int, entries: list[Completion]) -> None:
    message = protocol.pack_completions(cq, entries)
    assert list(protocol.unpack_completions(memoryview(message)[HEADER.size :])) == [(cq, e) for e in entries]


def test_the_largest_messages_fit() -> None:
    post = _request((1,) * 6, 5, True)
    assert len(protocol.pack_posts(1, [post] * protocol.MAX_POSTS)) <= MAX_MESSAGE
    done = Completion(1, 1, CompletionOpcode.WRITE, CompletionStatus.SUCCESS, 1)
    assert len(protocol.pack_completions(1, [done] * protocol.MAX_COMPLETIONS)) <= MAX_MESSAGE


def test_long_json_is_cut_into_messages() -> None:
    data = {"text": "x" * (3 * MAX_MESSAGE)}
    parts = protocol.pack_json(MessageKind.REPLY, 9, data)
    assert len(parts) == 4
    assert all(len(part) <= MAX_MESSAGE for part in parts)
    assert [protocol.unpack_header(part) for part in parts] == [(MessageKind.REPLY, 1, 9)] * 3 + [
        (MessageKind.REPLY, 0, 9)
    ]
    assert protocol.unpack_json(b"".join(part[HEADER.size :] for part in parts)) == data


@pytest.mark.parametrize("unpack", [protocol.unpack_posts, protocol.unpack_completions, protocol.unpack_credits])
def test_garbage_is_refused_and_never_crashes(unpack: object) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    rng = random.Random(seed)
    with pytest.raises(ProtocolError):
        unpack(memoryview(b"x"))  # type: ignore[operator]
    for _ in range(500):
        with contextlib.suppress(ProtocolError):
            unpack(memoryview(rng.randbytes(rng.choice([0, 7, 8, 28, 48, 96]))))  # type: ignore[operator]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"\xff", b"[" * 50000])
def test_json_bodies_are_objects(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.unpack_json(body)


def test_a_header_must_be_whole() -> None:
    with pytest.raises(ProtocolError):
        protocol.unpack_header(b"1234567")
