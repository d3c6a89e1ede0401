"""One congestion controller for all queue pairs towards a destination: what they share, and what they give back."""

from hypothesis import example, given
from hypothesis import strategies as st

from mrc_host.config import TransportSettings
from mrc_host.nic import Nic
from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.mrc_queue_pair import MrcQueuePair
from mrc_host.transport.sent_packet import OUT
from mrc_host.transport.window import SharedWindow
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpState
from tests.mrc_host.nic_world import MS, US, End, Faults, World, connect, make_config, peers

NSCC = TransportSettings(base_rtt=30 * US, assumed_rate=4_000_000_000)
CHUNK = 4096
NOMINAL = 17 * 256  # what a packet of CHUNK bytes counts in a window


def windows(nic: Nic) -> list[SharedWindow]:
    return [window for peer in peers(nic) for window in peer.windows.by_key.values()]


def check_shares(world: World) -> None:
    """Whatever happened: each window counts exactly what its queue pairs have on the way, and nobody else's."""
    for nic in world.nics:
        for window in windows(nic):
            shares = []
            for user in window.users:
                assert isinstance(user, MrcQueuePair)
                requester = user.requester
                assert requester is not None
                flying = sum(record.weight for record in requester.sent.ring if record.state == OUT)
                assert requester.sent.in_flight == flying
                shares.append(flying)
            assert window.cc.inflight == sum(shares)
            assert window.active == sum(1 for share in shares if share)
            assert set(window.waiting) | set(window.waiting_last) | set(window.timed_out) <= set(window.users)
            assert not set(window.waiting) & set(window.timed_out)
            assert set(window.waiting_last) <= set(window.timed_out)


def two_pairs(**faults: float) -> tuple[World, End, End, End, End]:
    world = World(transport=NSCC, faults=Faults(**faults))  # type: ignore[arg-type]
    a, b = connect(world)
    c, d = connect(world)
    return world, a, b, c, d


def test_queue_pairs_share_a_window_per_destination() -> None:
    world = World(3, transport=NSCC)
    for to in (1, 1, 2):
        connect(world, 0, to)
    first, second = windows(world.nics[0])
    assert (len(first.users), len(second.users)) == (2, 1)
    assert first.cc is not second.cc


def test_the_shared_window_bounds_their_total_and_all_progress() -> None:
    world, a, b, c, d = two_pairs()
    for near, far in ((a, b), (c, d)):
        for _ in range(4):
            near.write(far, 1 << 18)
    (window,) = windows(world.nics[0])
    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, window.cc.inflight)
        assert window.cc.inflight < window.cc.cwnd + NOMINAL
        check_shares(world)
        world.at(world.now + 7 * US, watch)

    watch()
    assert world.run(100 * MS, until=lambda: len(a.done) + len(c.done) + len(a.poll()) + len(c.poll()) == 8)
    assert most > 4 * CHUNK
    assert abs(len(a.done) - len(c.done)) <= 1
    assert world.nics[0].qp_counters(a.qpn).timeouts == world.nics[0].qp_counters(c.qpn).timeouts == 0


def filled(seed: int) -> tuple[World, End, End] | None:
    """One queue pair's packets vanish and fill the window, the other waits in mid-message; None if it could go on."""
    world = World(transport=NSCC, seed=seed)
    slow, far = connect(world, attributes=QpAttributes(timeout=12, retry_count=3))
    other, other_far = connect(world, attributes=QpAttributes(timeout=6, retry_count=1))
    remote = far.qpn.to_bytes(3, "big")
    world.tap = lambda nic, port, to, frame, now: None if nic == 0 and frame[107:110] == remote else frame
    other.write(other_far, 1 << 20)
    world.run(30 * US)
    for _ in range(4):
        slow.write(far, 1 << 18)
    world.run(300 * US)
    sent = world.nics[0].qp_counters(other.qpn).data_sent
    world.run(2 * MS)
    waits = 2 < sent == world.nics[0].qp_counters(other.qpn).data_sent < 256
    return (world, slow, other) if waits else None


