"""The library against agents that are gone, stuck, or send nonsense: errors, and neither a crash nor a hang."""

from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
import threading
from pathlib import Path

import pytest

from mrc_host.verbs.remote import protocol
from mrc_host.verbs.remote.protocol import MessageKind
from tests.mrc_host.libibverbs.build_program import build_program, needs_libraries
from tests.mrc_host.libibverbs.fake_agent import agent, run
from tests.seeds import SEED

pytestmark = needs_libraries


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory)


def message(kind: int, body: bytes = b"", flags: int = 0, request: int = 0) -> bytes:
    return protocol.HEADER.pack(kind, flags, 0, request) + body


def failure(**fields: object) -> bytes:
    return message(MessageKind.COMPLETION, json.dumps(fields, separators=(",", ":")).encode())


@pytest.mark.second_ring
def test_every_call_fails_once_the_agent_is_gone(program: Path, tmp_path: Path) -> None:
    with agent(tmp_path, lambda sock: False) as fake:
        output = run(program, "lost", fake)
    assert f"the agent at {fake.path} is gone" in output


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([b"\x06"], "without a header"),
        ([message(99)], "unknown kind"),
        ([message(MessageKind.POST, bytes(48))], "unknown kind"),
        ([message(MessageKind.COMPLETIONS, bytes(27))], "malformed completions"),
        ([message(MessageKind.REPLY, bytes(protocol.MAX_MESSAGE))], "too long"),
        (
            [
                message(MessageKind.COMPLETIONS, b"\xff" * 28 * 2000),  # of queues that do not exist
                message(MessageKind.COMPLETIONS, struct.pack("=IQIBBxxII", 7, 1, 7, 0, 0, 0, 0) * 2000),  # too many
                *[message(MessageKind.COMPLETIONS, struct.pack("=IQIBBxxII", 7, 1, 9, 1, 7, 0, 0) * 2000)] * 20,
                message(MessageKind.COMPLETION, b'{"cq":7,"completion":{"status":"' + b"x" * 60000),
                failure(cq=7, completion={"qpn": 7, "status": 5, "opcode": [], "signaled": True}),
                failure(cq=2**70, completion=None),
                message(MessageKind.EVENT, b'{"type":"port","event":{"port":31,"up":true,"local":true'),
                message(MessageKind.EVENT, b'{"type":"port","event":{"port":4000000000,"local":true'),
                message(MessageKind.EVENT, b'{"type":"qp","event":{"qpn":123'),
                message(MessageKind.REPLY, b"\xff\x00\xfe" * 20000, request=3),
                message(MessageKind.ERROR, b'{"message":"\\u0000'),
            ],
            "is gone",
        ),
    ],
)
def test_malformed_messages_from_the_agent_close_the_connection_or_are_ignored(
    program: Path, tmp_path: Path, messages: list[bytes], why: str
) -> None:
    def nonsense(sock: socket.socket) -> bool:
        for one in messages:
            sock.send(one)
        return False

    if why == "too long":  # no message of the socket is so long: its header alone shows it
        messages = [message(MessageKind.REPLY, bytes(protocol.MAX_MESSAGE - protocol.HEADER.size + 1))]
    with agent(tmp_path, nonsense) as fake:
        assert why in run(program, "lost", fake)


def test_random_messages_from_the_agent_do_not_crash_programs(program: Path, tmp_path: Path) -> None:
    seed = SEED
    print("seed", seed)
    chance = random.Random(seed)
    words = [
        b'"cq":7',
        b'"qpn":7',
        b'"wr_id":',
        b'"status":"',
        b'"type":"qp"',
        b'"port":1',
        b"{",
        b'"',
        b"\\",
        b"9" * 30,
        b"\0",
    ]

    def nonsense(sock: socket.socket) -> bool:
        for _ in range(300):
            kind = chance.choice([*MessageKind, MessageKind.COMPLETION, MessageKind.EVENT, MessageKind.COMPLETIONS])
            body = b"".join(chance.choices(words, k=chance.randrange(40)))
            if kind == MessageKind.COMPLETIONS:
                body = chance.randbytes(28 * chance.randrange(4))
            if kind not in (MessageKind.HELLO, MessageKind.REPLY, MessageKind.ERROR):
                try:
                    sock.send(message(kind, body, chance.choice([0, 0, 1]), chance.randrange(10)))
                except OSError:  # it has had enough
                    return False
        return False

    with agent(tmp_path, nonsense) as fake:
        for _ in range(5):
            run(program, "lost", fake)


def test_bad_wr_is_the_first_post_that_the_agent_refuses(program: Path, tmp_path: Path) -> None:
    reads_again = threading.Event()
    with agent(tmp_path, lambda sock: reads_again.wait(60)) as fake:
        words = [program, "stuck", fake.path, fake.path]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            try:
                assert running.stdout.readline() == "stuck\n"
                reads_again.set()
                _, output = running.communicate()
            finally:
                reads_again.set()
                running.kill()
        assert running.returncode == 0, output
    assert fake.posts == 4000 * 16
