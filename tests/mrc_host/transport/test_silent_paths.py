"""When nothing is received: how a queue pair finds paths that work, and which ones are suspected."""

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import CompletionStatus, PathReason, PathState, QpAttributes
from mrc_host.wire import control, opcodes
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import MS, US, World, address, connect, path_events
from tests.mrc_host.transport.far_end import FIRST_OUT, FarEnd, Packet, data, flight, warm
from tests.mrc_host.transport.test_spurious_retransmissions import UNITS, spurious

TIMEOUT = 1024 << 8  # ns


def retired(end: FarEnd) -> list[tuple[int, PathReason]]:
    return [(e.ev, e.reason) for e in path_events(end.nic) if e.new is PathState.ASSUMED_BAD]


def test_an_allowed_path_is_tried_at_once_even_after_a_long_silence() -> None:
    end = FarEnd(planes=2, uplinks=4, attributes=QpAttributes(timeout=8))
    warm(end)
    dead = 3
    for path in range(8):
        end.nic.control.set_path_denied(address(1), path >> 2 << 10 | path & 3, path != dead, end.now)
    end.write(4096)
    end.wait(40 * TIMEOUT)
    before = end.now
    assert end.nic.qp_counters(end.qpn).timeouts > 3
    end.nic.control.set_path_denied(address(1), 1 << 10 | 2, False, end.now)
    (probe,) = end.only(opcodes.PROBE)
    assert (probe.port, probe.ev, probe.time) == (1, 1 << 10 | 2, before)
    end.pass_time(20 * US)
    end.sack(3, probe=int.from_bytes(probe.body[16:18], "big"))
    (again,) = end.data()
    assert (again.psn, again.ev, again.time) == (FIRST_OUT + 4, 1 << 10 | 2, before + 20 * US)


def test_a_recovered_path_is_tried_at_once_even_after_a_long_silence() -> None:
    """What probes find of it frees a packet that others have lost, long before the next timeout."""
    world = World(planes=1, uplinks=2)
    a, b = connect(world, attributes=QpAttributes(timeout=8, retry_count=40))
    dead: set[int] = set()

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        return None if nic == 0 and int.from_bytes(frame[94:96], "big") in dead else frame

    world.tap = tap
    dead.add(0)
    a.write(b, 40_000)
    assert world.run(until=lambda: bool(a.poll()))
    assert [p.state for p in a.nic.qp_paths(a.qpn)] == [PathState.ASSUMED_BAD, PathState.GOOD]
    dead.add(1)
    a.write(b, 4096)
    world.run(100 * TIMEOUT)
    dead.remove(0)
    assert world.run(100 * MS, until=lambda: a.nic.qp_paths(a.qpn)[0].state is PathState.GOOD)
    assert world.run(10 * 22 * US, until=lambda: bool(a.poll())), "within a few round trips"


def test_a_peer_that_reports_its_ports_after_a_long_silence_is_probed_at_once() -> None:
    """It could not report that they were down, so the report changes nothing that is known of them."""
    world = World(planes=2, uplinks=1)
    a, b = connect(world, attributes=QpAttributes(timeout=8, retry_count=40))
    out_of_reach = False
    world.tap = lambda nic, port, to, frame, now: None if out_of_reach else frame
    world.run(5 * MS)
    out_of_reach = True
    for port in range(2):
        b.nic.port_changed(port, False, world.now)
    a.write(b, 4096)
    world.run(100 * TIMEOUT)
    out_of_reach = False
    for port in range(2):
        b.nic.port_changed(port, True, world.now)
    assert world.run(10 * 22 * US, until=lambda: bool(a.poll())), "within a few round trips"
    assert a.done[-1].status is CompletionStatus.SUCCESS


@pytest.mark.parametrize("outage", range(4, 16))
def test_the_one_plane_that_works_again_is_found_before_the_retries_are_used_up(outage: int) -> None:
    """Two of three planes lose what we send for good, the third for `outage` timeouts; probes show that it is back."""
    world = World(planes=3, uplinks=1)
    a, b = connect(world, attributes=QpAttributes(timeout=8, retry_count=10))
    began = world.now

    def passes(port: int, data: bool, timeouts: float) -> bool:
        if timeouts < 2:
            return port > 0 and not data
        return port == 1 and timeouts >= outage

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        data = frame[102] <= opcodes.WRITE_ONLY_IMM
        return None if nic == 0 and not passes(port, data, (now - began) / TIMEOUT) else frame

    world.tap = tap
    a.write(b, 1)
    assert world.run(until=lambda: bool(a.poll()))
    assert a.done[-1].status is CompletionStatus.SUCCESS


