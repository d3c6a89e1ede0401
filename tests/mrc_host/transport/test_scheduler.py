"""Ready queues and timers."""

import random

import pytest

from mrc_host.transport.scheduler import PacketSource, Scheduler
from tests.seeds import SEED


class Talker(PacketSource):
    def __init__(self, name: bytes, control: int = 0, data: int = 0, ports: int = 0b11) -> None:
        super().__init__()
        self.name = name
        self.control = control
        self.data = data
        self.ports = ports
        self.calls: list[int] = []
        self.again: list[int] = []

    def transmit_control(self, port: int, now: int) -> bytes | None:
        if not self.control:
            return None
        self.control -= 1
        return b"c" + self.name

    def transmit_data(self, port: int, now: int) -> bytes | None:
        if not self.data or not self.ports >> port & 1:
            return None
        self.data -= 1
        return b"d" + self.name

    def data_ports(self) -> int:
        return self.ports if self.data else 0

    def on_timer(self, now: int) -> int:
        self.calls.append(now)
        return self.again.pop(0) if self.again else 0


def drain(scheduler: Scheduler, port: int = 0) -> list[bytes]:
    out = []
    while (frame := scheduler.transmit(port, 0)) is not None:
        out.append(frame)
    return out


def test_control_goes_first_and_sources_share_round_robin() -> None:
    scheduler = Scheduler(2)
    a, b = Talker(b"a", control=1, data=3), Talker(b"b", control=2, data=2)
    for one in (a, b):
        scheduler.activate_data(one, 0b11)
        scheduler.activate_control(one, 0b01)
    assert drain(scheduler) == [b"ca", b"cb", b"cb", b"da", b"db", b"da", b"db", b"da"]


class Sender(Talker):
    """Data frames of one size on every port, for ever; leaves the queue after every `leave` frames."""

    def __init__(self, size: int, leave: int = 0) -> None:
        super().__init__(b"", data=1 << 40)
        self.size, self.leave, self.sent = size, leave, [0, 0]

    def transmit_data(self, port: int, now: int) -> bytes | None:
        if self.leave and self.data % (self.leave + 1) == 0:
            self.data -= 1
            return None
        self.data -= 1
        self.sent[port] += self.size
        return bytes(self.size)


def shared_by(senders: list[Sender]) -> list[list[int]]:
    """Bytes of each sender after both ports sent 6000 frames, by port."""
    scheduler = Scheduler(2)
    for _ in range(6000):
        for port in (0, 1):
            for sender in senders:
                scheduler.activate_data(sender, 0b11)
            scheduler.transmit(port, 0)
    return [[sender.sent[port] for sender in senders] for port in (0, 1)]


def test_ports_are_shared_by_bytes_regardless_of_frame_length() -> None:
    for shares in shared_by([Sender(4242), Sender(658), Sender(1170), Sender(80)]):
        assert max(shares) - min(shares) <= 2 * 4242, shares


@pytest.mark.parametrize("size", [80, 658, 3000, 4242])
def test_sources_that_come_and_go_gain_nothing(size: int) -> None:
    for staying, other, leaving in shared_by([Sender(4242), Sender(658), Sender(size, leave=1)]):
        assert abs(staying - other) <= 2 * 4242
        assert leaving <= staying + 2 * 4242


def test_a_turn_is_bounded_by_the_longest_frame() -> None:
    scheduler = Scheduler(1)
    small, large = Sender(100), Sender(4000)
    order = []
    for sender in (small, large):
        scheduler.activate_data(sender, 1)
    for _ in range(500):
        frame = scheduler.transmit(0, 0)
        assert frame is not None
        order.append(len(frame))
    runs = "".join("s" if size == 100 else "L" for size in order).split("L")
    assert max(map(len, runs)) <= 41
    assert all(runs[1:-1]), "the long frames take turns with the short ones"


def test_a_source_is_queued_once_per_port() -> None:
    scheduler = Scheduler(1)
    a, b = Talker(b"a", data=2), Talker(b"b", data=2)
    for _ in range(5):
        scheduler.activate_data(a, 1)
        scheduler.activate_data(b, 1)
    assert drain(scheduler) == [b"da", b"db", b"da", b"db"]
    scheduler.activate_data(a, 1)
    assert drain(scheduler) == []
    a.data = 1
    scheduler.activate_data(a, 1)
    assert drain(scheduler) == [b"da"]


def test_an_idle_port_is_polled_again_when_another_makes_work_for_it() -> None:
    scheduler = Scheduler(2)
    a = Talker(b"a", data=5, ports=0b01)
    scheduler.activate_data(a, 0b11)
    assert scheduler.transmit(1, 0) is None
    assert scheduler.wakeup() is None
    a.ports = 0b11
    assert scheduler.transmit(0, 0) == b"da"
    assert scheduler.wakeup() == 0
    scheduler.input_begins()
    assert scheduler.wakeup() is None
    assert scheduler.transmit(1, 0) == b"da"


