import random
from collections.abc import Iterator
from functools import partial

import pytest

from simulation.channel import ChannelShaper
from simulation.core.native import Channel, Clock
from simulation.errors import SimulationError
from tests.models.channel import ModelChannel
from tests.models.clock import ModelClock
from tests.seeds import SEED
from topologies.fabric import LinkEnd
from topologies.faults.effect import PortShaping
from topologies.round_trip import OVERHEAD

GIGA = 1_000_000_000
SHAPER = ChannelShaper(1)


class Sender:
    """Hands out frames as fast as the line takes them."""

    def __init__(self, clock: Clock, frames: Iterator[bytes]) -> None:
        self.clock = clock
        self.frames = frames

    def pull(self, line):
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


def make(frames, *, rate=100 * GIGA, delay=1000, name="a:b>"):
    clock = Clock()
    line = Channel(clock, name, LinkEnd("a", 1), LinkEnd("b", 2), rate, delay)
    sink = Sink(clock)
    sender = Sender(clock, iter(frames))
    line.join(sender, sink)
    return clock, line, sender, sink


@pytest.mark.parametrize("rate", [7 * GIGA, 100 * GIGA, 400 * GIGA, 10**12 - 1, 123_456_789])
def test_rate_is_exact_over_any_number_of_frames(rate):
    frames = [bytes(60 + i % 1000) for i in range(3000)]
    clock, line, sender, sink = make(frames, rate=rate, delay=0)
    sender.pull(line)
    clock.run()
    bits = 8 * sum(len(frame) + OVERHEAD for frame in frames)
    assert sink.got[-1][0] == bits * GIGA // rate
    assert [frame for _, frame in sink.got] == frames
    assert line.bytes == sum(map(len, frames))


def test_a_frame_arrives_whole_one_delay_after_its_last_bit():
    clock, line, sender, sink = make([bytes(1226)], delay=5000)
    sender.pull(line)
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
    SHAPER.shape(line, PortShaping(reorder=0.1, hold=200))
    sender.pull(line)
    clock.run()
    numbers = [int.from_bytes(frame, "big") for _, frame in sink.got]
    assert sorted(numbers) == list(range(500))
    assert numbers != sorted(numbers)
    assert 20 < line.reordered < 90


def test_frames_in_flight_are_lost_when_the_link_goes_down():
    frames = [bytes(1226)] * 30  # 100 ns each
    clock, line, sender, sink = make(frames, delay=1000)
    clock.at(1550, lambda *_: line.set_up(False))
    clock.at(1650, lambda *_: line.set_up(True))
    sender.pull(line)
    clock.run()
    before = [when for when, _ in sink.got if when < 1550]
    after = [when for when, _ in sink.got if when >= 1550]
    assert len(before) == 5  # those that had arrived
    assert after[0] == 2800  # begun at 1700, the first after the repair
    assert line.lost == 30 - len(sink.got)


def test_rate_and_delay_faults_apply_and_revert():
    frames = [bytes(1225) + bytes([number]) for number in range(12)]
    clock, line, sender, sink = make(frames, delay=1000)
    SHAPER.shape(line, PortShaping(rate_bps=10 * GIGA, delay=500))
    clock.at(1500, lambda *_: SHAPER.shape(line, PortShaping()))
    sender.pull(line)
    clock.run()
    assert [frame for _, frame in sink.got] == frames  # a shorter way does not mean overtaking
    # Two began on the long way, the second of them at the low rate: it ends at 1550. What would arrive before it
    # arrives with it.
    assert [when for when, _ in sink.got] == [2500, *[3050] * 6, *range(3150, 3650, 100)]


def test_a_frame_in_transmission_at_a_low_rate_speeds_up_when_the_fault_ends():
    frames = [bytes(1225) + bytes([number]) for number in range(3)]
    clock, line, sender, sink = make(frames, delay=1000)
    SHAPER.shape(line, PortShaping(rate_bps=1000))  # 10 s a frame
    clock.at(5000, lambda *_: SHAPER.shape(line, PortShaping(rate_bps=GIGA)))  # 10 us a frame
    clock.at(7000, lambda *_: SHAPER.shape(line, PortShaping()))
    sender.pull(line)
    clock.run()
    assert [frame for _, frame in sink.got] == frames
    assert [when for when, _ in sink.got] == [8080, 8180, 8280]


