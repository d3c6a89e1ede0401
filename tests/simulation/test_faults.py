import asyncio
import contextlib
from unittest import mock

import pytest

from mrc_host.verbs_types import CompletionStatus, PortEvent
from simulation import write_entries
from simulation.errors import FaultError
from simulation.trace import Trace
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, US, Pair, small_fabric, small_world, transfer
from tests.topologies.faults.spells import known
from topologies.fabric import LinkEnd
from topologies.faults import FaultState
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss


@pytest.fixture
def world():
    with small_world() as made:
        yield made


def up(world, node, port):
    return world.switch(node).stats().ports[port].up


def test_link_down_removes_carrier_at_both_ends(world):
    number = world.faults.link_down("t0-0:t1-1@p0")
    assert not up(world, "t0-0@p0", 4)
    assert not up(world, "t1-1@p0", 1)
    assert up(world, "t0-0@p0", 3)
    world.faults.clear(number)
    assert up(world, "t0-0@p0", 4)
    assert up(world, "t1-1@p0", 1)


def test_a_link_down_in_one_direction_keeps_its_carrier(world):
    world.faults.link_down("t0-0:t1-1@p0", towards="t1-1@p0")
    assert up(world, "t0-0@p0", 4)
    assert up(world, "t1-1@p0", 1)
    assert world.run(transfer(world)).equal
    there, back = world.link_stats("t0-0:t1-1@p0")
    assert there.lost == there.frames > 0
    assert back.lost == 0


def test_a_fault_starting_now_affects_the_next_frame(world):
    """What is lost was sent: a frame meets the faults that there are when it arrives."""
    trace = Trace(keep=True)
    with small_world(trace=trace) as healthy:
        healthy.run(transfer(healthy))
    for plane in (0, 1):
        first = next(record.time for record in trace.records() if record.device == f"t0-0@p{plane}")
        world.faults.loss(f"h1@p{plane}", 1.0, towards="t0-*", at=0, until=first + 1)
    assert world.run(transfer(world)).equal
    lost = [world.link_stats(f"h1@p{plane}")[0].lost for plane in (0, 1)]
    assert lost == [1, 1], "one frame a port begins at 0"


def test_a_link_with_two_faults_recovers_when_both_are_cleared(world):
    first = world.faults.link_down("h1@p1")
    second = world.faults.port_down("h1", 1)
    world.faults.clear(first)
    assert not up(world, "t0-0@p1", 1)
    world.faults.clear(second)
    assert up(world, "t0-0@p1", 1)


def test_a_nic_sees_its_port_go_down_and_up(world):
    with world.open("h1") as context:
        world.faults.port_down("h1", 1, at=5 * US, until=9 * US)
        world.run(20 * US)
        events = []
        while (event := context.poll_event()) is not None:
            events.append(event)
    assert events == [PortEvent(5 * US, 1, False, True), PortEvent(9 * US, 1, True, True)]


def test_power_off_takes_all_links_down_and_keeps_the_tables(world):
    world.faults.power_off("t1-0@p0", until=50 * US)
    assert not any(port.up for port in world.switch("t1-0@p0").stats().ports.values())
    assert not up(world, "t0-1@p0", 3)
    assert world.run(transfer(world)).equal
    world.run(world.now + 60 * US)
    assert all(port.up for port in world.switch("t1-0@p0").stats().ports.values())
    before = world.switch("t1-0@p0").stats().ports[1].tx_packets
    world.run(world.now + 5_000 * US)  # probes bring the paths back
    assert world.run(transfer(world, length=4 << 20)).equal
    assert world.switch("t1-0@p0").stats().ports[2].tx_packets > before


def test_a_blackhole_keeps_links_up_and_drops_everything(world):
    world.faults.blackhole("t1-0@p*")
    result = world.run(transfer(world))
    assert result.equal
    assert result.counters.lost > 0
    for plane in (0, 1):
        stats = world.switch(f"t1-0@p{plane}").stats()
        assert all(port.up for port in stats.ports.values())
        arrived = sum(port.rx_packets for port in stats.ports.values())
        lost = [world.link_stats(link.name)[0].lost for link in world.fabric.links_of(f"t1-0@p{plane}")]
        assert arrived == sum(lost) > 0
        assert all(port.tx_packets == 0 for port in stats.ports.values())


