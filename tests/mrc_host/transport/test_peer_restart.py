"""Port status of a peer that has started again: its numbers mean nothing to those of before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.nic import Nic
from mrc_host.transport.port_status import PeerPorts
from mrc_host.verbs_types import QpAttributes, QpType
from tests.mrc_host.nic_world import MS, World, address, connect, make_config

LIFETIME = 1000 * MS


@pytest.mark.parametrize("behind", [0, 1, 8, 15, 16, 5000])
def test_port_status_of_a_restarted_peer_is_accepted_within_two_packet_lifetimes(behind: int) -> None:
    world = World(2, 2, 4)
    a, b = connect(world)
    world.run(5 * MS)
    world.set_port(1, 1, False)
    world.run(20 * MS)
    assert not a.nic.control.port_states(address(1))[1].up
    # The number is random in a new NIC: it is set to every distance from the last one, which no verb can do.
    last = b.nic._peers.get(address(0))._status._id
    again = world.nics[1] = Nic(make_config(1, 2, 2, 4), seed=77)
    world.up[1] = [True, True]
    again._peers.get(address(0))._status._id = (last - behind - 1) & 0xFFFF
    cq = again.create_cq(64)
    qpn = again.create_qp(0, QpType.MRC, cq, cq, QpAttributes())
    again.connect_qp(qpn, a.nic.qp_address(a.qpn), world.now)
    assert world.run(2 * LIFETIME, until=lambda: a.nic.control.port_states(address(1))[1].up)


@given(st.integers(0, 0xFFFF), st.integers(1, 15))
def test_an_overtaken_update_is_neither_applied_nor_answered(number: int, behind: int) -> None:
    ports = PeerPorts(LIFETIME)
    assert ports.update(number, 0b01, 5)
    assert not ports.update((number - behind) & 0xFFFF, 0b11, 6)
    assert ports.up == 0b01
    assert ports.update(number, 0b01, 7)
    assert ports.update((number - behind) & 0xFFFF, 0b11, 5 + LIFETIME)
    assert ports.up == 0b11