def test_a_queue_pair_waiting_for_window_does_not_time_out() -> None:
    found = next((found for seed in range(1, 20) if (found := filled(seed)) is not None), None)
    assert found is not None, "no seed has it wait"
    world, slow, other = found
    (window,) = windows(world.nics[0])
    assert world.nics[0].qp_counters(other.qpn).timeouts == 0
    assert world.run(1000 * MS, until=lambda: bool(other.poll()))
    assert other.done[0].status is CompletionStatus.SUCCESS
    assert world.run(1000 * MS, until=lambda: len(slow.done) + len(slow.poll()) >= 4)
    assert slow.done[0].status is CompletionStatus.RETRY_EXCEEDED
    assert window.cc.inflight == 0


def test_a_new_queue_pair_after_an_outage_does_not_wait_for_backed_off_timers() -> None:
    """What another queue pair lost fills the window, and that one asks seldom by now."""
    world = World(transport=NSCC)
    patient, far = connect(world, attributes=QpAttributes(timeout=8, retry_count=40))
    patient.write(far, CHUNK)
    assert world.run(MS, until=lambda: bool(patient.poll()))
    world.faults.dead_planes |= {0, 1}
    patient.write(far, 1 << 18)
    world.run(60 * MS)
    (window,) = windows(world.nics[0])
    assert window.cc.inflight >= window.cc.cwnd
    assert world.nics[0].qp_counters(patient.qpn).timeouts > 10
    world.faults.dead_planes.clear()
    newcomer, newcomer_far = connect(world, attributes=QpAttributes(timeout=8))
    newcomer.write(newcomer_far, 100)
    assert world.run(10 * 22 * US, until=lambda: bool(newcomer.poll())), "within a few round trips"
    assert world.run(MS, until=lambda: len(patient.done) + len(patient.poll()) == 2)
    check_shares(world)


def test_waiting_queue_pairs_trigger_probes_with_backoff() -> None:
    """Patience doubles from a quarter of the timeout to 64 times that: each newcomer has others ask 8 times or so."""
    world = World(transport=NSCC)
    pairs = [connect(world, attributes=QpAttributes(timeout=8, retry_count=40)) for _ in range(8)]
    for near, far in pairs:
        near.write(far, CHUNK)
    assert world.run(MS, until=lambda: all(near.done or near.poll() for near, _ in pairs))
    world.faults.dead_planes |= {0, 1}
    for near, far in pairs[:4]:
        near.write(far, 1 << 18)
    world.run(20 * MS)
    before = [near.nic.qp_counters(near.qpn).probes_sent for near, _ in pairs]
    for near, far in pairs[4:]:
        near.write(far, CHUNK)
    world.run(40 * MS)
    asked = [near.nic.qp_counters(near.qpn).probes_sent - b for (near, _), b in zip(pairs, before, strict=True)]
    assert max(asked) <= 2 * 8 * (4 + 1), "on 2 planes, for 4 newcomers and timeouts of its own"
    world.faults.dead_planes.clear()
    assert world.run(100 * MS, until=lambda: all(len(near.done) + len(near.poll()) == 2 for near, _ in pairs))
    check_shares(world)


def test_only_queue_pairs_filling_the_window_are_made_to_probe() -> None:
    """The window bounds how many are, though hundreds may be silent: what the others asked would free nothing."""
    world = World(transport=NSCC)
    pairs = [connect(world, size=1 << 15, attributes=QpAttributes(timeout=8, retry_count=40)) for _ in range(40)]
    world.faults.dead_planes |= {0, 1}
    for near, far in pairs:
        near.write(far, 1 << 15)
    world.run(20 * MS)
    (window,) = windows(world.nics[0])
    users = [user for user in window.users if isinstance(user, MrcQueuePair) and user.requester is not None]
    world.run(until=lambda: any(user.requester.sent.in_flight for user in users if user in window.timed_out))
    asked = []
    for user in list(window.timed_out):
        assert isinstance(user, MrcQueuePair)
        assert user.requester is not None
        user.requester.probes.mask = 0
        assert user.probe_for_others(0, world.now), "it stays among the silent ones"
        assert (user.requester.probes.mask != 0) == (user.requester.sent.in_flight > 0)
        asked.append(user.requester.sent.in_flight > 0)
    assert 0 < sum(asked) <= window.cc.cwnd // NOMINAL + 1 < len(asked)