def test_loss_and_corruption_are_survived_and_counted(world):
    world.faults.loss("t0-0:t1-*@p0", 0.05)
    world.faults.corruption("h3@p1", 0.05, towards="h3")
    result = world.run(transfer(world, times=4))
    assert result.equal
    assert result.counters.retransmitted > 0
    assert world.link_stats("h3@p1")[1].corrupted > 0
    assert world.link_stats("h3@p1")[0].corrupted == 0
    assert world.nic("h3").nic_counters()["drop_icrc"] > 0


def test_path_loss_affects_no_other_path(world):
    world.faults.path_loss(1, source="h1", destination="h3")  # plane 0, uplink 1
    assert world.run(transfer(world)).equal
    assert world.link_stats("h1@p0")[0].lost > 0
    assert world.link_stats("h1@p1")[0].lost == 0
    lost = world.link_stats("h1@p0")[0].lost
    assert world.run(transfer(world, "h1", "h4")).equal
    assert world.link_stats("h1@p0")[0].lost == lost


def test_rate_and_delay_faults_lengthen_a_transfer():
    def took(prepare):
        with SimulatedWorld(small_fabric(planes=1), seed=1, rate=100 * GIGA) as world:
            prepare(world.faults)
            result = world.run(transfer(world))
            assert result.equal
            assert result.counters.lost == 0
            return result.took

    plain = took(lambda faults: None)
    assert took(lambda faults: faults.rate("h1@p0", 50 * GIGA)) > 1.6 * plain
    assert took(lambda faults: faults.delay("h3@p0", 40 * US)) > plain + 80 * US


def test_reordering_causes_no_retransmission(world):
    world.faults.reordering("*", 0.2, 3 * US)
    assert world.run(transfer(world)).equal


def test_a_flap_follows_its_schedule(world):
    seen = []
    world.faults.flap("t0-0:t1-0@p0", down=10 * US, up=20 * US, at=5 * US, until=70 * US)
    for when in range(1, 100):
        world.run(when * US)
        if up(world, "t0-0@p0", 3) != (seen[-1][1] if seen else True):
            seen.append((when, not seen[-1][1] if seen else False))
    assert seen == [(5, False), (15, True), (35, False), (45, True), (65, False), (70, True)]
    assert not world.clock.queued()


def test_random_flaps_follow_the_seed():
    def changes(seed):
        with small_world(seed) as world:
            with world.open("h1") as context:
                world.faults.flap("h1@p0", down=5 * US, up=20 * US, random=True, until=1000 * US)
                world.run(1000 * US)
                found = []
                while (event := context.poll_event()) is not None:
                    found.append(event.time)
            return found

    assert changes(1) == changes(1)
    assert changes(1) != changes(2)
    assert len(changes(1)) > 20


def test_random_flaps_of_several_links_are_independent(world):
    world.faults.flap("t0-0:t1-*@p0", down=5 * US, up=20 * US, random=True, seed=3)
    states = set()
    for when in range(1, 200):
        world.run(when * US)
        states.add((up(world, "t0-0@p0", 3), up(world, "t0-0@p0", 4)))
    assert len(states) == 4, "the two links went down and up together"
    world.faults.clear_all()
    assert up(world, "t0-0@p0", 3)
    assert up(world, "t0-0@p0", 4)


def test_any_kind_that_comes_and_goes_needs_an_end_to_become_idle(world):
    with known():
        number = world.faults.lossy_spells("h1@p0", 10 * US, 20 * US)
        with pytest.raises(FaultError, match="while h1@p0 comes and goes without an end: give the fault an end"):
            world.run()
        world.faults.clear(number)
        world.faults.lossy_path_spells(1, 10 * US, 20 * US)
        with pytest.raises(FaultError, match="while lossy_path_spells comes and goes without an end"):
            world.run()
        world.faults.clear_all()
        world.faults.lossy_path_spells(1, 10 * US, 20 * US, until=50 * US)
        world.run()
    assert world.now >= 50 * US


