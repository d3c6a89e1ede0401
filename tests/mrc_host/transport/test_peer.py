"""What queue pairs towards one NIC share: planes, port status, probes, reverse paths."""

import itertools
from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_host.nic import Nic
from mrc_host.verbs_types import PathReason, PathState, PortEvent, ProbeEvent, QpAddress, QpAttributes, QpType
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.control import EndpointRequest, EndpointResponse
from tests.mrc_host.nic_world import MS, address, path_events, queue_pair
from tests.mrc_host.transport.far_end import FarEnd, Packet

SETTINGS = TransportSettings()


def requests(packets: list[Packet], op: int) -> list[Packet]:
    return [
        p
        for p in packets
        if p.opcode == opcodes.ENDPOINT_REQUEST and control.parse_endpoint_request(p.body, 12).op == op
    ]


def answer(end: FarEnd, request: Packet) -> None:
    op = control.parse_endpoint_request(request.body, 12)
    response = EndpointResponse(op.op, op.timestamp)
    end.send(control.pack_endpoint_response(request.psn, response), plane=request.port, dscp=46, ecn=0)


def tell_ports(end: FarEnd, request_id: int, mask: int) -> None:
    request = EndpointRequest(control.OP_PORT_STATUS_UPDATE, mask, 0)
    end.send(control.pack_endpoint_request(request_id, request), dscp=46, ecn=0)


def quiet(end: FarEnd) -> None:
    """Answer what connecting started."""
    for packet in requests(end.wait(30 * MS), control.OP_PORT_STATUS_UPDATE)[-1:]:
        answer(end, packet)
    assert not requests(end.wait(5000 * MS), control.OP_PORT_STATUS_UPDATE)


def retire(end: FarEnd, victim: Packet) -> None:
    """Have the NIC judge the path of `victim` bad."""
    end.sack(victim.psn - 1000, of=victim, mark=control.MARK_ALWAYS_SKIP)


# ---- port status -------------------------------------------------------------------------------------------------


