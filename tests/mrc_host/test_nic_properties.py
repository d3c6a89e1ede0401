"""Properties that hold whatever the fabric does: exact memory, exactly-once completions in order, quiet ends.

Each example is a random small fabric, workload and fault plan; time is simulated, so an example takes milliseconds.
``pytest --hypothesis-profile=ci`` (1,000 examples each) or ``soak`` (20,000) looks longer; see
tests/mrc_host/conftest.py.
"""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.config import TransportSettings
from mrc_host.errors import ResourceExhaustedError
from mrc_host.transport.mrc_queue_pair import MrcQueuePair
from mrc_host.transport.peer_frames import CONTROL
from mrc_host.verbs_types import CompletionStatus, PathState, QpAttributes, QpState, QpType
from mrc_host.wire import opcodes
from mrc_host.wire.control import parse_sack
from mrc_host.wire.headers import BTH_LENGTH
from tests.mrc_host.nic_world import MS, US, End, Faults, World, connect, path_events, peers

pytestmark = pytest.mark.either_transport

SIZE = 1 << 18
BTH = 102  # where it begins in a frame of MRC
_TRANSFERS = 4  # of 1 MB, the last of which finds no dead path in use
_MOST_TRANSFERS = 40  # where timeouts, after which all paths are tried, go on: few answers arrive


@dataclass
class Write:
    offset: int
    length: int
    imm: bool
    signaled: bool
    wait: int  # ns before it is posted


writes = st.lists(
    st.builds(
        Write,
        st.integers(0, SIZE - 1),
        st.one_of(st.integers(1, 64), st.integers(1, 40_000), st.sampled_from([1024, 1025, 4096, 8192])),
        st.booleans(),
        st.booleans(),
        st.sampled_from([0, 0, 0, 5 * US, 300 * US, 5 * MS]),
    ),
    min_size=1,
    max_size=25,
)
faults = st.builds(
    Faults,
    seed=st.integers(0, 1 << 20),
    loss=st.sampled_from([0.0, 0.0, 0.02, 0.2]),
    duplicate=st.sampled_from([0.0, 0.1, 0.5]),
    corrupt=st.sampled_from([0.0, 0.05]),
    delay=st.sampled_from([0.0, 0.2, 0.6]),
    extra=st.sampled_from([1 * US, 30 * US, 2 * MS]),
    mark=st.sampled_from([0.0, 0.3]),
    trim=st.sampled_from([0.0, 0.1]),
    plane_delay=st.dictionaries(st.integers(0, 3), st.sampled_from([10 * US, 500 * US]), max_size=2),
)
flaps = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 3000), st.integers(1, 40_000)), max_size=5
)
limits = st.sampled_from(
    [
        TransportSettings(),
        TransportSettings(bitmap_range=1, plane_skew_limit=1 << 10),
        TransportSettings(max_inflight_messages=2, always_skip_marks=2),
    ]
)
psns = st.sampled_from([None, 0, 0xFFFFFF, 0xFFFFF8, 0x7FFFFE])


