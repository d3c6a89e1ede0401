from collections.abc import Iterator

import pytest

from simulation.channel import OVERHEAD, Channel
from simulation.clock import Clock
from topologies.fabric import LinkEnd
from topologies.faults.effect import PortShaping

GIGA = 1_000_000_000


class Sender:
    """Hands out frames as fast as the line takes them."""

    def __init__(self, clock: Clock, frames: Iterator[bytes]) -> None:
        self.clock = clock
        self.frames = frames

    def receive(self, port, frame):
        raise AssertionError

    def pull(self, line, _):
        frame = next(self.frames, None)
        if frame is None:
            line.idle = True
        else:
            line.send(frame, self.clock.now)


class Sink:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.got: list[tuple[int, bytes]] = []

    def receive(self, port, frame):
        self.got.append((self.clock.now, frame))

    def pull(self, line, _):
        raise AssertionError


def make(frames, *, rate=100 * GIGA, delay=1000, seed=1, name="a:b>"):
    clock = Clock()
    line = Channel(clock, name, LinkEnd("a", 1), LinkEnd("b", 2), rate, delay, seed)
    sink = Sink(clock)
    sender = Sender(clock, iter(frames))
    line.join(sender, sink, 0, None)
    return clock, line, sender, sink


@pytest.mark.parametrize("rate", [7 * GIGA, 100 * GIGA, 400 * GIGA, 10**12 - 1, 123_456_789])
def test_rate_is_exact_over_any_number_of_frames(rate):
    frames = [bytes(60 + i % 1000) for i in range(3000)]
    clock, line, sender, sink = make(frames, rate=rate, delay=0)
    sender.pull(line, None)
    clock.run()
    bits = 8 * sum(len(frame) + OVERHEAD for frame in frames)
    assert sink.got[-1][0] == bits * GIGA // rate
    assert [frame for _, frame in sink.got] == frames
    assert line.stats().bytes == sum(map(len, frames))


def test_a_frame_arrives_whole_one_delay_after_its_last_bit():
    clock, line, sender, sink = make([bytes(1226)], delay=5000)
    sender.pull(line, None)
    clock.run()
    assert [when for when, _ in sink.got] == [100 + 5000]  # 1250 bytes at 100 Gb/s
    assert line.idle


def test_an_idle_channel_accumulates_no_credit():
    clock, line, _, sink = make([], rate=3 * GIGA, delay=0)
    line.send(bytes(100), 0)
    clock.run(10_000)
    line.send(bytes(100), 10_000)
    clock.run()
    took = 8 * (100 + OVERHEAD) * GIGA // (3 * GIGA)
    assert [when for when, _ in sink.got] == [took, 10_000 + took]


def test_reordering_holds_frames_back():
    frames = [number.to_bytes(60, "big") for number in range(500)]
    clock, line, sender, sink = make(frames)
    line.shape(PortShaping(reorder=0.1, hold=200))
    sender.pull(line, None)
    clock.run()
    numbers = [int.from_bytes(frame, "big") for _, frame in sink.got]
    assert sorted(numbers) == list(range(500))
    assert numbers != sorted(numbers)
    assert 20 < line.stats().reordered < 90


def test_frames_in_flight_are_lost_when_the_link_goes_down():
    frames = [bytes(1226)] * 30  # 100 ns each
    clock, line, sender, sink = make(frames, delay=1000)
    clock.at(1550, lambda *_: line.set_up(False))
    clock.at(1650, lambda *_: line.set_up(True))
    sender.pull(line, None)
    clock.run()
    before = [when for when, _ in sink.got if when < 1550]
    after = [when for when, _ in sink.got if when >= 1550]
    assert len(before) == 5  # those that had arrived
    assert after[0] == 2800  # begun at 1700, the first after the repair
    assert line.stats().lost == 30 - len(sink.got)


def test_rate_and_delay_faults_apply_and_revert():
    frames = [bytes(1225) + bytes([number]) for number in range(12)]
    clock, line, sender, sink = make(frames, delay=1000)
    line.shape(PortShaping(rate_bps=10 * GIGA, delay=500))
    clock.at(1500, lambda *_: line.shape(PortShaping()))
    sender.pull(line, None)
    clock.run()
    assert [frame for _, frame in sink.got] == frames  # a shorter way does not mean overtaking
    # Two began on the long way, the second of them at the low rate: it ends at 1550. What would arrive before it
    # arrives with it.
    assert [when for when, _ in sink.got] == [2500, *[3050] * 6, *range(3150, 3650, 100)]


def test_a_frame_in_transmission_at_a_low_rate_speeds_up_when_the_fault_ends():
    frames = [bytes(1225) + bytes([number]) for number in range(3)]
    clock, line, sender, sink = make(frames, delay=1000)
    line.shape(PortShaping(rate_bps=1000))  # 10 s a frame
    clock.at(5000, lambda *_: line.shape(PortShaping(rate_bps=GIGA)))  # 10 us a frame
    clock.at(7000, lambda *_: line.shape(PortShaping()))
    sender.pull(line, None)
    clock.run()
    assert [frame for _, frame in sink.got] == frames
    assert [when for when, _ in sink.got] == [8080, 8180, 8280]


def test_a_frame_in_transmission_at_a_low_rate_may_be_lost():
    clock, line, sender, sink = make([bytes(1226), bytes(1226)], delay=1000)
    line.shape(PortShaping(rate_bps=1000))
    line.set_up(False)
    clock.at(5000, lambda *_: line.shape(PortShaping()))
    clock.at(5000, lambda *_: line.set_up(True))
    sender.pull(line, None)
    clock.run()
    assert [when for when, _ in sink.got] == [5100 + 100 + 1000]
    assert line.stats().lost == 1


def test_no_frame_overtakes_when_delays_end_one_after_the_other():
    frames = [bytes(1225) + bytes([number]) for number in range(60)]
    clock, line, sender, sink = make(frames, delay=0)
    line.shape(PortShaping(delay=53_000))
    clock.at(1000, lambda *_: line.shape(PortShaping(delay=3000)))
    clock.at(2000, lambda *_: line.shape(PortShaping()))
    sender.pull(line, None)
    clock.run()
    assert [frame for _, frame in sink.got] == frames
    assert sink.got[-1][0] == 54_000


def test_a_delay_that_has_ended_holds_up_no_frame_when_none_is_on_the_way():
    clock, line, sender, sink = make([bytes(1226)], delay=1000)
    line.shape(PortShaping(delay=50_000))
    line.shape(PortShaping())
    sender.pull(line, None)
    clock.run()
    assert [when for when, _ in sink.got] == [1100]
    line.shape(PortShaping(delay=50_000))  # begins when the frame has arrived, and ends before the next
    line.shape(PortShaping())
    line.send(bytes(1226), clock.now)
    clock.run()
    assert [when for when, _ in sink.got] == [1100, 1100 + 1100]


def test_a_rate_fault_never_speeds_up_a_channel():
    clock, line, sender, sink = make([bytes(1226)], delay=0)
    line.shape(PortShaping(rate_bps=400 * GIGA))
    sender.pull(line, None)
    clock.run()
    assert sink.got[0][0] == 100