def test_running_until_idle_is_refused_with_an_endless_flap(world):
    number = world.faults.flap("h1@p0", down=10 * US, up=20 * US, at=5 * US)
    with pytest.raises(FaultError, match="never becomes idle while h1@p0 flaps without an end: give the fault an end"):
        world.run()
    assert world.now == 0
    world.faults.clear(number)
    world.faults.flap("h1@p0", down=10 * US, up=20 * US, until=50 * US)
    world.run()
    assert world.now >= 50 * US


def test_an_endless_flap_is_refused_while_running_until_idle(world):
    async def meddle():
        await asyncio.sleep(1e-6)
        world.faults.flap("h1@p0", down=10 * US, up=20 * US)

    task = world.spawn(meddle())
    world.run()
    with pytest.raises(FaultError, match="flaps without an end"):
        task.result()
    assert world.faults.list() == ()
    world.faults.flap("h1@p0", down=10 * US, up=20 * US)  # which is all the same to a run to a time
    world.run(100 * US)


def test_the_controller_returns_when_the_last_controller_down_fault_is_cleared(world):
    first, second = world.faults.controller_down(), world.faults.controller_down(at=5 * US, until=9 * US)
    world.run(6 * US)
    world.faults.clear(first)
    assert not world.faults.controller_present
    world.run(10 * US)
    assert world.faults.controller_present
    with pytest.raises(FaultError, match=f"no fault {second}"):
        world.faults.clear(second)


def test_traffic_continues_without_the_controller(world):
    number = world.faults.controller_down()
    assert not world.faults.controller_present
    assert world.run(transfer(world)).equal
    world.faults.clear(number)
    assert world.faults.controller_present


def test_faults_are_listed_while_active_and_reported_to_watchers(world):
    changes = []
    world.faults.watch(lambda now, record: changes.append((now, record.id, record.state)))
    a = world.faults.link_down("h1@p0", at=10 * US, until=20 * US)
    b = world.faults.loss("h*@p1", 0.5)
    assert [(r.id, r.fault, r.state) for r in world.faults.list()] == [
        (a, LinkDown("h1@p0"), FaultState.PENDING),
        (b, Loss("h*@p1", 0.5), FaultState.ACTIVE),
    ]
    world.run(15 * US)
    assert world.faults.list()[0].state is FaultState.ACTIVE
    world.run(25 * US)
    assert [r.id for r in world.faults.list()] == [b]
    world.faults.clear_all()
    assert world.faults.list() == ()
    scheduled, active, cleared = FaultState
    assert changes == [
        (0, a, scheduled), (0, b, scheduled), (0, b, active), (10 * US, a, active), (20 * US, a, cleared),
        (25 * US, b, cleared),
    ]  # fmt: skip


def test_a_pending_fault_that_is_cleared_never_begins(world):
    number = world.faults.link_down("h1@p0", at=10 * US)
    world.faults.clear(number)
    world.run(20 * US)
    assert up(world, "t0-0@p0", 1)
    with pytest.raises(FaultError, match=f"no fault {number}"):
        world.faults.clear(number)