def drive(world: World, a: End, b: End, plan: list[Write]) -> None:
    """Post the plan, wait for every completion, and check what must hold."""
    expected = bytearray(SIZE + 40_000)
    sent: list[tuple[int, Write]] = []
    for write in plan:
        world.run(write.wait)
        while True:
            try:
                wr_id = a.write(
                    b, write.length, offset=write.offset, imm=len(sent) if write.imm else None, signaled=write.signaled
                )
                break
            except ResourceExhaustedError:
                world.run(MS)
                a.poll()
        sent.append((wr_id, write))
        end = write.offset + write.length
        expected[write.offset : end] = a.buffer[write.offset : end]
    world.run(120_000 * MS, until=lambda: a.nic.qp_counters(a.qpn).bytes_completed == sum(w.length for w in plan))
    a.poll()
    b.poll()
    assert a.nic.qp_state(a.qpn) is QpState.RTS, a.done
    assert [(c.wr_id, c.status, c.byte_len) for c in a.done] == [
        (i, CompletionStatus.SUCCESS, w.length) for i, w in sent if w.signaled
    ]
    assert [(c.imm, c.byte_len) for c in b.done] == [(n, w.length) for n, (_i, w) in enumerate(sent) if w.imm]
    assert b.buffer == expected
    world.run(5_000 * MS)
    assert not a.poll()
    assert not b.poll()
    assert b.buffer == expected, "late duplicates change nothing"
    before = world.frames
    world.run(1_000 * MS)
    assert world.frames - before < 4 * 1_000 * MS // TransportSettings().probe_spacing, "probes of bad paths, at most"
    for end in (a, b):
        nothing_is_kept(end)
    for end in (a, b):
        assert end.nic.nic_counters()["drop_internal_error"] == 0


def nothing_is_kept(end: End) -> None:
    """At rest a queue pair remembers nothing but a bounded past."""
    qp = end.qp
    if not isinstance(qp, MrcQueuePair):
        return
    requester, responder = qp.requester, qp.responder
    assert requester is not None
    assert responder is not None
    assert not requester.sent.lost()
    assert not requester.sent.in_flight
    assert not requester.window.cc.inflight
    assert all(lane.head() is None for lane in requester.sent.lanes)
    assert len(requester.spurious.packets) <= 512
    assert requester.probes.unanswered <= 32
    assert not responder.messages.open
    assert responder.messages.known_starts <= 1
    assert responder.received.next_psn == responder.received.max_psn + 1
    assert not responder.acks.pending()


@given(
    writes, faults, flaps, st.integers(1, 4), st.integers(1, 5), psns, st.sampled_from([256, 1024, 4096]), limits,
    st.booleans(),
)  # fmt: skip
def test_mrc_transfers_are_exact_under_random_faults(
    plan: list[Write], fault: Faults, flap: list[tuple[int, int, int, int]], planes: int, uplinks: int, psn: int | None,
    mtu: int, transport: TransportSettings, trim_nack: bool,
) -> None:  # fmt: skip
    world = World(planes=planes, uplinks=uplinks, faults=fault, transport=transport)
    attributes = QpAttributes(
        path_mtu=mtu, timeout=9, retry_count=255, send_psn=psn, receive_psn=psn, max_wimm=4, max_wimm_dest=4,
        trim_nack=trim_nack,
    )  # fmt: skip
    a, b = connect(world, size=SIZE + 40_000, attributes=attributes)
    for number, port, after, duration in flap:
        if port < planes:
            down = world.now + after * US
            world.at(down, lambda n=number, p=port: world.set_port(n, p, False))
            world.at(down + duration * US, lambda n=number, p=port: world.set_port(n, p, True))
    drive(world, a, b, plan)


@given(writes, faults, psns)
def test_rc_transfers_are_exact_under_random_faults(plan: list[Write], fault: Faults, psn: int | None) -> None:
    fault.trim = 0.0
    fault.delay = min(fault.delay, 0.2)
    world = World(planes=2, faults=fault)
    attributes = QpAttributes(path_mtu=1024, timeout=9, retry_count=255, send_psn=psn, receive_psn=psn)
    a, b = connect(world, size=SIZE + 40_000, kind=QpType.RC, attributes=attributes)
    drive(world, a, b, plan)


@given(
    st.integers(2, 4),
    st.lists(st.integers(0, 2 * MS), min_size=4, max_size=4),
    st.integers(1 << 12, 1 << 19),
    st.integers(0, 100),
)
def test_reordering_between_planes_is_never_treated_as_loss(
    planes: int, skews: list[int], window: int, seed: int
) -> None:
    world = World(planes=planes, uplinks=4, seed=seed, faults=Faults(plane_delay=dict(enumerate(skews))))
    a, b = connect(world, size=1 << 18, attributes=QpAttributes(path_mtu=1024, congestion_window=window))
    for i in range(8):
        a.write(b, 1 << 15, offset=i << 15)
    assert world.run(120_000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 8)
    counters = a.nic.qp_counters(a.qpn)
    assert (counters.retransmitted, counters.lost, counters.timeouts) == (0, 0, 0)
    assert not path_events(a.nic)
    assert a.buffer == b.buffer


