"""A program that speaks for the NIC under test: what it is asked, and what happens when it does not do its part."""

from __future__ import annotations

import shlex
import sys

import pytest

from mrc_host.errors import MrcError
from mrc_host.verbs_types import QpAddress
from mrc_lab.conformance.external import ExternalNic
from mrc_lab.conformance.nic_under_test import Connected, Finished
from mrc_lab.errors import ExperimentError

PEER = QpAddress(bytes(15) + b"\2", 17, 4711)
ECHO = """
import json, sys
seen = []
for line in sys.stdin:
    seen.append(json.loads(line))
    answers = {
        "connect": {"qpn": 5, "psn": 6, "address": 7, "rkey": 8},
        "finished": {"completions": [{"received": True, "wr_id": 3, "status": "success", "imm": 9}]},
        "memory": {"hex": "55" * seen[-1].get("size", 0)},
        "write": {"error": "no room: " + str(seen[0]["peer"]["address"])},
    }
    print(json.dumps(answers.get(seen[-1]["do"], {})), flush=True)
"""


def program(code: str) -> str:
    return shlex.join((sys.executable, "-c", code))


def test_requests_and_answers_are_lines_of_json() -> None:
    with ExternalNic(program(ECHO)) as nic:
        assert nic.connect(PEER, {"path_mtu": 1024}) == Connected(5, 6, 7, 8)
        assert nic.finished() == [Finished(True, 3, "success", 9)]
        assert nic.memory(4, 3) == b"\x55" * 3
        nic.disconnect()


def test_an_error_is_one_of_the_nic() -> None:
    with ExternalNic(program(ECHO)) as nic:
        nic.connect(PEER, {})
        with pytest.raises(MrcError, match="no room: ::2"):
            nic.write(1, 1000, 0, 0, None)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("print('hello')", "its answer to 'connect' is not JSON"),
        ("print('[]')", "its answer to 'connect' is no object"),
        ("print('{}')", "it gives no number as qpn"),
        ("print('{\"qpn\": true}')", "it gives no number as qpn"),
        ("print('{\"qpn\": -1}')", "it gives no number as qpn"),
        ("print('x' * 5_000_000)", "its answer to 'connect' is longer than"),
        ("sys.exit()", "it has ended"),
        ("import time; time.sleep(60)", "no answer to 'connect' within 0.3 s"),
    ],
)
def test_a_program_that_answers_wrongly_is_named_with_the_reason(answer: str, message: str) -> None:
    code = f"import sys; sys.stdin.readline(); {answer}; sys.stdout.flush(); sys.stdin.read()"
    with (
        ExternalNic(program(code), answer_s=0.3 if "sleep" in answer else 30) as nic,
        pytest.raises(ExperimentError, match="does not do its part: " + message),
    ):
        nic.connect(PEER, {})


@pytest.mark.parametrize(
    ("completion", "message"),
    [
        ('"imm": "x", "wr_id": 1', "it gives no number as imm"),
        ('"wr_id": null', "it gives no number as wr_id"),
    ],
)
def test_completions_must_have_numbers(completion: str, message: str) -> None:
    answer = f'{{"completions": [{{{completion}, "status": "success"}}]}}'
    code = f"import sys; sys.stdin.readline(); print({answer!r}, flush=True); sys.stdin.read()"
    with ExternalNic(program(code)) as nic, pytest.raises(ExperimentError, match=message):
        nic.finished()


def test_a_completion_without_immediate_may_have_null() -> None:
    answer = '{"completions": [{"wr_id": 1, "status": "success", "imm": null}]}'
    code = f"import sys; sys.stdin.readline(); print({answer!r}, flush=True); sys.stdin.read()"
    with ExternalNic(program(code)) as nic:
        assert nic.finished() == [Finished(False, 1, "success", 0)]


def test_a_command_that_cannot_be_run_is_refused() -> None:
    for command in ("/nonexistent/program", "", "'unbalanced"):
        with pytest.raises(ExperimentError, match="cannot be run"), ExternalNic(command):
            pass


def test_the_program_ends_with_the_examination() -> None:
    with ExternalNic(program(ECHO)) as nic:
        process = nic._process  # nothing else names it
    assert process.poll() is not None
