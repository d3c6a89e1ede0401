"""On which port the next acknowledgement leaves; see also test_probe_answers."""

from types import SimpleNamespace
from typing import Any

from mrc_host.transport.answer_port import AnswerPort


def peer(answerable: int, own: int) -> Any:
    return SimpleNamespace(planes=SimpleNamespace(answerable=answerable, own=lambda: own))


def acks(pending: bool) -> Any:
    return SimpleNamespace(pending=lambda: pending, sweeping=lambda: False, repeat_ack=lambda: True)


def test_a_port_that_was_chosen_is_given_up_when_it_is_not_suited_any_more() -> None:
    answer = AnswerPort()
    assert not answer.settled(peer(0b11, 0b11)), "none is chosen yet"
    answer.choose(0b10)
    assert answer.settled(peer(0b11, 0b11))
    assert not answer.settled(peer(0b01, 0b11)), "the peer reported its port as down"


def test_a_port_where_a_probe_arrived_is_suited_while_our_own_is_up() -> None:
    answer = AnswerPort()
    answer.probed(1, 7)
    assert answer.settled(peer(0b01, 0b11)), "whatever the peer reported before"
    assert not answer.settled(peer(0b01, 0b01))


def test_what_else_is_due_goes_where_the_probe_arrived_and_nothing_later() -> None:
    answer = AnswerPort()
    answer.probed(1, 7)
    answer.left(1, acks(pending=True))
    assert answer.mask == 0b10
    answer.left(1, acks(pending=False))
    assert answer.mask == 0
    answer.choose(0b10)
    assert not answer.settled(peer(0b01, 0b11)), "that a probe arrived there is old news"


def test_a_probe_on_a_plane_where_nothing_may_be_sent_is_answered_as_data_is() -> None:
    answer = AnswerPort(among=0b01)
    answer.probed(1, 7)
    assert not answer.settled(peer(0b11, 0b11)), "a port is yet to be chosen"
    answer.choose(0b01)
    answer.left(0, acks(pending=False))
    assert answer.mask == 0
