"""No plane is asked again and again while others are not asked at all."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.transport.rotation import next_plane
from mrc_host.verbs_types import CompletionStatus, QpAttributes, QpState
from mrc_host.wire import opcodes
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import MS, US, World, connect


def planes(world: World, *kinds: int) -> list[int]:
    """On which plane each packet of these kinds has left the first NIC since `record` was set."""
    return [port for _, nic, port, frame in world.sent if nic == 0 and frame[SRV6_PREFIX] in kinds]


@given(st.integers(0, 255), st.integers(0, 7))
def test_the_rotation_visits_every_plane_of_a_mask(mask: int, start: int) -> None:
    last = 1 << start
    turns = []
    for _ in range(mask.bit_count()):
        last = next_plane(mask, last)
        turns.append(last)
    assert sum(turns) == mask, "each once"
    assert next_plane(mask, last) == (turns[0] if turns else 0), "and then the first again"


@pytest.mark.parametrize("dead", [{0}, {1}, {0, 1, 2}, {1, 2, 3}, {0, 2, 3}])
def test_a_missing_transport_ack_is_probed_for_on_every_plane(dead: set[int]) -> None:
    """All packets are SACKed, the transport ACK waits for room in the peer's CQ, and planes die silently meanwhile."""
    world = World(planes=4)
    a, b = connect(world, size=1 << 16, attributes=QpAttributes(retry_count=7), far_capacity=1)
    for imm in range(2):
        a.write(b, 512, imm=imm)
    assert world.run(20 * MS, until=lambda: bool(a.poll()))
    world.faults.dead_planes = dead
    world.record = True
    world.run(400 * MS)
    assert a.nic.qp_state(a.qpn) is QpState.RTS
    assert set(planes(world, opcodes.PROBE)) == {0, 1, 2, 3}
    assert b.poll()
    assert world.run(400 * MS, until=lambda: bool(a.poll()))
    assert [done.status for done in a.done] == [CompletionStatus.SUCCESS] * 2


def test_probes_for_a_transport_ack_rotate_over_planes() -> None:
    world = World(planes=3)
    a, b = connect(world, size=1 << 16, far_capacity=1)
    for imm in range(2):
        a.write(b, 512, imm=imm)
    world.run(20 * MS, until=lambda: bool(a.poll()))
    world.record = True
    world.run(20 * MS, until=lambda: len(planes(world, opcodes.PROBE)) > 6)
    seen = planes(world, opcodes.PROBE)
    for port, after in zip(seen, islice(seen, 1, None), strict=False):
        assert after == (port + 1) % 3
    assert a.nic.qp_counters(a.qpn).timeouts == 0
    world.run(10 * US)


@pytest.mark.parametrize("dead", [{0, 1}, {0, 2}, {2, 3}, {0, 1, 2}, {0, 1, 3}, {1, 2, 3}])
def test_a_packet_is_retransmitted_on_every_plane(dead: set[int]) -> None:
    """A window of one packet, and planes that are silent from the beginning: whichever works has its turn in time."""
    world = World(planes=4)
    a, b = connect(world, size=1 << 16, attributes=QpAttributes(retry_count=32, congestion_window=4096))
    world.faults.dead_planes = dead
    world.record = True
    a.write(b, 4096)
    assert world.run(20_000 * MS, until=lambda: bool(a.poll()))
    assert [done.status for done in a.done] == [CompletionStatus.SUCCESS]
    tried = planes(world, opcodes.WRITE_ONLY)
    for at in range(len(tried) - 5):
        assert set(tried[at : at + 6]) == {0, 1, 2, 3}, tried


@pytest.mark.parametrize("dead", [{0, 1}, {0, 2}, {1, 2}, {2, 3}])
def test_new_data_does_not_overtake_a_retransmission_waiting_for_its_plane(dead: set[int]) -> None:
    """A window of one packet, more to send, planes that fall silent: a lost packet must not wait behind new ones."""
    world = World(planes=4)
    a, b = connect(world, size=1 << 17, attributes=QpAttributes(retry_count=8, congestion_window=4096))
    a.write(b, 4096)
    world.run(20 * MS, until=lambda: bool(a.poll()))
    world.faults.dead_planes = dead
    world.record = True
    a.write(b, 1 << 16)
    assert world.run(20_000 * MS, until=lambda: bool(a.poll()))
    assert a.done[-1].status is CompletionStatus.SUCCESS
    highest, ahead = 0, []
    for _, nic, _, frame in world.sent:
        if nic == 0 and opcodes.WRITE_FIRST <= frame[SRV6_PREFIX] <= opcodes.WRITE_ONLY:
            psn = int.from_bytes(frame[SRV6_PREFIX + 9 : SRV6_PREFIX + 12], "big")
            ahead.append(highest - psn)
            highest = max(highest, psn)
    assert max(ahead) < 2, "what is repeated is the newest packet: none was sent while it was lost"


@pytest.mark.parametrize("alive", range(8))
def test_retransmissions_prefer_the_plane_of_an_answered_probe(alive: int) -> None:
    """Seven of eight planes are silent, but answers come on the eighth: swarm seed 18863."""
    world = World(planes=8)
    a, b = connect(world, size=1 << 16, attributes=QpAttributes(retry_count=32, congestion_window=4096))
    world.faults.dead_planes = set(range(8)) - {alive}
    world.record = True
    a.write(b, 4096)
    assert world.run(20_000 * MS, until=lambda: bool(a.poll()))
    assert [done.status for done in a.done] == [CompletionStatus.SUCCESS]
    tried = planes(world, opcodes.WRITE_ONLY)
    assert len(tried) <= 3, "once anywhere, once before any answer, and then where there is one"
