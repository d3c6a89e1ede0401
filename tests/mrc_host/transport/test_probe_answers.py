"""Answers to probes of bad paths: they look for ways that work, also when nothing else is answered."""

import pytest

from mrc_host.verbs_types import PathState, QpAttributes
from mrc_host.wire import control, opcodes
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import MS, Faults, World, connect, path_events
from tests.mrc_host.transport.far_end import FarEnd

RESTORED = 10_000 * MS  # three in a row must be answered on one of two paths by chance, at most probe_timeout * 4 apart


def _states(world: World) -> list[tuple[int, PathState]]:
    return [(event.ev, event.new) for event in path_events(world.nics[0])]


@pytest.mark.parametrize("seed", range(10))
def test_a_working_path_recovers_although_its_reverse_path_failed(seed: int) -> None:
    world = World(planes=1, uplinks=2, seed=seed, faults=Faults(seed))
    a, b = connect(world)
    world.faults.dead_paths = {(0, 0)}
    while (0, PathState.ASSUMED_BAD) not in _states(world):
        a.write(b, 64 << 10)
        assert world.run(1_000 * MS, until=lambda: bool(a.poll()))
    world.run(500 * MS)  # idle: the peer answers on path 1 since
    world.faults.dead_paths = {(0, 1)}
    _states(world)
    world.run(RESTORED)
    assert (0, PathState.GOOD) in _states(world)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("both", [False, True])
def test_idle_nics_restore_a_plane_that_works_again_when_the_other_has_failed(seed: int, both: bool) -> None:
    """Each probes on the plane that works, and knows only the other for its answers."""
    world = World(planes=2, uplinks=1, seed=seed)
    a, b = connect(world)
    world.faults.dead_planes = {1}
    for _ in range(20):
        a.write(b, 64 << 10)
        if both:
            b.write(a, 64 << 10)
        assert world.run(1_000 * MS, until=lambda: bool(a.poll()))
    world.run(1_000 * MS)
    assert (1024, PathState.ASSUMED_BAD) in _states(world)
    world.faults.dead_planes = {0}
    timeout = world.nics[0].config.settings.transport.probe_timeout
    world.run(4 * timeout * (3 + 3 + 1))  # after three answers as usual, three on the plane of the request
    assert (1024, PathState.GOOD) in _states(world)


def test_idle_nics_with_good_paths_send_no_probes() -> None:
    world = World(planes=2, uplinks=4)
    a, b = connect(world)
    a.write(b, 64 << 10)
    assert world.run(1_000 * MS, until=lambda: bool(a.poll()))
    world.run(1_000 * MS)
    before = world.frames
    world.run(10_000 * MS)
    assert world.frames == before


@pytest.mark.parametrize("both", [False, True])
def test_idle_nics_with_a_dead_path_probe_at_a_bounded_rate(both: bool) -> None:
    world = World(planes=1, uplinks=4, faults=Faults(dead_paths={(0, 2)}))
    a, b = connect(world)
    for _ in range(20):
        a.write(b, 64 << 10)
        if both:
            b.write(a, 64 << 10)
        assert world.run(1_000 * MS, until=lambda: bool(a.poll()))
    world.run(2_000 * MS)
    before = world.frames
    world.run(10_000 * MS)
    settings = world.nics[0].config.settings.transport
    probes = 10_000 * MS / settings.probe_timeout + 2 * 10_000 * MS / settings.reverse_probe_interval
    assert 0 < world.frames - before <= 2 * probes * (1 + both)


def _answers(end: FarEnd) -> list[tuple[int, int]]:
    return [(p.opcode, p.port) for p in end.drain() if p.opcode in (opcodes.SACK, opcodes.TRANSPORT_ACK)]


def test_a_repeated_probe_is_answered_on_its_plane_and_once_more_anywhere() -> None:
    """Its plane may carry what arrives and lose what is answered. With each SACK goes the transport ACK."""
    end = FarEnd(planes=4, uplinks=2)
    end.segment(0)
    end.drain()
    kinds = [opcodes.SACK, opcodes.TRANSPORT_ACK]
    end.probe(1, plane=2)
    assert _answers(end) == [(kind, 2) for kind in kinds]
    elsewhere = set()
    for plane in [0, 1, 2, 3] * 4:
        end.probe(1, plane=plane)
        answers = _answers(end)
        assert answers[:2] == [(kind, plane) for kind in kinds]
        assert [kind for kind, _ in answers[2:]] == kinds
        elsewhere |= {port for _, port in answers[2:]}
    assert elsewhere == {0, 1, 2, 3}
    counts = []
    for _ in range(16):
        end.probe(1, plane=3)
        counts.append(len(_answers(end)))
    assert sorted(counts) == [2] * 14 + [4] * 2, "seldom, if that goes on"
    end.segment(1, msn=1)
    end.drain()
    end.probe(1, plane=3)
    assert _answers(end) == [(kind, 3) for kind in kinds], "something has arrived since"


def test_probes_that_arrive_at_once_are_each_answered_with_sack_and_transport_ack() -> None:
    """Answers may get through on one plane alone, and there both have to."""
    end = FarEnd(planes=4, uplinks=2)
    end.segment(0)
    end.drain()
    answers = []
    for plane in range(4):
        end.probe(plane + 1, plane=plane)
        opcode = 0
        while opcode != opcodes.SACK:  # behind probes of reverse paths; the other ports are busy with theirs
            frame = end.nic.transmit(plane, end.now)
            assert frame is not None
            opcode = frame[SRV6_PREFIX]
        answers.append((opcode, plane))
    answers += _answers(end)
    assert set(answers) == {(kind, plane) for kind in (opcodes.SACK, opcodes.TRANSPORT_ACK) for plane in range(4)}
    assert len(answers) == 2 * 4 + 2, "and those of the last one once more"


def test_the_first_probe_is_answered_on_its_plane_though_nothing_has_arrived() -> None:
    end = FarEnd(planes=2, uplinks=2, attributes=QpAttributes(receive_psn=0, send_psn=0))
    end.probe(1, plane=1)
    (sack,) = end.only(opcodes.SACK)
    assert sack.port == 1


def test_an_answer_leaves_elsewhere_if_our_port_goes_down_before_it_left() -> None:
    """The peer had reported its port there as down, and then probed there: so the usable planes stay the same."""
    end = FarEnd(planes=2, uplinks=2)
    end.segment(0)
    request = control.EndpointRequest(control.OP_PORT_STATUS_UPDATE, 0b01, 0)
    end.send(control.pack_endpoint_request(7, request), dscp=46, ecn=0)
    end.drain()
    end.probe(1, plane=1)
    end.nic.port_changed(1, False, end.now)
    (sack,) = (p for p in end.drain(ports=(0,)) if p.opcode == opcodes.SACK)
    assert sack.port == 0
