"""Messages between agent and client."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.verbs.errors import ProtocolError
from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.protocol import HEADER, MAX_MESSAGE, MessageKind
from mrc_host.verbs_types import (
    MAX_INLINE,
    MAX_SGE,
    Completion,
    CompletionOpcode,
    CompletionStatus,
    Sge,
    WorkRequest,
    WrOpcode,
)
from tests.seeds import SEED

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
def test_posts_survive_encoding(qpn: int, posts: list[WorkRequest]) -> None:
    message = protocol.pack_posts(qpn, posts)
    assert protocol.unpack_header(message)[0] == MessageKind.POST
    assert protocol.unpack_posts(memoryview(message)[HEADER.size :]) == [(qpn, post) for post in posts]


pieces = st.lists(st.builds(Sge, u64, u32, st.integers(0, 1 << 20)), min_size=2, max_size=MAX_SGE)


@given(u32, st.lists(st.tuples(requests, st.just([]) | pieces), max_size=5))
def test_gather_lists_survive_encoding(qpn: int, drawn: list[tuple[WorkRequest, list[Sge]]]) -> None:
    posts = []
    for post, sges in drawn:
        total = sum(one.length for one in sges)
        posts.append(replace(post, local_address=0, lkey=0, length=total, sges=tuple(sges)) if sges else post)
    message = protocol.pack_posts(qpn, posts)
    assert len(message) == HEADER.size + sum(map(protocol.records, posts)) * protocol.POST_SIZE
    assert protocol.unpack_posts(memoryview(message)[HEADER.size :]) == [(qpn, post) for post in posts]


@given(u32, requests, st.binary(max_size=MAX_INLINE))
def test_inline_data_survives_encoding(qpn: int, post: WorkRequest, data: bytes) -> None:
    post = replace(post, local_address=0, lkey=0, length=len(data), inline=data)
    message = protocol.pack_posts(qpn, [post])
    assert protocol.unpack_header(message)[0] == MessageKind.POST_INLINE
    assert protocol.unpack_inline_post(memoryview(message)[HEADER.size :]) == [(qpn, post)]


def test_inconsistent_gather_lists_and_inline_data_are_malformed() -> None:
    lists = WorkRequest(1, WrOpcode.WRITE, 0, 0, 4, 0, 0, sges=(Sge(0, 1, 2),) * 2)
    body = memoryview(protocol.pack_posts(1, [lists]))[HEADER.size :]
    with pytest.raises(ProtocolError, match="lacks its last piece"):
        protocol.unpack_posts(body[: protocol.POST_SIZE])
    many = replace(lists, sges=(Sge(0, 1, 2),) * 40)
    with pytest.raises(ProtocolError, match="at most 16 pieces"):
        protocol.unpack_posts(memoryview(protocol.pack_posts(1, [many]))[HEADER.size :])
    for length, data in ((5, b"1234"), (3, b"1234"), (4, b""), (MAX_INLINE + 1, bytes(MAX_INLINE + 1))):
        inline = WorkRequest(1, WrOpcode.WRITE, 0, 0, length, 0, 0, inline=data)
        with pytest.raises(ProtocolError, match="POST_INLINE"):
            protocol.unpack_inline_post(memoryview(protocol.pack_posts(1, [inline]))[HEADER.size :])
    for rest in (b"", b"123", bytes(body)[: protocol.POST_SIZE]):
        with pytest.raises(ProtocolError):
            protocol.unpack_inline_post(memoryview(rest))


@given(u32, st.lists(completions, max_size=5))
def test_completions_survive_encoding(cq: int, entries: list[Completion]) -> None:
    message = protocol.pack_completions(cq, entries)
    assert list(protocol.unpack_completions(memoryview(message)[HEADER.size :])) == [(cq, e) for e in entries]


def test_the_largest_messages_fit_the_size_limit() -> None:
    post = _request((1,) * 6, 5, True)
    assert len(protocol.pack_posts(1, [post] * protocol.MAX_POSTS)) <= MAX_MESSAGE
    done = Completion(1, 1, CompletionOpcode.WRITE, CompletionStatus.SUCCESS, 1)
    assert len(protocol.pack_completions(1, [done] * protocol.MAX_COMPLETIONS)) <= MAX_MESSAGE


def test_long_json_is_split_into_messages() -> None:
    data = {"text": "x" * (3 * MAX_MESSAGE)}
    parts = protocol.pack_json(MessageKind.REPLY, 9, data)
    assert len(parts) == 4
    assert all(len(part) <= MAX_MESSAGE for part in parts)
    assert [protocol.unpack_header(part) for part in parts] == [(MessageKind.REPLY, 1, 9)] * 3 + [
        (MessageKind.REPLY, 0, 9)
    ]
    assert protocol.unpack_json(b"".join(part[HEADER.size :] for part in parts)) == data


@pytest.mark.parametrize("unpack", [protocol.unpack_posts, protocol.unpack_completions, protocol.unpack_credits])
def test_random_bytes_are_refused(unpack: object) -> None:
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    with pytest.raises(ProtocolError):
        unpack(memoryview(b"x"))  # type: ignore[operator]
    for _ in range(500):
        with contextlib.suppress(ProtocolError):
            unpack(memoryview(rng.randbytes(rng.choice([0, 7, 8, 28, 48, 96]))))  # type: ignore[operator]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"\xff", b"[" * 50000])
def test_json_bodies_must_be_objects(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.unpack_json(body)


def test_truncated_headers_are_refused() -> None:
    with pytest.raises(ProtocolError):
        protocol.unpack_header(b"1234567")
