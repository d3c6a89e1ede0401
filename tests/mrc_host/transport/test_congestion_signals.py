"""What congestion control learns from SACKs: every mark with its round trip, once.

The round trip of a mark that the choice of paths answers is kept from it (`test_path_weights`).
"""

from typing import Any

from mrc_host.transport.congestion import CongestionControl
from mrc_host.wire import control
from tests.mrc_host.nic_world import US
from tests.mrc_host.transport.far_end import FIRST_OUT, WIDE, FarEnd, bits


class Recorder(CongestionControl):
    """Remembers (acked, received, rtt, marked, penalty) of every SACK."""

    __slots__ = ("signals",)

    def __init__(self) -> None:
        super().__init__(1 << 30)
        self.signals: list[tuple[int, int, int, bool, int]] = []

    def on_ack(
        self, acked: int, received: int, rtt: int, marked: bool, now: int, penalty: int = 0, restore: bool = False
    ) -> None:
        self.signals.append((acked, received, rtt, marked, penalty))


def listening(packets: int) -> tuple[FarEnd, Recorder, list[Any]]:
    """A NIC that has sent `packets`, 1 us apart, and the congestion controller that sees them."""
    end = FarEnd(attributes=WIDE, size=1 << 20)
    end.qp.requester.window.cc = recorder = Recorder()
    end.write(packets * 4096)
    sent: list[Any] = []
    while len(sent) < packets:
        sent += end.drain(1)
        end.pass_time(US)
    return end, recorder, sorted(sent, key=lambda p: p.psn)


def test_both_kinds_of_ecn_mark_count() -> None:
    end, recorder, sent = listening(4)
    for number, mark in enumerate((control.MARK_NONE, control.MARK_SKIP_ONCE, control.MARK_ALWAYS_SKIP)):
        end.sack(number, of=sent[number], mark=mark)
    assert [marked for _, _, _, marked, _ in recorder.signals] == [False, True, True]


def test_each_sack_of_a_batch_gives_an_rtt_even_when_the_first_acknowledged_all() -> None:
    end, recorder, sent = listening(8)
    end.pass_time(20 * US)
    for packet in sent:
        end.sack(7, of=packet, mark=control.MARK_SKIP_ONCE, units=8 * 17)
    assert [rtt for _, _, rtt, _, _ in recorder.signals] == [end.now - packet.time for packet in sent]
    assert all(marked for _, _, _, marked, _ in recorder.signals)
    assert [received > 0 for _, received, _, _, _ in recorder.signals] == [True] + 7 * [False]


def test_a_transmission_gives_one_rtt_sample() -> None:
    """A frame that the network duplicates is answered twice; the second answer says nothing of the round trip."""
    end, recorder, sent = listening(2)
    end.sack(0, of=sent[0])
    end.pass_time(500 * US)
    end.sack(0, of=sent[0], units=40)
    assert [rtt > 0 for _, _, rtt, _, _ in recorder.signals] == [True, False]


def test_an_overtaken_sack_gives_rtt_and_mark_but_no_bytes_or_penalty() -> None:
    end, recorder, sent = listening(4)
    end.sack(1, of=sent[1], units=200)
    end.sack(0, of=sent[0], units=100, mark=control.MARK_SKIP_ONCE, penalty=64)
    (_, _, _, _, _), (acked, received, rtt, marked, penalty) = recorder.signals
    assert (acked, received, marked, penalty) == (0, 0, True, 0)
    assert rtt == end.now - sent[0].time


def test_a_packet_wrongly_marked_lost_still_gives_an_rtt() -> None:
    end, recorder, sent = listening(24)
    end.pass_time(20 * US)
    late = next(p for p in sent if sum(q.port == p.port and q.psn > p.psn for q in sent) > 8)
    others = [p.psn - FIRST_OUT for p in sent if p is not late]
    end.sack(late.psn - FIRST_OUT - 1, bits(others, late.psn - FIRST_OUT), base=1, of=sent[-1])
    assert end.nic.qp_counters(end.qpn).lost == 1
    end.pass_time(5 * US)
    end.sack(23, of=late)
    assert recorder.signals[-1][2:4] == (end.now - late.time, False)


def test_a_sack_of_another_transmission_gives_no_rtt() -> None:
    end, recorder, sent = listening(2)
    end.nack(sent[0], control.NACK_TRIMMED)
    end.pass_time(10 * US)
    (again,) = end.data()
    end.pass_time(10 * US)
    end.sack(0, of=sent[0])
    assert recorder.signals[-1][2] == 0
    end.sack(1, of=again)
    assert recorder.signals[-1][2] == 10 * US