def test_slow_paths_cause_few_spurious_losses_once_measured() -> None:
    """In 150 fixed worlds, whose paths have a few delays, a third transfer sends three packets again in one at most."""
    early = []
    for number in range(150):
        chance = random.Random(number)
        planes = chance.randint(1, 3)
        few = [
            chance.choice((0, 1, 400 * US, chance.randrange(400 * US), chance.randrange(1 << chance.randrange(1, 19))))
            for _ in range(chance.randint(2, 6))
        ]
        slow = {(n % planes, n // planes): chance.choice(few) for n in range(12)}
        world = World(planes=planes, uplinks=12 // planes, seed=number, faults=Faults(path_delay=slow))
        a, b = connect(world, size=1 << 17, attributes=QpAttributes(path_mtu=1024, congestion_window=96 << 10))
        for _ in range(3):
            before = a.nic.qp_counters(a.qpn).retransmitted
            a.done.clear()
            for i in range(4):
                a.write(b, 1 << 15, offset=i << 15)
            assert world.run(120_000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 4)  # noqa: B023
        if a.nic.qp_counters(a.qpn).retransmitted - before > 2:
            early.append(number)
    assert len(early) <= 1, early


def is_late(slow: dict[tuple[int, int], int], path: tuple[int, int]) -> bool:
    """Whether a path's packets come later than others of its plane by more than the least reorder window.

    That is a quarter of a round trip without queues.
    """
    return slow[path] - min(delay for (plane, _), delay in slow.items() if plane == path[0]) > 5 * US


def sent_unheard(world: World, slow: dict[tuple[int, int], int], since: int = 0) -> int:
    """How many packets sent from `since` on went on late paths whose delay no answers had shown (protocol.md 10.1).

    Where a round trip is at most two of the plane, the first packet shows it. SACKs of packets that come at once, on
    paths of equal delay, leave their port one after the other. Elsewhere it takes two SACKs that answer packets of the
    path.
    """
    together = max(uplink for _, uplink in slow) + 1
    least = [min(delay for (p, _), delay in slow.items() if p == plane) for plane in range(world.planes)]
    fixed = 2 * (world.delay + world.frame_time)
    first: dict[tuple[int, int], int] = {}  # when the first packet of a path is answered
    sacks: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)  # timestamp -> when its SACK comes
    count = 0
    for when, nic, plane, frame in world.sent:
        if nic == 0 and len(frame) > 1000:
            path = plane, int.from_bytes(frame[44:46], "big") & 0x3FF
            answered = first.setdefault(path, when + slow[path] + fixed + together * world.frame_time)
            if slow[path] + fixed <= 2 * (least[plane] + fixed):
                known = when >= answered
            else:
                known = sum(came <= when for came in sacks[path].values()) >= 2
            count += when >= since and is_late(slow, path) and not known
        elif nic == 1 and frame[BTH] == opcodes.SACK:
            sack = parse_sack(frame, BTH + BTH_LENGTH)
            path = sack.entropy >> 10, sack.entropy & 0x3FF
            if not sack.probe:
                sacks[path].setdefault(sack.timestamp, when + fixed // 2)
    return count


@given(
    st.integers(1, 3),
    st.lists(st.integers(0, 400 * US), min_size=12, max_size=12),
    st.integers(0, 100),
)
def test_paths_of_different_delay_are_measured_and_stay_in_use(planes: int, delays: list[int], seed: int) -> None:
    """Reordering between the paths of one plane may fool the first judgement, not the later ones, and costs no path.

    A window of 96 packets, transfers of 128. "A slow path looks dead until its first packet comes" (docs/protocol.md
    10.1), or its second: what was sent on it until then may be sent again, and no more than that in all transfers
    together, though paths differ by up to 20 round trips.
    """
    measure_paths_of_different_delay(planes, delays, seed)


def test_a_fast_path_loses_nothing_while_its_sack_waits_for_late_ones() -> None:
    """SACKs come every 32 KB: the first that late paths cause shows nothing of its plane, the next ones all of it."""
    delays = [0, 0, 151_001, 163_001, 161_001, 163_001, 161_001, 0, 16_001, 0, 149_001, 161_001]
    measure_paths_of_different_delay(3, delays, 0)


def measure_paths_of_different_delay(planes: int, delays: list[int], seed: int) -> None:
    """Three transfers over paths of such delays, and what must hold after them."""
    slow = {(n % planes, n // planes): delay for n, delay in enumerate(delays)}
    world = World(planes=planes, uplinks=12 // planes, seed=seed, faults=Faults(path_delay=slow))
    world.record = True
    a, b = connect(world, size=1 << 17, attributes=QpAttributes(path_mtu=1024, congestion_window=96 << 10))

    def transfer() -> int:
        before = a.nic.qp_counters(a.qpn).retransmitted
        a.done.clear()
        for i in range(4):
            a.write(b, 1 << 15, offset=i << 15)
        assert world.run(120_000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 4)
        assert a.buffer == b.buffer
        return a.nic.qp_counters(a.qpn).retransmitted - before

    times = [transfer(), transfer()]
    third = world.now
    times.append(transfer())
    assert sum(times) <= sent_unheard(world, slow), times
    assert times[2] <= 2 + sent_unheard(world, slow, third)
    for path in a.nic.qp_paths(a.qpn):
        assert path.lost == 0 or is_late(slow, (path.plane, path.ev & 0x3FF))
    world.run(2_000 * MS)  # the last SACK may come after the transport ACK that completes everything
    counters = a.nic.qp_counters(a.qpn)
    far = b.nic.qp_counters(b.qpn)
    assert counters.spurious_retransmitted == counters.retransmitted == far.duplicates_received
    assert all(p.state is PathState.GOOD for p in a.nic.qp_paths(a.qpn))


Paths = set[tuple[int, int]]  # plane and uplink


@st.composite
def most_of(draw: st.DrawFn, planes: int, uplinks: int, everywhere: bool) -> Paths:
    """Paths to die: any but one, of each plane if that is to be left `everywhere`, or of the whole fabric."""
    every = [(plane, uplink) for plane in range(planes) for uplink in range(uplinks)]
    left = {(plane, draw(st.integers(0, uplinks - 1))) for plane in range(planes)}
    if not everywhere:
        left = {draw(st.sampled_from(sorted(left)))}
    some = draw(st.sets(st.sampled_from(every)))
    return (set(every) - some if draw(st.booleans()) else some) - left


@given(st.integers(1, 4), st.integers(2, 16), st.integers(0, 1000), st.booleans(), st.data())
def test_dead_paths_are_retired_live_ones_kept_and_planes_balanced(
    planes: int, uplinks: int, seed: int, everywhere: bool, data: st.DataObject
) -> None:
    """Any paths are dead, in either direction or both, as long as one is left: dead ones are retired, and no others.

    A path works if it carries data, whether or not answers come back on it. Data takes no dead path in the end, except
    after timeouts, when nothing that is known is relied on (docs/protocol.md §3).
    """
    dead, back = (data.draw(most_of(planes, uplinks, everywhere)) for _ in range(2))
    match data.draw(st.sampled_from(("both", "forward", "back", "different"))):
        case "both":
            back = dead
        case "forward":
            back = set()
        case "back":
            dead = set()
    world = World(planes=planes, uplinks=uplinks, seed=seed, faults=Faults(dead_from={0: dead, 1: back}))
    # Where nearly all paths are dead, a queue pair may use up its usual retries before it finds one that works.
    half = max(len(dead), len(back)) <= planes * uplinks // 2
    attributes = QpAttributes() if half and everywhere else QpAttributes(timeout=9, retry_count=255)
    a, b = connect(world, size=1 << 20, attributes=attributes)
    world.record = True
    retired: Paths = set()
    transfers, timeouts = 0, -1
    while transfers < _TRANSFERS or a.nic.qp_counters(a.qpn).timeouts > timeouts:
        assert transfers < _MOST_TRANSFERS
        transfers += 1
        timeouts = a.nic.qp_counters(a.qpn).timeouts
        world.sent.clear()
        a.done.clear()
        for i in range(4):
            a.write(b, 1 << 18, offset=i << 18)
        assert world.run(120_000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 4)
        assert [c.status for c in a.done] == [CompletionStatus.SUCCESS] * 4
        assert a.buffer == b.buffer
        retired |= {(e.plane, e.ev & 0x3FF) for e in path_events(a.nic) if e.new is PathState.ASSUMED_BAD}
        assert retired <= dead
        data_sent = [(port, frame) for _t, nic, port, frame in world.sent if nic == 0 and len(frame) > 1000]
        if everywhere:
            every = Counter(port for port, _frame in data_sent)
            first = Counter(port for port, frame in data_sent if not frame[BTH + 8] & 0x20)
            # Retransmissions use up a plane's share of new packets; up to half of the paths, they do not matter.
            least = min((first if half else every)[plane] for plane in range(planes))
            assert max(first.values()) - least <= 2 * TransportSettings().plane_skew_limit
    assert dead.isdisjoint((port, int.from_bytes(frame[44:46], "big") & 0x3FF) for port, frame in data_sent)
    world.run(500 * MS)  # several probes of each bad path
    bad = {(p.plane, p.ev & 0x3FF) for p in a.nic.qp_paths(a.qpn) if p.state is PathState.ASSUMED_BAD}
    assert retired <= bad <= dead


@given(st.lists(st.tuples(st.integers(0, 7), st.binary(min_size=0, max_size=60)), max_size=40), st.integers(0, 99))
def test_adversarial_responses_do_no_harm(noise: list[tuple[int, bytes]], seed: int) -> None:
    """The peer's address sends answers with arbitrary contents; the transfer may fail but nothing else may happen."""
    opcodes = (0xDC, 0xDD, 0xD1, 0xDE, 0xD8, 0xD9, 0xDC, 0xD1)
    world = World(seed=seed)
    a, b = connect(world, size=1 << 20, attributes=QpAttributes(timeout=8, retry_count=20))
    for i in range(4):
        a.write(b, 1 << 18, offset=i << 18)
    (peer,) = peers(b.nic)
    for step, (kind, content) in enumerate(noise):
        body = bytearray(content.ljust(48, b"\0"))
        qpn = 2 if kind in (4, 5) else a.qpn
        body[:9] = bytes((opcodes[kind], 0, 0xFF, 0xFF, 0)) + qpn.to_bytes(3, "big") + body[8:9]
        frame = peer.answers.frame(peer.answers.reverse_path(step % 2, world.now), CONTROL, bytes(body))
        world.at(world.now + step * 7 * US, lambda f=frame, p=step % 2: world.carry(1, p, f))
    world.run(60_000 * MS, until=lambda: bool(a.poll()) and len(a.done) == 4)
    a.poll()
    assert len(a.done) == 4, "every request completes exactly once, one way or another"
    assert [c.wr_id for c in a.done] == [1, 2, 3, 4]
    assert a.nic.nic_counters()["drop_internal_error"] == 0
    world.run(5_000 * MS)
    assert not a.poll()
