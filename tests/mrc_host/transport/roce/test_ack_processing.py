"""ACK processing of RC by itself: what each answer does to the other parts of a requester."""

import pytest

from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.transport.roce.ack_processing import RcAckProcessing
from mrc_host.transport.roce.retransmission_timer import RcRetransmissionTimer
from mrc_host.transport.stats import QpStats
from mrc_host.verbs_types import CompletionStatus
from mrc_host.wire import headers
from tests.mrc_host.transport.roce.parts import RequesterQp
from tests.mrc_host.transport.roce.test_go_back_n import FIRST, MTU, Rig

NOW = 1_000_000
TIMEOUT = 1024 << 4
ACK = headers.SYNDROME_ACK
NAK = headers.NAK_SEQUENCE


class Noting(CongestionControl):
    """Notes what is acknowledged."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.acked: list[int] = []

    def on_ack(
        self, acked: int, received: int, rtt: int, marked: bool, now: int, penalty: int = 0, restore: bool = False
    ) -> None:
        assert (received, rtt, marked) == (acked, 0, False)
        self.acked.append(acked)


class AckRig(Rig):
    """Four packets of two requests on the way, after a timeout at which nothing was received."""

    def __init__(self) -> None:
        super().__init__(2 * MTU, 2 * MTU)
        self.owner = RequesterQp()
        self.noting = Noting()
        self.stats = QpStats()
        self.timer = RcRetransmissionTimer(RetryPolicy(4, 7, 0, 6))
        self.acks = RcAckProcessing(self.owner, self.sent, self.timer, self.noting, self.stats)
        self.send(4)
        self.timer.on_timeout()
        self.timer.unanswered = True


def test_an_ack_includes_its_psn_and_a_nak_excludes_it() -> None:
    rig = AckRig()
    rig.acks.on_ack(FIRST + 1, ACK, NOW)
    assert (rig.sent.una, rig.completed(), rig.noting.acked) == (FIRST + 2, [2 * MTU], [2 * MTU])
    rig.acks.on_ack(FIRST + 3, headers.NAK_SEQUENCE, NOW)
    assert (rig.sent.una, rig.completed(), rig.noting.acked) == (FIRST + 3, [], [2 * MTU, MTU])


def test_progress_resets_retries_and_restarts_the_timer() -> None:
    rig = AckRig()
    rig.acks.on_ack(FIRST, ACK, NOW)
    assert (rig.timer.retries, rig.timer.unanswered, rig.timer.due()) == (0, False, NOW + TIMEOUT)


def test_a_response_without_progress_only_shows_the_peer_is_alive() -> None:
    rig = AckRig()
    rig.acks.on_ack(FIRST - 1, ACK, NOW)
    assert (rig.timer.retries, rig.timer.unanswered) == (1, False)
    assert (rig.stats.acks_received, rig.noting.acked) == (1, [])


@pytest.mark.parametrize(("psn", "syndrome"), [(FIRST + 4, ACK), (FIRST - 2, ACK), (FIRST + 5, NAK), (FIRST - 1, NAK)])
def test_a_response_to_packets_not_in_flight_is_ignored(psn: int, syndrome: int) -> None:
    rig = AckRig()
    rig.acks.on_ack(psn, syndrome, NOW)
    assert (rig.timer.unanswered, rig.stats.acks_received, rig.stats.lost, rig.sent.send) == (True, 0, 0, FIRST + 4)


def test_a_sequence_error_goes_back_at_once_and_rnr_after_its_time() -> None:
    rig = AckRig()
    rig.acks.on_ack(FIRST + 1, headers.NAK_SEQUENCE, NOW)
    assert (rig.sent.send, rig.stats.sequence_errors, rig.stats.lost) == (FIRST + 1, 1, 1)
    assert (rig.timer.due(), rig.timer.ready_at, rig.owner.timer_at) == (NOW + TIMEOUT, 0, 0)
    rig.send(3)
    rig.acks.on_ack(FIRST + 1, headers.SYNDROME_RNR | 12, NOW)
    ready_at = NOW + 640_000
    assert (rig.sent.send, rig.stats.rnr_received, rig.stats.lost) == (FIRST + 1, 1, 2)
    assert (rig.timer.due(), rig.timer.ready_at, rig.owner.timer_at) == (ready_at + TIMEOUT, ready_at, ready_at)


def test_a_repeated_nak_before_retransmission_is_not_a_second_loss() -> None:
    rig = AckRig()
    for now in (NOW, NOW + 100):
        rig.acks.on_ack(FIRST, headers.NAK_SEQUENCE, now)
    assert (rig.stats.sequence_errors, rig.stats.lost) == (2, 1)
    rig.timer.on_progress(0)
    assert rig.timer.due() == TIMEOUT


@pytest.mark.parametrize(
    ("syndrome", "status"),
    [
        (headers.NAK_REMOTE_ACCESS, CompletionStatus.REMOTE_ACCESS_ERROR),
        (headers.NAK_INVALID_REQUEST, CompletionStatus.REMOTE_INVALID_REQUEST_ERROR),
    ],
)
def test_other_naks_end_the_connection(syndrome: int, status: CompletionStatus) -> None:
    rig = AckRig()
    rig.acks.on_ack(FIRST + 2, syndrome, NOW)
    assert rig.completed() == [2 * MTU], "what arrived before is done"
    assert [error for error, _ in rig.owner.errors] == [status]
    assert rig.sent.send == FIRST + 4
