"""When a completion queue that was armed owes a notification."""

import pytest

from mrc_host.notify import Notification
from mrc_host.verbs_types import Completion, CompletionOpcode, CompletionStatus

PLAIN = Completion(1, 2, CompletionOpcode.RECV_WRITE_WITH_IMM, CompletionStatus.SUCCESS, 3, 4)
SOLICITED = Completion(1, 2, CompletionOpcode.RECV_WRITE_WITH_IMM, CompletionStatus.SUCCESS, 3, 4, solicited=True)
FAILED = Completion(1, 2, CompletionOpcode.WRITE, CompletionStatus.FLUSHED, 3)


def test_an_unarmed_queue_gives_no_notification() -> None:
    assert not any(Notification().due(entry) for entry in (PLAIN, SOLICITED, FAILED))


@pytest.mark.parametrize("entry", [PLAIN, SOLICITED, FAILED])
def test_a_queue_armed_for_any_notifies_once(entry: Completion) -> None:
    one = Notification()
    one.arm(False)
    assert [one.due(entry), one.due(entry)] == [True, False]


@pytest.mark.parametrize("entry", [SOLICITED, FAILED])
def test_a_queue_armed_for_solicited_ignores_other_completions(entry: Completion) -> None:
    one = Notification()
    one.arm(True)
    assert [one.due(PLAIN), one.due(PLAIN), one.due(entry), one.due(entry)] == [False, False, True, False]


def test_the_wider_request_applies_until_fulfilled() -> None:
    one = Notification()
    one.arm(False)
    one.arm(True)
    assert one.due(PLAIN)
    one.arm(True)
    assert not one.due(PLAIN)
    one.arm(False)
    assert one.due(PLAIN)
