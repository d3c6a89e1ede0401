"""What a NIC reports of its limits, each of which holds, and of a queue pair."""

from dataclasses import replace

import pytest

from mrc_host.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from mrc_host.verbs_types import QpAddress, QpAttributes, QpState, QpType, Sge, WorkRequest, WrOpcode
from tests.mrc_host.nic_world import World, connect

KINDS = [QpType.MRC, QpType.RC]


def test_reported_limits_are_enforced() -> None:
    world = World()
    a, b = connect(world, size=100)
    nic = a.nic
    limits = nic.query_device()
    assert limits.ports == world.planes
    nic.create_cq(limits.max_cqe)
    with pytest.raises(InvalidArgumentError):
        nic.create_cq(limits.max_cqe + 1)
    for name in ("path_mtu", "max_mpr", "max_wimm"):
        attribute, most = name.replace("max_mpr", "mpr"), getattr(limits, name)
        nic.create_qp(0, QpType.MRC, a.cq, a.cq, replace(QpAttributes(), **{attribute: most}))
        with pytest.raises(InvalidArgumentError, match=attribute):
            nic.create_qp(0, QpType.MRC, a.cq, a.cq, replace(QpAttributes(), **{attribute: most + 4}))
    nic.post_recv(a.qpn, (0,) * limits.max_recv_wr, world.now)
    with pytest.raises(ResourceExhaustedError):
        nic.post_recv(a.qpn, (0,), world.now)
    good = WorkRequest(1, WrOpcode.WRITE, 0, 0, 0, b.region.address, b.region.rkey, signaled=False)
    pieces = (Sge(a.region.address, a.region.lkey, 0),) * (limits.max_sge + 1)
    for change in (
        {"sges": pieces},
        {"inline": bytes(limits.max_inline + 1), "length": limits.max_inline + 1},
        {"length": limits.max_msg + 1},
    ):
        with pytest.raises(InvalidArgumentError):
            nic.post_send(a.qpn, replace(good, **change), world.now)  # type: ignore[arg-type]
    nic.post_send(a.qpn, replace(good, sges=pieces[1:]), world.now)
    nic.post_send(a.qpn, replace(good, inline=bytes(limits.max_inline), length=limits.max_inline), world.now)
    for _ in range(limits.max_send_wr - 2):
        nic.post_send(a.qpn, good, world.now)
    with pytest.raises(ResourceExhaustedError):
        nic.post_send(a.qpn, good, world.now)


@pytest.mark.parametrize("kind", KINDS)
def test_query_qp_returns_given_and_chosen_attributes(kind: QpType) -> None:
    world = World()
    a, b = connect(world, size=100, kind=kind, attributes=QpAttributes(retry_count=7, timeout=11))
    a.nic.post_recv(a.qpn, (1, 2, 3), world.now)
    here, there = a.nic.query_qp(a.qpn), b.nic.query_qp(b.qpn)
    assert (here.type, here.state, here.pd, here.send_cq, here.recv_cq) == (kind, QpState.RTS, 0, a.cq, a.cq)
    assert (here.attributes.retry_count, here.attributes.timeout, here.receives) == (7, 11, 3)
    assert here.attributes.send_psn == a.nic.qp_address(a.qpn).psn == there.attributes.receive_psn
    assert here.remote == QpAddress(b.nic.config.address, b.qpn, there.attributes.send_psn)
    a.nic.modify_qp(a.qpn, QpState.RESET, world.now)
    here = a.nic.query_qp(a.qpn)
    assert (here.state, here.remote, here.attributes.receive_psn, here.receives) == (QpState.RESET, None, None, 0)
    with pytest.raises(NotFoundError):
        a.nic.query_qp(a.qpn ^ 1)


def test_application_chosen_first_psns_are_used_and_reported() -> None:
    """Also 0 both ways, as a published plugin for MRC has it."""
    world = World()
    a, b = connect(world, size=100, attributes=QpAttributes(send_psn=0, receive_psn=0))
    assert a.nic.query_qp(a.qpn).attributes.send_psn == 0
    a.write(b, 100)
    assert world.run(10**9, until=a.idle)
    assert b.buffer == a.buffer
