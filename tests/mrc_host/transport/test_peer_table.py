"""Peers are made when first used, and which is used first changes nothing."""

from __future__ import annotations

from mrc_host.nic import Nic
from mrc_host.transport.peer import Peer
from tests.mrc_host.nic_world import MS, World, address, connect, make_config, peers

NICS = 4


def new_nic() -> Nic:
    return Nic(make_config(0, NICS, 2, 4), seed=5)


def test_only_those_that_are_used_are_made():
    world = World(NICS, 2, 4)
    assert peers(world.nics[0]) == ()
    a, b = connect(world, 0, 2)
    a.write(b, 5000)
    assert world.run(10 * MS, until=a.idle)
    assert [peer.address for peer in peers(a.nic)] == [address(2)]
    assert [peer.address for peer in peers(b.nic)] == [address(0)]
    assert peers(world.nics[1]) == ()


def test_all_are_listed_with_their_paths_whether_made_or_not():
    nic = new_nic()
    before = nic.control.destinations()
    assert [info.address for info in before] == [address(number) for number in (1, 2, 3)]
    for info in before:
        nic.control.port_states(info.address)
    assert len(peers(nic)) == 3
    assert nic.control.destinations() == before


def test_what_a_peer_starts_with_does_not_depend_on_the_order_of_use():
    def numbers(order: tuple[int, ...]) -> dict[bytes, tuple[int, int]]:
        nic = new_nic()
        made: list[Peer | None] = [nic._peers.get(address(number)) for number in order]
        return {peer.address: (peer._status._id, peer.probes._probes._next_id) for peer in made if peer is not None}

    assert numbers((1, 2, 3)) == numbers((3, 1, 2))
    assert len(set(numbers((1, 2, 3)).values())) == 3


def test_a_port_that_went_down_before_is_known_to_a_peer_made_later():
    nic = new_nic()
    nic.port_changed(1, False, 0)
    late = nic._peers.get(address(2))
    assert late is not None
    assert late.planes.usable == 1
    assert nic._peers.get(address(9)) is None


def test_asking_ports_at_once_is_asking_each_in_turn():
    frames = []
    for at_once in (True, False):
        world = World(2, 2, 4)
        a, b = connect(world)
        for length in (1, 9000, 70_000):
            a.write(b, length)
        nic, got = a.nic, []
        for now in range(0, 200_000, 1000):
            mask, port = 3, -1
            while mask and at_once:
                answer = nic.transmit_first(mask, now)
                if answer is None:
                    break
                port = answer[0]
                got.append(answer)
                mask &= -(2 << port)
            if not at_once:
                got += [(port, frame) for port in (0, 1) if (frame := nic.transmit(port, now)) is not None]
            due = nic.wakeup()
            if due is not None and due <= now:
                nic.tick(now)
        frames.append(got)
    assert frames[0] == frames[1]
    assert len(frames[0]) > 20


def test_news_are_completions_and_events():
    world = World(2, 2, 4)
    a, b = connect(world)
    seen = []
    take = a.nic.cq_ready
    world.run(5 * MS)

    def settled() -> bool:
        events, ready = a.nic.async_events(), take()
        return not events and not ready and not a.nic.has_news()

    assert settled() or settled()
    a.nic.port_changed(0, False, world.now)
    assert a.nic.has_news()
    assert a.nic.async_events()
    assert not a.nic.has_news()
    a.write(b, 100)
    for _ in range(1000):
        world.run(MS // 10)
        if a.nic.has_news():
            seen += take()
            break
    assert seen == [a.cq]