@pytest.mark.parametrize("pause", [0, 100 * US, 2 * MS, 20 * MS])
def test_a_plane_with_bad_paths_alone_is_tried_when_the_others_bring_no_answer(pause: int) -> None:
    """Each end sends its answers on the plane that was good until then, so probes restore no path for a long time."""
    world = World(planes=2, uplinks=1)
    a, b = connect(world, attributes=QpAttributes(timeout=8, retry_count=10))
    world.faults.dead_planes = {1}
    a.write(b, 400_000)
    assert world.run(until=lambda: bool(a.poll()))
    assert [p.state for p in a.nic.qp_paths(a.qpn)] == [PathState.GOOD, PathState.ASSUMED_BAD]
    world.run(MS)
    world.faults.dead_planes = {0}
    world.run(pause)
    a.write(b, 40_000)
    assert world.run(until=lambda: bool(a.poll()))
    assert a.done[-1].status is CompletionStatus.SUCCESS


def test_a_plane_whose_port_the_peer_reported_as_down_is_tried_when_the_others_bring_no_answer() -> None:
    """It is up again, but the report of that was lost."""
    end = FarEnd(planes=2, uplinks=2, attributes=QpAttributes(timeout=8))
    warm(end)
    request = control.EndpointRequest(control.OP_PORT_STATUS_UPDATE, 0b01, 0)
    end.send(control.pack_endpoint_request(7, request), dscp=46, ecn=0)
    end.write(4096)
    ports = [p.port for p in end.drain() + end.wait(3 * TIMEOUT // 2) if p.opcode < 0xD0 or p.opcode == opcodes.PROBE]
    assert set(ports) == {0}
    later = end.wait(2 * TIMEOUT)
    assert {p.port for p in later if p.opcode == opcodes.PROBE} == {0, 1}
    assert 1 in {p.port for p in data(later)}


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("active", [1, 3])
def test_silent_active_paths_are_replaced_by_backups(planes: int, active: int) -> None:
    attributes = QpAttributes(timeout=8, retry_count=40, active_paths=active * planes)
    end = FarEnd(planes=planes, uplinks=32, attributes=attributes, transport=TransportSettings(linear_retries=40))
    end.write(4096)
    first = {p.ev for p in end.nic.qp_paths(end.qpn) if p.active}
    sent = data(end.drain() + end.wait((4 * active * planes + 2) * TIMEOUT))
    paths = [p.ev for p in sent]
    assert len(set(paths)) > active * planes, "more than are active have been tried"
    assert not retired(end), "silence does not tell a dead path from a dead reverse path"
    now = {p.ev for p in end.nic.qp_paths(end.qpn) if p.active}
    assert now != first
    for plane in range(planes):
        states = [p.state for p in end.nic.qp_paths(end.qpn) if p.plane == plane and p.active]
        assert len(states) == active, "planes stay equal"


@pytest.mark.parametrize("retries", [0, 8, 9])
def test_a_path_that_loses_the_first_packet_is_left_although_only_probes_were_ever_answered(retries: int) -> None:
    """All paths were denied for so long that probes show each loss before its timeout, which is long by then."""
    world = World(planes=1, uplinks=8)
    attributes = QpAttributes(timeout=7, retry_count=10, congestion_window=4096, active_paths=1)
    a, b = connect(world, attributes=attributes)
    lossy: list[int] = []

    def deny(denied: bool) -> None:
        for path in range(8):
            a.nic.control.set_path_denied(address(1), path, denied, world.now)

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic or frame[102] > opcodes.WRITE_ONLY_IMM:
            return frame
        path = int.from_bytes(frame[94:96], "big")
        lossy[:] = lossy or [path]
        return None if path in lossy else frame

    world.tap = tap
    deny(True)
    a.write(b, 20_000)
    world.run(until=lambda: a.nic.qp_counters(a.qpn).timeouts >= retries)
    deny(False)
    world.run(until=lambda: bool(a.poll()))
    assert a.done[-1].status is CompletionStatus.SUCCESS
    assert [p.ev for p in a.nic.qp_paths(a.qpn) if p.state is PathState.ASSUMED_BAD] == lossy


def test_what_was_sent_before_the_first_answered_probe_keeps_its_path() -> None:
    """It was lost because nobody was there yet; the next loss on the path retires it."""
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(timeout=8, congestion_window=4096))

    def lose() -> Packet:
        """The NIC sends data, which is lost, and later a probe, which is answered."""
        out = end.drain()
        while out[-1].opcode != opcodes.PROBE:
            out += end.wait(10 * US)
        end.pass_time(20 * US)
        end.sack(-1, probe=int.from_bytes(out[-1].body[16:18], "big"))
        (packet,) = data(out)
        return packet

    end.write(4096)
    first = lose()
    assert not retired(end)
    again = lose()
    assert (first.psn, first.rtx, again.psn, again.rtx) == (FIRST_OUT, False, FIRST_OUT, True)
    assert retired(end) == [(again.ev, PathReason.LOSS)]


@pytest.mark.parametrize("seed", range(40))
def test_a_packet_lost_twice_takes_a_path_on_which_something_arrived(seed: int) -> None:
    """A switch of each plane fails: planes where one path has lost nothing yet may still have it next in turn."""
    world = World(planes=8, uplinks=4, seed=seed)
    a, b = connect(world, attributes=QpAttributes(timeout=12))
    a.write(b, 100_000)
    assert world.run(until=lambda: bool(a.poll()))
    times: dict[int, int] = {}

    def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes | None:
        if nic == 0 and frame[SRV6_PREFIX] <= opcodes.WRITE_ONLY_IMM:
            psn = int.from_bytes(frame[SRV6_PREFIX + 9 : SRV6_PREFIX + 12], "big")
            times[psn] = times.get(psn, 0) + 1
        return None if nic == 0 and frame[95] & 3 == 0 else frame

    world.tap = tap
    a.write(b, 100_000)
    assert world.run(until=lambda: bool(a.poll()))
    assert max(times.values()) <= 3


def test_the_first_timeout_of_a_packet_suspects_no_path() -> None:
    end = FarEnd(planes=1, uplinks=16, attributes=QpAttributes(timeout=8, active_paths=1))
    end.write(4096)
    sent = data(end.drain() + end.wait(3 * TIMEOUT // 2))
    assert len(sent) == 2
    assert sent[0].ev == sent[1].ev
    assert not retired(end)


def test_without_a_backup_a_silent_path_stays_in_use() -> None:
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(timeout=8, retry_count=20))
    end.write(4096)
    sent = data(end.drain() + end.wait(12 * TIMEOUT))
    assert len(sent) >= 10
    assert len({p.ev for p in sent}) == 4
    assert not retired(end)


@pytest.mark.parametrize("answered", [0, 1])
def test_a_path_that_a_backup_replaced_in_silence_was_not_retired_for_it(answered: int) -> None:
    end = FarEnd(planes=1, uplinks=16, attributes=QpAttributes(timeout=8, active_paths=1, retry_count=20))
    end.write(4096)
    sent = data(end.drain() + end.wait(5 * TIMEOUT))
    on_it = [number for number, packet in enumerate(sent) if packet.ev == sent[0].ev]
    assert on_it[:2] == [0, 1], "it was replaced for the second timeout"
    assert sent[2].ev != sent[0].ev
    end.pass_time(20 * US)
    end.sack(0, of=sent[answered])
    assert end.nic.qp_counters(end.qpn).spurious_retransmitted == len(sent) - 1 - answered
    assert not path_events(end.nic), "only the answers were late"
    assert sent[0].psn == FIRST_OUT


# ---- the path, or the reverse path? ----------------------------------------------------------------------------------


def timed_out(count: int = 8) -> tuple[FarEnd, list[Packet], list[Packet]]:
    """After four packets that the peer had, some of which were not acknowledged until four were sent again."""
    end = FarEnd(planes=1, uplinks=16, attributes=QpAttributes(timeout=8, congestion_window=1 << 20))
    warm(end)
    end.sack(3, units=4 * UNITS)
    packets = flight(end, count)
    again = [p for p in data(end.wait(3 * TIMEOUT // 2)) if p.rtx]
    assert again[0].psn == packets[0].psn
    end.pass_time(30 * US)
    return end, packets, again


def test_an_advancing_cumulative_psn_confirms_no_suspected_path() -> None:
    """The peer had all but the first; its answers were lost, and only the SACK of the first sent again came through.

    All of them were sent again meanwhile, so each might have arrived by either transmission.
    """
    end, packets, again = timed_out(4)
    end.sack(7, of=again[0], units=8 * UNITS)
    assert len(again) == 4
    assert retired(end) == [(packets[0].ev, PathReason.TIMEOUT)], "no SACK has shown the others missing"
    for n, packet in enumerate(again[1:], 1):
        end.sack(7, of=packet, units=(8 + n) * UNITS)
    assert not retired(end)
    assert spurious(end) == 3


def test_a_later_sack_showing_the_packet_missing_confirms_its_path() -> None:
    """Of eight the first and the fifth were lost; what the second brings when it comes again shows it."""
    end, packets, again = timed_out()
    end.sack(3, 0b1110_1110, of=again[1], units=(4 + 6 + 1) * UNITS)
    assert retired(end) == [(p.ev, PathReason.TIMEOUT) for p in (packets[0], packets[4])]


def test_packets_sent_shortly_before_the_acknowledged_one_confirm_no_path() -> None:
    """A SACK made before the retransmission can say nothing of packets that may have been on their way then."""
    end, packets, _again = timed_out()
    end.sack(3, 0b1110_0000, of=packets[7], units=(4 + 3) * UNITS)
    assert not retired(end)


def test_when_only_retransmissions_arrive_their_first_paths_are_confirmed() -> None:
    end, packets, again = timed_out()
    while len(again) < 8:
        end.sack(3 + len(again), of=again[-1], units=(4 + len(again)) * UNITS)
        again += [p for p in data(end.drain() + end.wait(50 * US)) if p.rtx]
        end.pass_time(30 * US)
    end.sack(11, of=again[-1], units=(4 + 8) * UNITS)
    retired_paths = [ev for ev, reason in retired(end) if reason is PathReason.TIMEOUT]
    assert retired_paths
    assert set(retired_paths) <= {p.ev for p in packets}
    assert not spurious(end)


def test_an_overtaken_sack_confirms_no_path_for_a_counted_duplicate() -> None:
    end, _packets, again = timed_out()
    end.sack(11, of=again[1], units=(4 + 8 + 2) * UNITS)
    end.sack(11, of=again[0], units=(4 + 8 + 1) * UNITS)
    end.write(4096)
    (packet,) = data(end.drain())
    end.pass_time(30 * US)
    end.sack(12, of=packet, units=(4 + 8 + 2 + 1) * UNITS)
    assert not retired(end)


def test_a_timeout_confirms_the_path_once_the_retransmission_arrives_on_another() -> None:
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(timeout=8))
    warm(end)
    end.write(4096)
    (packet,) = end.data()
    again = [p for p in end.wait(300 * US) if p.opcode < 0xD0]
    assert [p.rtx for p in again] == [True]
    assert not path_events(end.nic), "the peer might be gone altogether"
    end.pass_time(30 * US)
    end.sack(4, of=again[0], units=5 * UNITS)
    (event,) = path_events(end.nic)
    assert (event.ev, event.reason, event.first_loss_time) == (packet.ev, PathReason.TIMEOUT, packet.time)


@pytest.mark.parametrize(("reason", "kept"), [(control.NACK_TRIMMED, True), (control.NACK_NO_BITMAP, False)])
def test_a_late_nack_of_a_trim_shows_that_the_path_was_not_at_fault(reason: int, kept: bool) -> None:
    """The answers to a trimmed packet took dead reverse paths, until after its timeout."""
    end = FarEnd(planes=1, uplinks=4, attributes=QpAttributes(timeout=8))
    warm(end)
    end.write(4096)
    (packet,) = end.data()
    again = [p for p in end.wait(300 * US) if p.opcode < 0xD0]
    end.nack(packet, reason)
    end.pass_time(30 * US)
    end.sack(4, of=again[0], units=5 * UNITS)
    assert retired(end) == ([] if kept else [(packet.ev, PathReason.TIMEOUT)])
