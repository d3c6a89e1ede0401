"""When answers are due and what they say, without a queue pair or a peer."""

from typing import Any

from mrc_host.transport.ack_generator import AckGenerator
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import Sack
from mrc_host.wire.headers import BTH_LENGTH
from tests.mrc_host.nic_world import address
from tests.mrc_host.transport.parts import QPN, Answers, ResponderQp, connection, flow

FIRST = 5000
A, RTX = headers.ACK_REQUEST, headers.RTX


class Generator:
    """One generator with all that it needs."""

    def __init__(self, attributes: dict[str, Any] | None = None, **settings: Any) -> None:
        self.owner = ResponderQp()
        self.paths = Answers()
        given = connection(attributes, **settings)
        self.received = given.nic.datapath.receive_state(QPN, address(1), FIRST, 4096, 1023, 1 << 20, 2)
        self.acks = AckGenerator(self.owner, given, self.paths, self.received)

    def arrive(self, *numbers: int, flags: int = 0, plane: int = 0, size: int = 4096, ce: bool = False) -> None:
        for number in numbers:
            psn = FIRST + number
            if self.acks.arrived(psn, psn | flags, size, plane, flow(ce=ce)):
                self.acks.due(psn, flow(ce=ce), 7, bool(flags & RTX))

    def answers(self) -> list[tuple[int, bytes]]:
        """Path and body of everything that is due."""
        self.paths.sent.clear()
        while self.acks.pending():
            self.acks.transmit(0, 1)
        return list(self.paths.sent)

    def sacks(self) -> list[Sack]:
        return [control.parse_sack(body, BTH_LENGTH) for _path, body in self.answers() if body[0] == opcodes.SACK]


def shown(sack: Sack) -> set[int]:
    base = sack.cack_psn + sack.bitmap_offset - FIRST
    return {base + bit for bit in range(64) if sack.bitmap >> bit & 1}


def test_ordinary_packets_are_not_acknowledged_before_the_threshold() -> None:
    end = Generator()
    end.arrive(*range(255))
    assert not end.sacks()
    end.arrive(255)
    assert [sack.cack_psn for sack in end.sacks()] == [FIRST + 255], "256 packets of 4096 bytes are 1 MiB"


def test_ack_requests_marks_and_retransmissions_are_acknowledged_at_once() -> None:
    for case in ({"flags": A}, {"flags": RTX}, {"ce": True}):
        end = Generator()
        end.arrive(0, **case)  # type: ignore[arg-type]
        assert len(end.sacks()) == 1, case


def test_an_early_ack_request_is_answered_again_when_the_gap_closes() -> None:
    end = Generator()
    end.arrive(1, flags=A)
    assert [shown(sack) for sack in end.sacks()] == [{1}]
    end.arrive(0)
    assert [sack.cack_psn for sack in end.sacks()] == [FIRST + 1]


def test_a_trimmed_ack_request_is_answered_with_what_is_here_and_what_it_has_overtaken() -> None:
    """Trimmed packets overtake those in the queue; and the peer, whose window each NACK shrinks, waits for these."""
    end = Generator({"trim_nack": True})
    end.arrive(0, 1, 3)
    end.acks.trimmed(FIRST + 7 | A, 7, flow(), False)
    assert [shown(sack) | {0, 1} for sack in end.sacks()] == [{0, 1, 3}]
    end.arrive(5)
    assert [shown(sack) for sack in end.sacks()] == [{3, 5}]
    end.arrive(8)
    end.arrive(2)
    assert not end.sacks(), "a newer one is here"


def test_a_trimmed_packet_that_asks_for_nothing_changes_nothing_for_others() -> None:
    end = Generator({"trim_nack": True})
    end.arrive(0)
    end.acks.trimmed(FIRST + 7, 7, flow(), False)
    end.arrive(5)
    assert not end.sacks()


def test_a_newer_sack_replaces_an_older_one_unless_that_answers_a_retransmission() -> None:
    end = Generator()
    end.arrive(0, 1, 2, flags=A)
    assert [sack.ack_offset for sack in end.sacks()] == [0]
    end.arrive(3, flags=RTX)
    end.arrive(4, flags=A)
    assert len(end.sacks()) == 2


def test_arrivals_on_widely_skewed_planes_are_all_reported() -> None:
    end = Generator()
    end.arrive(*range(1, 5), plane=0)
    end.arrive(*range(200, 204), plane=1)
    end.arrive(204, plane=1, flags=A)
    assert set().union(*map(shown, end.sacks())) >= {1, 2, 3, 4, 200, 201, 202, 203, 204}