def test_port_status_updates_are_repeated_with_backoff_until_answered() -> None:
    end = FarEnd()
    quiet(end)
    start = end.now
    end.nic.port_changed(1, False, end.now)
    sent = requests(end.wait(400 * MS), control.OP_PORT_STATUS_UPDATE)
    assert [(p.time - start) // MS for p in sent] == [0, 10, 30, 70, 150, 310]
    assert {control.parse_endpoint_request(p.body, 12).port_mask for p in sent} == {0b01}
    assert {p.port for p in sent} == {0}
    assert len({p.psn for p in sent}) == 1, "a repetition has the same id"
    answer(end, sent[-1])
    assert not requests(end.wait(10_000 * MS), control.OP_PORT_STATUS_UPDATE)


def test_the_backoff_grows_to_the_configured_limit() -> None:
    end = FarEnd(planes=1, transport=replace(SETTINGS, port_status_retry=MS, port_status_max=3 * MS))
    times = [p.time for p in requests(end.wait(20 * MS), control.OP_PORT_STATUS_UPDATE)]
    assert [(b - a) // MS for a, b in itertools.pairwise(times)] == [2, 3, 3, 3, 3, 3]


def test_a_port_status_update_moves_traffic_and_is_answered() -> None:
    end = FarEnd(planes=4)
    quiet(end)
    end.nic.async_events()
    tell_ports(end, 7, 0b1011)
    end.write(1 << 17)
    out = end.drain()
    (response,) = [p for p in out if p.opcode == opcodes.ENDPOINT_RESPONSE]
    assert response.psn == 7
    assert {p.port for p in out} == {0, 1, 3}
    (event,) = end.nic.async_events()
    assert event == PortEvent(end.now, 2, False, False, end.nic.config.destinations[0].address)


def test_outdated_port_status_updates_are_ignored() -> None:
    end = FarEnd()
    quiet(end)
    end.nic.async_events()
    tell_ports(end, 10, 0b01)
    tell_ports(end, 11, 0b11)
    tell_ports(end, 10, 0b01)
    tell_ports(end, 11, 0b11)
    events = [e for e in end.nic.async_events() if isinstance(e, PortEvent)]
    assert [(e.port, e.up) for e in events] == [(1, False), (1, True)]
    assert len(end.only(opcodes.ENDPOINT_RESPONSE)) == 3
    tell_ports(end, 40_000, 0b10)
    (event,) = end.nic.async_events()
    assert isinstance(event, PortEvent), "a restarted peer counts from anywhere"


def test_a_peer_reporting_no_port_up_is_still_tried() -> None:
    end = FarEnd()
    tell_ports(end, 1, 0)
    end.write(100)
    assert len(end.data()) == 1


def test_losses_just_before_port_down_are_forgiven_at_port_up() -> None:
    end = FarEnd()
    quiet(end)
    end.write(4 * 4096)
    victim = next(p for p in end.data() if p.port == 1)
    retire(end, victim)
    tell_ports(end, 20, 0b01)
    end.wait(300 * MS)
    path_events(end.nic)
    tell_ports(end, 21, 0b11)
    (event,) = path_events(end.nic)
    assert (event.ev, event.new, event.reason) == (victim.ev, PathState.GOOD, PathReason.PORT_UP)


def test_losses_long_before_port_down_are_not_forgiven() -> None:
    end = FarEnd(transport=replace(SETTINGS, flap_window=50 * MS))
    quiet(end)
    end.write(4 * 4096)
    victim = next(p for p in end.data() if p.port == 1)
    retire(end, victim)
    end.wait(51 * MS)
    tell_ports(end, 20, 0b01)
    path_events(end.nic)
    tell_ports(end, 21, 0b11)
    assert not path_events(end.nic)
    assert [p.ev for p in requests(end.drain(), control.OP_EV_PROBE)] == [victim.ev], "it is probed at once"


# ---- background probes -------------------------------------------------------------------------------------------


def test_a_bad_path_recovers_after_enough_consecutive_probes() -> None:
    end = FarEnd(uplinks=8)
    quiet(end)
    end.write(4 * 4096)
    victim = end.data()[0]
    retire(end, victim)
    end.ack(1)
    path_events(end.nic)
    times = []
    for step in range(SETTINGS.probe_successes):
        assert not path_events(end.nic)
        while not (probes := requests(end.wait(MS), control.OP_EV_PROBE)):
            pass
        (probe,) = probes
        assert (probe.ev, probe.port) == (victim.ev, victim.port), step
        times.append(probe.time)
        answer(end, probe)
    (event,) = path_events(end.nic)
    assert (event.ev, event.new, event.reason) == (victim.ev, PathState.GOOD, PathReason.PROBE)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert all(SETTINGS.probe_interval <= gap <= SETTINGS.probe_interval + 2 * MS for gap in gaps)
    assert not requests(end.wait(1000 * MS), control.OP_EV_PROBE)


@pytest.mark.parametrize("spacing", [0, 100_000, 2 * MS])
def test_background_probes_of_a_nic_are_spaced(spacing: int) -> None:
    end = FarEnd(planes=1, uplinks=16, transport=replace(SETTINGS, probe_spacing=spacing))
    quiet(end)
    end.write(8 * 4096)
    for victim in end.data():
        retire(end, victim)
    end.ack(1)
    start = end.now
    probes = requests(end.wait(SETTINGS.probe_interval + 16 * MS), control.OP_EV_PROBE)
    assert len({p.ev for p in probes}) == len(probes) == 8
    assert [p.time - start - SETTINGS.probe_interval for p in probes] == [n * spacing for n in range(8)]


def test_a_lost_probe_resets_the_count_and_backs_off_to_a_limit() -> None:
    end = FarEnd(uplinks=8)
    quiet(end)
    end.write(4096)
    victim = end.data()[0]
    retire(end, victim)
    end.ack(1)
    path_events(end.nic)
    probes = requests(end.wait(25 * MS), control.OP_EV_PROBE)
    answer(end, probes[-1])
    probes = requests(end.wait(25 * MS), control.OP_EV_PROBE)
    answer(end, probes[-1])
    sent = requests(end.wait(2000 * MS), control.OP_EV_PROBE)
    gaps = [(b.time - a.time) // MS for a, b in itertools.pairwise(sent)]
    assert gaps[:4] == [50, 100, 200, 200]
    assert set(gaps[2:]) == {200}
    assert not path_events(end.nic)
    for probe in sent:
        answer(end, probe)
    assert end.nic.nic_counters()["drop_stale_response"] >= len(sent) - 1, "only the newest counts"


def test_queue_pairs_share_the_probes_of_a_bad_path() -> None:
    end = FarEnd(uplinks=8)
    others = []
    for number in range(50):
        qpn = end.nic.create_qp(0, QpType.MRC, end.cq, end.cq, QpAttributes())
        end.nic.connect_qp(qpn, QpAddress(address(1), number, 0), end.now)
        others.append(qpn)
    quiet(end)
    for qpn in [end.qpn, *others]:
        qp = queue_pair(end.nic, qpn)
        qp.requester.paths.retire(3, PathReason.LOSS, None, end.now)
    assert len(path_events(end.nic)) == 51
    for _ in range(SETTINGS.probe_successes):
        (probe,) = requests(end.wait(21 * MS), control.OP_EV_PROBE)
        answer(end, probe)
    assert len(path_events(end.nic)) == 51
    assert [port["paths_assumed_bad"] for port in end.nic.port_counters()] == [0, 0]


@pytest.mark.parametrize("timed", [True, False])
def test_a_probe_response_gives_the_rtt(timed: bool) -> None:
    end = FarEnd()
    if not timed:
        config = end.nic.config
        end.nic = Nic(replace(config, settings=replace(config.settings, service_time=False)), seed=3)
    else:
        quiet(end)
    request = EndpointRequest(control.OP_EV_PROBE, 0, 0x77)
    end.send(control.pack_endpoint_request(9, request), dscp=46, ecn=0)
    end.now += 3 * MS  # our ports were busy
    (packet,) = (p for p in end.wait(0) if p.opcode == opcodes.ENDPOINT_RESPONSE)
    response = control.parse_endpoint_response(packet.body, 12)
    assert response == EndpointResponse(control.OP_EV_PROBE, 0x77, 3 * MS if timed else 0)


@pytest.mark.parametrize(("reported", "rtt"), [(0, 9 * MS), (2 * MS, 7 * MS), (9 * MS, 0), (9 * MS + 1, 9 * MS)])
def test_the_rtt_excludes_the_responders_processing_time(reported: int, rtt: int) -> None:
    end = FarEnd()
    quiet(end)
    peer = end.peer
    end.nic.control.probe(peer.address, peer.paths.evs[0], end.now)
    (probe,) = requests(end.wait(0), control.OP_EV_PROBE)
    end.now += 9 * MS
    end.send(
        control.pack_endpoint_response(probe.psn, EndpointResponse(control.OP_EV_PROBE, 0, reported)), dscp=46, ecn=0
    )
    (event,) = [event for event in end.nic.async_events() if isinstance(event, ProbeEvent)]
    assert event.rtt == rtt
    assert event.service_time_subtracted == (0 < reported <= 9 * MS), "a time longer than the whole is nonsense"


def test_probes_of_many_bad_paths_are_spread_out() -> None:
    end = FarEnd(planes=2, uplinks=64)
    quiet(end)
    for index in range(100):
        end.qp.requester.paths.retire(index, PathReason.LOSS, None, end.now)
    sent = requests(end.wait(1000 * MS), control.OP_EV_PROBE)
    assert len(sent) > 300
    gaps = [b.time - a.time for a, b in itertools.pairwise(sent)]
    assert min(gaps) >= MS // 2


# ---- reverse paths ---------------------------------------------------------------------------------------------------


def receiving(end: FarEnd, rounds: int, gap: int = MS) -> list[Packet]:
    """The NIC receives and sends nothing of its own; everything it answers."""
    out: list[Packet] = []
    start = end.nic.qp_counters(end.qpn).data_received
    for psn in range(start, start + rounds):
        end.segment(psn, msn=psn, flags=headers.ACK_REQUEST)
        out += end.wait(gap)
    return out


def test_a_receiver_probes_reverse_paths_each_interval_and_uses_confirmed_ones() -> None:
    end = FarEnd(planes=2, uplinks=16)
    quiet(end)
    out = receiving(end, 100)
    probes = requests(out, control.OP_EV_PROBE)
    assert 2 <= len(probes) <= 10
    assert len({p.ev for p in out if p.opcode == opcodes.SACK}) > 8, "none is confirmed yet"
    good: set[tuple[int, int]] = set()
    for _ in range(12):
        for probe in requests(receiving(end, 10), control.OP_EV_PROBE):
            answer(end, probe)
            good.add((probe.port, probe.ev))
    assert {port for port, _ev in good} == {0, 1}
    used = {(p.port, p.ev) for p in receiving(end, 30) if p.opcode == opcodes.SACK}
    assert used <= good
    assert len(used) == 4, "two in each plane"


def test_reverse_path_probes_stop_when_nothing_is_received() -> None:
    end = FarEnd()
    quiet(end)
    receiving(end, 20)
    end.wait(30 * MS)
    assert not end.wait(5000 * MS)
    assert end.nic.wakeup() is None


def test_a_plane_without_a_reverse_path_carries_no_acks() -> None:
    end = FarEnd(planes=2, uplinks=4)
    quiet(end)
    for _ in range(40):
        for probe in requests(receiving(end, 10), control.OP_EV_PROBE):
            if probe.port == 0:
                answer(end, probe)
    assert {p.port for p in receiving(end, 20) if p.opcode == opcodes.SACK} == {0}


def answers(end: FarEnd) -> set[int]:
    """Ports on which the NIC answers the peer's probes; after more of them it would try the one where they arrive."""
    for number in range(SETTINGS.probe_successes):
        end.send(control.pack_endpoint_request(number, EndpointRequest(control.OP_EV_PROBE, 0, 0)), dscp=46, ecn=0)
    return {p.port for p in end.drain() if p.opcode == opcodes.ENDPOINT_RESPONSE}


def test_bad_paths_carry_acks_once_probed_if_no_other_plane_is_known() -> None:
    """Else the peer, who probes reverse paths, would never find that this plane works again, and answer on others."""
    end = FarEnd(planes=3, uplinks=2)
    quiet(end)
    end.write(6 * 4096)
    sent = end.data()
    victim, other = next(p for p in sent if p.port == 0), next(p for p in sent if p.port == 1)
    retire(end, victim)
    end.nic.set_path_denied(address(1), victim.ev ^ 1, True, end.now)
    path_events(end.nic)
    assert answers(end) == {1, 2}
    (probe,) = requests(end.wait(30 * MS), control.OP_EV_PROBE)
    answer(end, probe)
    assert answers(end) == {0, 1, 2}
    end.now += MS
    end.sack(other.psn - 1000, of=other)
    assert answers(end) == {1, 2}, "bad paths have no turn while something better is known"
    assert not path_events(end.nic), "one probe is too little for data"


def test_a_failed_reverse_path_is_replaced_within_a_few_probes() -> None:
    end = FarEnd(planes=1, uplinks=8)
    quiet(end)
    for _ in range(12):
        for probe in requests(receiving(end, 10), control.OP_EV_PROBE):
            answer(end, probe)
    end.wait(200 * MS)
    known = {p.ev for p in receiving(end, 50) if p.opcode == opcodes.SACK}
    end.wait(200 * MS)
    end.segment(0, msn=0, flags=headers.ACK_REQUEST | headers.RTX)  # acknowledged long ago: our SACKs did not arrive
    probes = requests(end.wait(100 * MS), control.OP_EV_PROBE)
    assert len({probe.ev for probe in probes}) == 8, "each path is tried"
    assert probes[-1].time - probes[0].time < 2 * end.nic.config.settings.transport.reverse_probe_interval
    end.segment(1, msn=1, flags=headers.ACK_REQUEST | headers.RTX)
    working = next(probe for probe in requests(end.wait(4 * MS), control.OP_EV_PROBE) if probe.ev not in known)
    answer(end, working)
    end.segment(2, msn=2, flags=headers.ACK_REQUEST | headers.RTX)  # sent before the peer can have received it
    assert {p.ev for p in receiving(end, 3, gap=0) if p.opcode == opcodes.SACK} == {working.ev}
    assert len(requests(end.wait(100 * MS), control.OP_EV_PROBE)) <= 1, "one that works is enough"


# ---- bounds ------------------------------------------------------------------------------------------------------


def test_a_flood_of_requests_gets_a_bounded_number_of_responses() -> None:
    end = FarEnd()
    quiet(end)
    for number in range(5000):
        request = EndpointRequest(control.OP_EV_PROBE, 0, number & 0xFFFF)
        end.send(control.pack_endpoint_request(number, request), dscp=46, ecn=0)
    assert len(end.only(opcodes.ENDPOINT_RESPONSE)) == 256


def test_unsolicited_responses_are_counted() -> None:
    end = FarEnd()
    quiet(end)
    before = end.nic.nic_counters()["drop_stale_response"]
    for number in range(10):
        end.send(control.pack_endpoint_response(number * 999, EndpointResponse(1, 0)), dscp=46, ecn=0)
    assert end.nic.nic_counters()["drop_stale_response"] == before + 10