def test_a_frame_in_transmission_at_a_low_rate_may_be_lost():
    clock, line, sender, sink = make([bytes(1226), bytes(1226)], delay=1000)
    SHAPER.shape(line, PortShaping(rate_bps=1000))
    line.set_up(False)
    clock.at(5000, lambda *_: SHAPER.shape(line, PortShaping()))
    clock.at(5000, lambda *_: line.set_up(True))
    sender.pull(line)
    clock.run()
    assert [when for when, _ in sink.got] == [5100 + 100 + 1000]
    assert line.lost == 1


def test_no_frame_overtakes_when_delays_end_one_after_the_other():
    frames = [bytes(1225) + bytes([number]) for number in range(60)]
    clock, line, sender, sink = make(frames, delay=0)
    SHAPER.shape(line, PortShaping(delay=53_000))
    clock.at(1000, lambda *_: SHAPER.shape(line, PortShaping(delay=3000)))
    clock.at(2000, lambda *_: SHAPER.shape(line, PortShaping()))
    sender.pull(line)
    clock.run()
    assert [frame for _, frame in sink.got] == frames
    assert sink.got[-1][0] == 54_000


def test_a_delay_that_has_ended_holds_up_no_frame_when_none_is_on_the_way():
    clock, line, sender, sink = make([bytes(1226)], delay=1000)
    SHAPER.shape(line, PortShaping(delay=50_000))
    SHAPER.shape(line, PortShaping())
    sender.pull(line)
    clock.run()
    assert [when for when, _ in sink.got] == [1100]
    SHAPER.shape(line, PortShaping(delay=50_000))  # begins when the frame has arrived, and ends before the next
    SHAPER.shape(line, PortShaping())
    line.send(bytes(1226), clock.now)
    clock.run()
    assert [when for when, _ in sink.got] == [1100, 1100 + 1100]


def test_a_rate_fault_never_speeds_up_a_channel():
    clock, line, sender, sink = make([bytes(1226)], delay=0)
    SHAPER.shape(line, PortShaping(rate_bps=400 * GIGA))
    sender.pull(line)
    clock.run()
    assert sink.got[0][0] == 100