def test_a_shrinking_window_is_not_blocked_by_unprobed_packets() -> None:
    world = World(transport=TransportSettings(sack_threshold=1 << 20))
    steady = Algorithm(lambda line: CongestionControl(64 * CHUNK), shared=True)
    world.nics[0] = Nic(make_config(0, 2, 2, 4, TransportSettings(congestion="steady")), seed=5,
                        congestion={"steady": steady})  # fmt: skip
    pairs = [connect(world, attributes=QpAttributes(timeout=16)) for _ in range(8)]
    for near, far in pairs:
        near.write(far, 1 << 19)
    world.run(300 * US)
    (window,) = windows(world.nics[0])
    window.cc.cwnd = CHUNK
    before = sum(near.nic.qp_counters(near.qpn).data_sent for near, _ in pairs)
    world.run(MS)
    assert window.cc.inflight <= 2 * CHUNK
    assert sum(near.nic.qp_counters(near.qpn).data_sent for near, _ in pairs) - before > 10
    window.cc.cwnd = 64 * CHUNK
    assert world.run(100 * MS, until=lambda: all(near.done or near.poll() for near, _ in pairs))
    assert all(near.nic.qp_counters(near.qpn).timeouts == 0 for near, _ in pairs)


def test_a_destroyed_or_failed_queue_pair_returns_its_window_share_at_once() -> None:
    world, a, b, c, d = two_pairs()
    world.faults.dead_planes |= {0, 1}
    a.write(b, 1 << 18)
    world.run(50 * US)
    (window,) = windows(a.nic)
    assert window.cc.inflight >= window.cc.cwnd
    c.write(d, CHUNK)
    world.faults.dead_planes.clear()
    a.nic.modify_qp(a.qpn, QpState.ERROR, world.now)
    assert window.cc.inflight == 0
    world.pump(0)
    assert world.run(MS, until=lambda: bool(c.poll())), "the other was let in, without any timeout"
    check_shares(world)
    a.nic.destroy_qp(a.qpn, world.now)
    assert windows(a.nic) == [window]
    c.nic.destroy_qp(c.qpn, world.now)
    assert windows(a.nic) == []


def test_a_slow_receiver_slows_only_its_own_queue_pair() -> None:
    """One application does not poll; another queue pair to the same NIC is as fast as it is alone, all the time."""

    def times(slow: bool) -> list[int]:
        world = World(transport=TransportSettings(base_rtt=60 * US, assumed_rate=10_000_000_000))
        a, b = connect(world, far_capacity=1, size=1 << 20)
        c, d = connect(world, size=1 << 20)
        if slow:
            for number in range(8):
                a.write(b, CHUNK, imm=number)
        world.run(10 * MS)
        taken = []
        for _ in range(20):
            start = world.now
            c.write(d, 16 * CHUNK)
            assert world.run(5 * MS, until=lambda: bool(c.poll()))
            taken.append(world.now - start)
            world.run(500 * US)
        if slow:
            gauges = a.nic.hw_counters(a.qpn, world.now)
            limited = 0 < gauges["receiver_limit_bytes"] < gauges["cwnd_bytes"]
            assert limited, "the neighbour's SACKs did not end the penalty"
            while not (a.poll() and len(a.done) == 8):
                b.poll()
                world.run(100 * US)
            a.write(b, 1 << 20)
            assert world.run(50 * MS, until=lambda: bool(a.poll()))
            gauges = a.nic.hw_counters(a.qpn, world.now)
            assert gauges["receiver_limit_bytes"] == 0, "and it was lifted when the application polled"
        return taken

    alone, beside = times(False), times(True)
    assert max(beside) <= max(alone) + 5 * US


def test_a_queue_pair_can_have_its_own_window() -> None:
    world = World(transport=NSCC)
    a, b = connect(world, attributes=QpAttributes(congestion_window=8 * CHUNK))
    connect(world, attributes=QpAttributes(cc_profile="none"))
    assert windows(a.nic) == []
    a.write(b, 1 << 18)
    assert world.run(100 * MS, until=lambda: bool(a.poll()))