def test_a_sack_for_a_retransmission_does_not_hide_other_arrivals() -> None:
    """Its bitmap begins after them, so another SACK shows them."""
    end = Generator()
    end.arrive(*range(1, 41))
    end.arrive(150, flags=RTX, plane=1)
    assert [shown(sack) for sack in end.sacks()] == [{150}, set(range(1, 41))]


def test_a_further_sack_answers_no_packet_however_late_it_leaves() -> None:
    end = Generator()
    end.arrive(*range(1, 41))
    end.arrive(150, flags=A, plane=1)
    end.acks.transmit(0, 1)
    end.arrive(0)
    (sack,) = end.sacks()
    assert (sack.entropy, sack.ack_offset, sack.timestamp) == (control.NO_ENTROPY, 0, 0)
    assert sack.cack_psn == FIRST + 40


def test_a_probe_response_reports_everything_received() -> None:
    end = Generator()
    end.arrive(*range(1, 200, 2))
    end.acks.probe(9, 7, flow())
    answers = end.answers()
    sacks = [control.parse_sack(body, BTH_LENGTH) for _path, body in answers]
    assert sacks[0].probe
    assert set().union(*map(shown, sacks)) == set(range(1, 200, 2))
    assert answers[0][0] == 0
    assert answers[-1][0] == 100, "what goes on after the probe's answer takes any path"


def test_each_probe_response_reports_everything_again() -> None:
    """Its peer may ask because the answer before was lost, whatever has arrived since."""
    end, arrived = Generator(), set[int]()
    for start in (1, 400, 500):
        numbers = range(start, start + 95, 3)
        end.arrive(*numbers)
        arrived.update(numbers)
        end.acks.probe(start, 9, flow())
        assert set().union(*(shown(sack) for sack in end.sacks())) == arrived


def test_a_sweep_that_few_packets_pay_for_goes_on_with_the_next_probes() -> None:
    end, covered = Generator(), set[int]()
    end.arrive(1, 251, 501, 751)
    for number in range(8):
        end.acks.probe(number, 9, flow())
        for sack in end.sacks():
            base = sack.cack_psn + sack.bitmap_offset - FIRST
            covered.update(range(base, base + 64))
    assert covered >= set(range(752))


def test_redundant_probes_make_reverse_paths_suspected() -> None:
    end = Generator()
    end.arrive(0)
    end.acks.probe(1, 7, flow())
    assert not end.paths.doubts
    end.acks.probe(2, 7, flow())
    assert end.paths.doubts == [True]


def test_a_full_receive_queue_requests_a_penalty_and_then_restores() -> None:
    end = Generator()
    end.acks.receive_queue_full()
    end.arrive(0, flags=A)
    assert [(sack.cwnd_penalty > 0, sack.restore_cwnd) for sack in end.sacks()] == [(True, False)]
    end.acks.receive_queue_has_room()
    flags = []
    for number in range(1, 8):
        end.arrive(number, flags=A)
        flags += [(sack.cwnd_penalty > 0, sack.restore_cwnd) for sack in end.sacks()]
    assert flags == [(False, True)] * 4 + [(False, False)] * 3


def test_the_offered_range_shrinks_while_the_receive_queue_is_full_and_grows_slowly() -> None:
    end = Generator({"mpr": 64, "dynamic_mpr": 64})
    offered = []
    for number in range(6):
        if number == 0:
            end.acks.receive_queue_full()
        if number == 4:
            end.acks.receive_queue_has_room()
        end.arrive(number, flags=A)
        offered += [sack.mpr for sack in end.sacks()]
    assert offered == [32, 16, 8, 8, 9, 10]


def test_the_transport_ack_counts_complete_messages() -> None:
    end = Generator()
    end.arrive(0)
    end.acks.message_completed()
    end.acks.message_completed()
    bodies = [body for _path, body in end.answers() if body[0] == opcodes.TRANSPORT_ACK]
    assert [headers.aeth.unpack_from(body)[-1] & 0xFFFFFF for body in bodies] == [2]


def test_consecutive_marks_lead_to_always_skip() -> None:
    end = Generator(always_skip_marks=2)
    end.arrive(0, ce=True)
    end.arrive(1, ce=True)
    assert [sack.mark for sack in end.sacks()] == [control.MARK_SKIP_ONCE, control.MARK_ALWAYS_SKIP]
