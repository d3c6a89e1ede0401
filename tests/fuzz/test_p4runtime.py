"""The fuzzer of the P4Runtime server knows a server at fault from one that refuses."""

from __future__ import annotations

import random
from collections.abc import Iterator

import grpc
import pytest

from tests.fuzz import fuzz_p4runtime
from tests.fuzz.fuzz_p4runtime import Fuzzer
from tests.seeds import SEED


class Answer(grpc.RpcError):
    """A status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self.code, self.details = lambda: code, lambda: details


@pytest.mark.parametrize(
    ("code", "details", "fault"),
    [
        ("INTERNAL", "internal error", True),
        ("UNKNOWN", "Unexpected <class 'KeyError'>", True),
        ("UNKNOWN", "1 of 2 updates failed; the first, number 0: NOT_FOUND: x", False),
        ("UNAVAILABLE", "Socket closed", True),
        ("DEADLINE_EXCEEDED", "", True),
        ("RESOURCE_EXHAUSTED", "received metadata size exceeds hard limit", True),
        ("RESOURCE_EXHAUSTED", "the write has 20000 updates; the most is 16384", False),
        ("INVALID_ARGUMENT", "bad", False),
    ],
)
def test_which_status_codes_count_as_server_faults(code: str, details: str, fault: bool) -> None:
    def answer() -> None:
        with fuzz_p4runtime.answering():
            raise Answer(grpc.StatusCode[code], details)

    if fault:
        with pytest.raises(AssertionError, match=code):
            answer()
    else:
        answer()


@pytest.fixture
def fuzzer() -> Iterator[Fuzzer]:
    made = Fuzzer()
    yield made
    made.close()


def test_the_server_keeps_serving_after_every_attack(fuzzer: Fuzzer) -> None:
    seed = SEED
    print(f"seed {seed}")
    chance = random.Random(seed)
    for attack in (fuzzer.write, fuzzer.read, fuzzer.garbage, fuzzer.config, fuzzer.stream):
        for _ in range(3):
            attack(chance)
            fuzzer.check_health()


def test_a_server_exit_counts_as_a_crash(fuzzer: Fuzzer) -> None:
    fuzzer.process.terminate()
    fuzzer.process.wait(10)
    with pytest.raises((AssertionError, grpc.RpcError)):
        fuzzer.case(random.Random(1))