def test_a_registered_congestion_control_is_selected_by_name() -> None:
    class Counting(CongestionControl):
        __slots__ = ("acked",)

        def __init__(self) -> None:
            super().__init__(3 * CHUNK)
            self.acked = 0

        def on_ack(
            self, acked: int, received: int, rtt: int, marked: bool, now: int, penalty: int = 0, restore: bool = False
        ) -> None:
            self.acked += acked

    made: list[Counting] = []

    def make(line: object) -> Counting:
        made.append(Counting())
        return made[-1]

    world = World()
    config = make_config(0, 2, 2, 4)
    world.nics[0] = Nic(config, seed=5, congestion={"counting": Algorithm(make, shared=True)})
    a, b = connect(world, attributes=QpAttributes())
    c, d = connect(world, 0, 1, attributes=None)
    for end in (a, c):
        end.nic.modify_qp(end.qpn, QpState.RESET, world.now)
        end.nic.modify_qp(end.qpn, QpState.INIT, world.now, {"cc_profile": "counting"})
    for near, far in ((a, b), (c, d)):
        near.nic.connect_qp(near.qpn, far.nic.qp_address(far.qpn), world.now)
        near.write(far, 20 * CHUNK)
    assert world.run(100 * MS, until=lambda: bool(a.done or a.poll()) and bool(c.done or c.poll()))
    (window,) = windows(world.nics[0])
    assert isinstance(window.cc, Counting)
    assert window.cc.acked == 40 * NOMINAL


# ---- whatever happens ------------------------------------------------------------------------------------------------

deeds = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "destroy", "error", "port", "dead", "alive"]),
        st.integers(0, 5),
        st.integers(1, 60_000),
        st.sampled_from([0, 3 * US, 50 * US, 400 * US]),
    ),
    min_size=3,
    max_size=25,
)


@example(
    4,
    Faults(seed=14187, loss=0.2, delay=0.3, extra=100 * US, trim=0.3),
    [
        ("write", 3, 9385, 0),
        ("dead", 1, 1, 0),
        ("write", 0, 51625, 400 * US),
        ("write", 3, 11433, 0),
        ("write", 0, 169, 0),
        ("write", 0, 57, 0),
    ],
    128,
)  # what was to be sent again arrived after all while it was queued, and its transport ACK was lost
@given(
    st.integers(2, 6),
    st.builds(
        Faults,
        seed=st.integers(0, 1 << 20),
        loss=st.sampled_from([0.0, 0.02, 0.2]),
        duplicate=st.sampled_from([0.0, 0.2]),
        delay=st.sampled_from([0.0, 0.3]),
        extra=st.sampled_from([US, 100 * US]),
        mark=st.sampled_from([0.0, 0.5]),
        trim=st.sampled_from([0.0, 0.3]),
    ),
    deeds,
    st.integers(0, 1000),
)
def test_window_accounting_never_leaks_and_requests_complete(
    count: int, faults: Faults, plan: list[tuple[str, int, int, int]], seed: int
) -> None:
    world = World(seed=seed, faults=faults, transport=NSCC)
    pairs = [connect(world, size=1 << 16, attributes=QpAttributes(timeout=8, retry_count=3)) for _ in range(count)]
    posted = [0] * count
    gone: set[int] = set()
    for deed, who, length, pause in plan:
        number = who % count
        near, far = pairs[number]
        if deed == "write" and number not in gone:
            near.write(far, length)
            posted[number] += 1
        elif deed == "destroy" and number not in gone:
            near.nic.destroy_qp(near.qpn, world.now)
            gone.add(number)
        elif deed == "error" and number not in gone:
            near.nic.modify_qp(near.qpn, QpState.ERROR, world.now)
        elif deed == "port":
            world.set_port(who % 2, length % 2, bool(length & 2))
        elif deed == "dead":
            faults.dead_planes |= {who % 2}
        elif deed == "alive":
            faults.dead_planes.clear()
        check_shares(world)
        world.run(pause)
        check_shares(world)
    faults.dead_planes.clear()
    for number in range(4):
        world.set_port(number // 2, number % 2, True)

    def all_done() -> bool:
        check_shares(world)
        return all(len(near.done) + len(near.poll()) >= n for (near, _), n in zip(pairs, posted, strict=True))

    assert world.run(5_000 * MS, until=all_done), [len(near.done) for near, _ in pairs]
    for number, (near, _far) in enumerate(pairs):
        if number not in gone:
            near.nic.destroy_qp(near.qpn, world.now)
    assert windows(world.nics[0]) == []