def test_timers_fire_once_and_can_be_rearmed() -> None:
    scheduler = Scheduler(1)
    a, b = Talker(b"a"), Talker(b"b")
    scheduler.arm(a, 100)
    scheduler.arm(b, 50)
    scheduler.arm(a, 200)
    assert scheduler.wakeup() == 50
    b.again = [80]
    scheduler.tick(60)
    assert (a.calls, b.calls) == ([], [60])
    assert scheduler.wakeup() == 80
    scheduler.tick(99)
    scheduler.tick(150)
    assert (a.calls, b.calls) == ([150], [60, 99])
    assert scheduler.wakeup() is None


def test_an_earlier_deadline_replaces_a_later_one() -> None:
    scheduler = Scheduler(1)
    a = Talker(b"a")
    scheduler.arm(a, 1000)
    scheduler.arm(a, 10)
    scheduler.tick(10)
    scheduler.tick(2000)
    assert a.calls == [10]


def test_a_timer_set_in_the_past_does_not_spin() -> None:
    scheduler = Scheduler(1)
    a = Talker(b"a")
    a.again = [1] * 1000
    scheduler.arm(a, 5)
    scheduler.tick(100)
    assert a.calls == [100]
    assert scheduler.wakeup() == 101


def test_replaced_timers_do_not_pile_up() -> None:
    scheduler = Scheduler(1)
    a = Talker(b"a")
    for round_ in range(20_000):
        now = round_ * 10
        scheduler.arm(a, now + 10_000_000)
        scheduler.arm(a, now + 5)
        scheduler.tick(now + 6)
    assert len(scheduler._heap) < 1000  # memory, which shows nowhere else


@pytest.mark.parametrize("seed", range(30))
def test_what_is_due_first_and_which_ports_have_sources_is_known_whatever_happens(seed: int) -> None:
    """Compared with a look at all timers and queues after each of some hundred random calls."""
    chance, ports = random.Random(seed), 3
    scheduler = Scheduler(ports)
    sources = [Talker(bytes([65 + n]), ports=chance.randrange(8)) for n in range(5)]
    now = 0
    for _ in range(400):
        one, port = chance.choice(sources), chance.randrange(ports)
        one.again = [chance.choice([0, now + chance.randrange(50)]) for _ in range(4)]
        what = chance.randrange(8)
        if what == 0:
            one.control += chance.randrange(2)
            scheduler.activate_control(one, chance.randrange(8))
        elif what == 1:
            one.data += chance.randrange(3)
            scheduler.activate_data(one, chance.randrange(8))
        elif what == 2:
            scheduler.pause(chance.randrange(8), chance.randrange(8))
        elif what == 3:
            scheduler.arm(one, now + chance.randrange(1, 100))
        elif what == 4:
            scheduler.disarm(one)
        elif what == 5:
            now += chance.randrange(30)
            scheduler.input_begins()
            scheduler.tick(now)
        else:
            scheduler.transmit(port, now)
        mask = 0
        for source in sources:
            mask |= source.control_mask | source.data_mask
        assert scheduler.waiting == mask
        if not scheduler.kick:
            assert scheduler.wakeup() == min((s.timer_at for s in sources if s.timer_at), default=None)


def test_ports_before_the_first_that_waits_count_as_asked_in_vain() -> None:
    scheduler = Scheduler(4)
    assert scheduler.first_waiting(0b0101) == 0
    scheduler.activate_data(Talker(b"a", data=1, ports=0b1000), 0b1000)
    assert not scheduler.kick, "nobody has asked that port"
    assert scheduler.first_waiting(0b1110) == 0b1000
    scheduler.activate_data(Talker(b"b", data=1), 0b0010)
    assert scheduler.kick, "it was passed over"


def test_idle_ports_are_served_again_when_something_is_queued_there() -> None:
    scheduler = Scheduler(4)
    talker = Talker(b"a", control=1, ports=0b1000)
    scheduler.activate_control(talker, 0b1000)
    assert scheduler.all_waiting(0b1101) == 0b1000
    assert scheduler.wakeup() is None
    scheduler.activate_control(talker, 0b0010)
    assert scheduler.wakeup() is None, "nobody has asked that port"
    scheduler.activate_control(talker, 0b0100)
    assert scheduler.wakeup() == 0
    scheduler.input_begins()
    assert scheduler.wakeup() is None


def test_a_driver_that_asks_for_all_idle_ports_at_once_leaves_nothing_behind() -> None:
    """What leaves makes others ready, also on ports that it has passed over, or asked until nothing was left."""
    seed = SEED
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        scheduler = Scheduler(3)
        talkers = [Talker(b"%d" % number, ports=0b111) for number in range(4)]

        def ready(scheduler: Scheduler = scheduler, talkers: list[Talker] = talkers) -> None:
            talker = rng.choice(talkers)
            talker.control += 1
            scheduler.activate_control(talker, 1 << rng.randrange(3))

        for _ in range(8):
            ready()
            scheduler.input_begins()
            while True:
                waiting = scheduler.all_waiting(0b111)
                for port in range(3):
                    while waiting >> port & 1 and scheduler.transmit(port, 0) is not None:
                        if rng.random() < 0.4:
                            ready()
                if scheduler.wakeup() is None:
                    break
                scheduler.input_begins()
            assert not scheduler.waiting, "nothing says when it leaves"