@pytest.mark.parametrize("rate", [8_009, GIGA // 3, 100 * GIGA + 7, 1000 * GIGA])
@pytest.mark.parametrize("size", [1, 4096, (1 << 20) - 25, (1 << 20) - 24, 1 << 21])
def test_frames_of_any_size_occupy_a_channel_exactly_as_long_as_their_bits_take(rate, size):
    """Two, one behind the other: the fraction of a nanosecond is carried over."""
    clock, line, sender, sink = make([bytes(size)] * 2, rate=rate, delay=0)
    sender.pull(line)
    clock.run()
    assert sink.got[-1][0] == 2 * (size + OVERHEAD) * 8 * GIGA // rate


def test_rates_and_delays_without_end_are_refused():
    clock, line, *_ = make([])
    for rate, delay in ((0, 0), (1 << 62, 0), (1, -1), (1, 1 << 62)):
        with pytest.raises(ValueError, match=r"rate is 1 to 2\*\*62 - 1 b/s"):
            Channel(clock, "a:b", LinkEnd("a", 1), LinkEnd("b", 2), rate, delay)
    with pytest.raises(ValueError, match="1 b/s at least"):
        line.shape(0)
    line.shape(1 << 80, 1 << 80)
    assert line.rate == 100 * GIGA
    with pytest.raises(SimulationError, match="146 years"):
        line.send(bytes(100), 0)


def test_only_bytes_are_frames():
    _, line, *_ = make([])
    for wrong in ("frame", bytearray(100), None):
        with pytest.raises(TypeError, match="a frame is bytes, not"):
            line.send(wrong, 0)
    assert (line.frames, line.idle) == (0, True)


def test_a_channel_that_is_not_joined_delivers_to_nobody():
    clock = Clock()
    Channel(clock, "a:b", LinkEnd("a", 1), LinkEnd("b", 2), GIGA, 0).send(bytes(100), 0)
    with pytest.raises(AttributeError, match="pull"):
        clock.run()
    with pytest.raises(AttributeError, match="receive"):
        clock.run()


class Watcher:
    """Sees what arrives and what is lost; may throw every third frame away."""

    def __init__(self, clock: Clock, port: int) -> None:
        self.clock, self.port = clock, port
        self.seen: list[tuple[int, bytes, str]] = []

    def lost(self, frame, why):
        self.seen.append((self.clock.now, frame, why))

    def arrived(self, frame, deliver):
        self.seen.append((self.clock.now, frame, "arrived"))
        if len(self.seen) % 3:
            deliver(self.port, frame)


def test_a_watcher_sees_every_frame_and_delivers_it():
    frames = [bytes(1225) + bytes([number]) for number in range(30)]
    clock, line, sender, sink = make(frames)
    watcher = Watcher(clock, 9)
    line.watch(watcher)
    clock.at(1550, lambda *_: line.set_up(False))
    clock.at(1650, lambda *_: line.set_up(True))
    sender.pull(line)
    clock.run(3_500)
    line.watch(None)
    clock.run()
    ends = [why for _, _, why in watcher.seen]
    assert ends.count("on its way when the link went down") == 11
    assert ends.count("nothing passes: link down or power off") == 1
    assert ends.count("arrived") == 5 + 8
    assert [frame for when, frame in sink.got if when > 3_500] == frames[-5:]
    seen = [frame for at, (_, frame, why) in enumerate(watcher.seen, 1) if why == "arrived" and at % 3]
    assert [frame for when, frame in sink.got if when <= 3_500] == seen


def play(seed: int, at, send, set_up, shape):
    """Shapes come and go, and the channel goes down and up, while frames are sent in bursts."""
    chance = random.Random(seed)
    for number in range(60):
        when, draw = chance.randrange(60_000), chance.random()
        if draw < 0.5:
            at(when, send, chance.randrange(1, 6))
        elif draw < 0.65:
            at(when, set_up, number % 2 == 1)
        else:
            rate = chance.choice((None, 1_000, GIGA // 3, 3 * GIGA, 400 * GIGA))
            delay, hold = chance.choice((0, 0, 50, 20_000)), chance.choice((0, 3_000))
            at(when, shape, rate, delay, partial(random.Random(number).randrange, hold + 1))
    at(60_000, set_up, True)
    at(60_000, shape, None, 0, lambda: 0)
    at(60_000, send, 3)


def in_c(seed: int):
    clock, line, sender, sink = make([], rate=7 * GIGA)
    watcher, waiting, numbers = Watcher(clock, 2), [], iter(range(1_000))
    watcher.arrived = lambda frame, deliver: deliver(2, frame)
    line.watch(watcher)

    def send(count):
        waiting.extend(bytes(60 + next(numbers)) for _ in range(count))
        if line.idle:
            sender.frames = iter(lambda: waiting.pop(0) if waiting else None, None)
            sender.pull(line)

    def at(when, run, *arguments):
        clock.at(when, lambda *_: run(*arguments))

    play(seed, at, send, line.set_up, line.shape)
    clock.run()
    return sink.got, [(when, frame) for when, frame, _ in watcher.seen], clock.now, clock.events


def in_the_model(seed: int):
    clock = ModelClock()
    line = ModelChannel(clock, 7 * GIGA, 1000)
    waiting, got, lost, numbers = [], [], [], iter(range(1_000))
    line.got = lambda frame: got.append((clock.now, frame))
    line.lost = lambda frame: lost.append((clock.now, frame))

    def pull():
        if waiting:
            line.send(waiting.pop(0))
        else:
            line.idle = True

    def send(count):
        waiting.extend(bytes(60 + next(numbers)) for _ in range(count))
        if line.idle:
            pull()

    def at(when, run, *arguments):
        clock.at(when, lambda: run(*arguments))

    line.pull = pull
    play(seed, at, send, line.set_up, line.shape)
    clock.run()
    return got, lost, clock.now, clock.events


@pytest.mark.parametrize("number", range(40))
def test_a_channel_carries_what_the_model_does(number):
    found = in_c(SEED + number)
    assert found == in_the_model(SEED + number), f"seed {SEED + number}"
    assert found[0]
