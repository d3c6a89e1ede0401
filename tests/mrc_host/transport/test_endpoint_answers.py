"""Which plane the answer to an endpoint request takes."""

from mrc_host.config import ProtocolSettings
from mrc_host.transport.endpoint_answers import EndpointAnswers
from mrc_host.wire import control
from mrc_host.wire.control import EndpointRequest

REQUEST = EndpointRequest(control.OP_EV_PROBE, 0, 7)
PORT = 5


def planes(answers: EndpointAnswers, count: int) -> list[int]:
    """Of the answers to so many requests."""
    taken = []
    for number in range(count):
        assert answers.add(number, REQUEST, PORT, number)
        taken.append(answers.plane())
        answers.take(number)
    return taken


def test_answers_take_the_plane_of_the_request_by_longer_and_longer_turns() -> None:
    taken = planes(EndpointAnswers(ProtocolSettings()), 3 + 3 + 6 + 12 + 1)
    assert taken == [-1] * 3 + [PORT] * 3 + [-1] * 6 + [PORT] * 12 + [-1], "a path is restored after three answers"


def test_news_that_our_packets_arrive_ends_that() -> None:
    answers = EndpointAnswers(ProtocolSettings())
    planes(answers, 4)
    answers.confirmed()
    assert planes(answers, 4) == [-1] * 3 + [PORT]


def test_the_plane_is_that_of_the_first_answer_waiting() -> None:
    answers = EndpointAnswers(ProtocolSettings())
    planes(answers, 3)
    answers.add(1, REQUEST, 1, 0)
    answers.add(2, REQUEST, 0, 0)
    assert answers.plane() == 1
    assert answers.take(0)[8:12] == control.pack_endpoint_response(1, _answered(), 0)[8:12]
    assert answers.plane() == 0
    answers.take(0)
    assert answers.plane() == -1


def _answered() -> control.EndpointResponse:
    return control.EndpointResponse(REQUEST.op, REQUEST.timestamp)


def test_answers_waiting_are_bounded() -> None:
    answers = EndpointAnswers(ProtocolSettings())
    assert [answers.add(number, REQUEST, PORT, 0) for number in range(257)] == [True] * 256 + [False]


def test_turns_begin_again_after_the_longest() -> None:
    answers = EndpointAnswers(ProtocolSettings())
    taken = planes(answers, 64 * 3)
    assert planes(answers, 64 * 3) == taken