@pytest.mark.parametrize(
    ("add", "why"),
    [
        (lambda f: f.link_down("t0-9:t1-0@p0"), "no link that matches"),
        (lambda f: f.link_down("h1@p0", towards="h2"), "leads to a node that matches 'h2'"),
        (lambda f: f.power_off("t2-0@p0"), "no switch that matches"),
        (lambda f: f.port_down("h1", 9), "no port 9"),
        (lambda f: f.add(LinkDown("h1@p0"), at=20 * US, until=10 * US), "must end later"),
        (lambda f: f.loss("h1@p0", 1.5), "probability"),
        (lambda f: f.corruption("h1@p0", 0), "probability"),
        (lambda f: f.reordering("h1@p0", 0.1, 0), "hold is 0 ns, but must be at least 1 ns"),
        (lambda f: f.path_loss(77), "entropy value 0x4d"),
        (lambda f: f.rate("h1@p0", 0), "rate is 0 b/s, but must be 1 b/s to"),
        (lambda f: f.delay("h1@p0", 0), "extra is 0 ns, but must be at least 1 ns"),
        (lambda f: f.add(Flap("h1@p0", 0, 5)), "down is 0 ns, but must be at least 1 ns"),
        (lambda f: f.add(Flap("h1@p0", 1, 1)), "flaps with times of 1000 ns or more, not 1 ns down and 1 ns up"),
        (lambda f: f.add(Flap("h1@p0", 10**9, 999, True)), "flaps with times of 1000 ns or more"),
        (lambda f: f.link_down("h1@p0", at=float("nan")), "a whole number of ns, not nan"),
        (lambda f: f.link_down("h1@p0", until=1.5), "a whole number of ns, not 1.5"),
        (lambda f: f.loss("h1@p0", float("nan")), "probability is nan %, but must be above 0 % and at most 100 %"),
        (lambda f: f.loss("h1@p0", 10**400), "probability is a number of 1329 bits, but must be above 0 %"),
        (lambda f: f.delay("h1@p0", -(10**400)), "extra is a number of 1329 bits, but must be at least 1 ns"),
        (lambda f: f.delay("h1@p0", float("inf")), "extra must be a time, not 'inf'"),
        (lambda f: f.delay(10**5000, 5), "link must be a link such as .*, not 'a number of 16610 bits'"),
    ],
)
def test_invalid_faults_are_refused_before_anything_happens(world, add, why):
    with pytest.raises(FaultError, match=why):
        add(world.faults)
    assert world.faults.list() == ()


def test_switches_that_cannot_hold_a_fault_refuse_it():
    """A T0 has an entry for each pair that one of its hosts begins, if sources are named."""
    with small_world(hosts=66) as world:
        changes = []
        world.faults.watch(lambda now, record: changes.append((now, record.fault, record.state)))
        with pytest.raises(FaultError, match="PathLoss: losses on paths take 1089 entries of table path_fault"):
            world.faults.path_loss(0)
        assert changes == []
        half = [PathLoss(0, source=f"h[{first}-{first + 9}]") for first in (1, 11)]
        world.faults.add(half[0])
        with pytest.raises(FaultError, match="PathLoss at 0 ns cannot be combined with the current faults: losses on"):
            world.faults.add(half[1])
        late = world.faults.add(half[1], at=10)
        for at in (10, 30):
            world.faults.link_down("h1@p0", at=at, until=at + 5)
        with pytest.raises(FaultError, match="PathLoss at 10 ns cannot be combined with the current faults"):
            world.run(20)
        assert changes[-1] == (10, half[1], FaultState.CLEARED)
        assert world.now == 10
        world.run(12)
        assert not world.faults.has_carrier("h1@p0"), "other faults go on"
        world.run(32)
        assert not world.faults.has_carrier("h1@p0")
        world.run(100)
        assert [record.fault for record in world.faults.list()] == [half[0]]
        with pytest.raises(FaultError, match=f"no fault {late}"):
            world.faults.clear(late)
        world.faults.clear_all()
        world.faults.add(half[1])
        assert world.run(transfer(world, "h40", "h41")).equal


def test_kernel_switches_make_every_fault_in_simulation():
    fabric = small_fabric().with_kernel_switches(["t*"])
    with SimulatedWorld(fabric, seed=1, rate=100 * GIGA) as world:
        world.faults.loss("h1@p*", 1.0, towards="h1", until=20 * US)
        world.faults.blackhole("t1-0@p0")
        world.faults.delay("h3@p1", 5)
        assert world.run(transfer(world)).equal
        assert sum(world.link_stats(f"h1@p{plane}")[1].lost for plane in (0, 1)) > 0


def test_a_program_without_tables_of_faults_refuses_them(world):
    nothing = write_entries._Names({}, {})
    refused = pytest.raises(FaultError, match="has no table arrival_fault")
    with refused, mock.patch.object(write_entries, "_names", return_value=nothing):
        world.faults.loss("*", 0.5)
    assert world.faults.list() == ()
    assert world.run(transfer(world)).counters.lost == 0


def test_counters_of_lost_frames_can_be_read_when_the_world_is_closed():
    with small_world() as world:
        world.faults.loss("h1@p0", 1.0)
        world.faults.corruption("h1@p1", 0.5)
        assert world.run(transfer(world)).equal
        before = [world.link_stats(link.name) for link in world.fabric.links]
    assert [world.link_stats(link.name) for link in world.fabric.links] == before
    assert world.link_stats("h1@p0")[0].lost > 0
    assert world.link_stats("h1@p1")[0].corrupted > 0


def test_a_fault_cannot_begin_in_the_past(world):
    world.run(10 * US)
    with pytest.raises(FaultError, match="already"):
        world.faults.link_down("h1@p0", at=5 * US)


def test_an_unreachable_peer_makes_the_queue_pair_fail_in_the_end(world):
    world.faults.link_down("h3@*")

    async def write():
        with contextlib.closing(Pair(world, length=100)) as pair:
            pair.write()
            return (await pair.cq.next()).status

    assert world.run(write()) is CompletionStatus.RETRY_EXCEEDED


def test_port_down_accepts_a_switch(world):
    world.faults.port_down("t1-0@p1", 2)
    assert not up(world, "t0-1@p1", 3)
    assert world.fabric.link_at(LinkEnd("t1-0@p1", 2)).name == "t0-1:t1-0@p1"


def test_a_listener_may_clear_a_fault_that_is_about_to_begin(world):
    def clear_at_once(now, record):
        if record.state is FaultState.PENDING:
            world.faults.clear(record.id)

    world.faults.watch(clear_at_once)
    world.faults.link_down("h1@p0")
    assert world.faults.list() == ()
    assert world.faults.has_carrier("h1@p0")


def test_a_listener_may_clear_other_faults_while_all_are_cleared(world):
    def clear_next(now, record):
        if record.state is FaultState.CLEARED and (left := world.faults.list()):
            world.faults.clear(left[-1].id)

    for _ in range(3):
        world.faults.link_down("h1@p0")
    world.faults.watch(clear_next)
    world.faults.clear_all()
    assert world.faults.list() == ()
    assert world.faults.has_carrier("h1@p0")


@pytest.mark.parametrize("state", [FaultState.PENDING, FaultState.ACTIVE])
def test_a_fault_whose_listener_raises_begins_and_ends_in_time(world, state):
    def fail(now, record):
        if record.state is state:
            raise ZeroDivisionError

    world.faults.watch(fail)
    with pytest.raises(ZeroDivisionError):
        world.faults.flap("h1@p0", 2 * US, 2 * US, until=9 * US)
    assert [record.state for record in world.faults.list()] == [FaultState.ACTIVE]
    assert not world.faults.has_carrier("h1@p0")
    world.run(20 * US)
    assert world.faults.list() == ()
    assert world.faults.has_carrier("h1@p0")


@pytest.mark.parametrize("times", [{"until": 1 << 62}, {"at": 1 << 62}, {"at": 1 << 70, "until": 1 << 71}])
def test_times_that_no_clock_shows_are_refused(world, times):
    with pytest.raises(FaultError, match="before 2\\*\\*62 ns"):
        world.faults.loss("h1@p0", 0.5, **times)
    assert world.faults.list() == ()


def test_a_flap_may_change_later_than_any_clock_shows(world):
    number = world.faults.flap("h1@p0", 1 << 62, 1 << 62)
    world.run(10 * US)
    assert not world.faults.has_carrier("h1@p0")
    world.faults.clear(number)
    assert world.faults.has_carrier("h1@p0")


@pytest.mark.parametrize("senseless", [None, 5, "loss", Loss])
def test_what_is_no_fault_is_refused(world, senseless):
    with pytest.raises(FaultError, match="which is of no kind"):
        world.faults.add(senseless)


def test_faults_of_a_closed_world_are_listed_and_change_no_more():
    world = small_world()
    number = world.faults.loss("h1@p0", 0.5)
    before = world.faults.list()
    world.close()
    for attempt in (
        lambda: world.faults.link_down("h1@p0"),
        lambda: world.faults.loss("h1@p0", 0.5, at=world.now + 1),
        lambda: world.faults.clear(number),
        lambda: world.faults.clear_all(),
    ):
        with pytest.raises(FaultError, match="The world is closed"):
            attempt()
    assert world.faults.list() == before
