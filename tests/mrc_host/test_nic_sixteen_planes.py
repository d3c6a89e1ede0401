"""NICs with more planes than fabrics have: masks of planes and lanes grow, also where numbers are machine integers."""

import random
from dataclasses import replace

import pytest

from mrc_host.back_to_back import BLOCK, nic_config
from mrc_host.config import NicConfig
from mrc_host.errors import InvalidArgumentError
from mrc_host.nic import Nic
from mrc_host.verbs_types import Access, QpAttributes, QpType, WorkRequest, WrOpcode
from mrc_host.wire.usid import UsidTemplate

pytestmark = pytest.mark.either_transport

SIZE, MESSAGES = 1 << 18, 24
STEP_NS = 5_000


def config(number: int, planes: int) -> NicConfig:
    """uSIDs have room for four bits of plane."""
    given = nic_config(number, planes=planes)
    ports = tuple(replace(port, usid=usid(number, port.plane)) for port in given.ports)
    template = UsidTemplate(BLOCK << 96 | usid(1 - number, 0) << 80, (90,), None, ev_plane_bits=4)
    return replace(given, ports=ports, destinations=(replace(given.destinations[0], template=template),))


def usid(number: int, plane: int) -> int:
    return 0xC000 | plane << 10 | number + 1


@pytest.mark.parametrize("planes", [8, 15, 16])
def test_losses_are_mended_on_the_last_plane_as_on_the_first(planes: int) -> None:
    chance, now = random.Random(planes), 1_000_000
    a, b = nics = [Nic(config(number, planes), seed=number + 1) for number in range(2)]
    memory = bytearray(chance.randbytes(SIZE)), bytearray(SIZE)
    regions = [
        nic.register_memory(0, memoryview(own), Access.LOCAL_WRITE | Access.REMOTE_WRITE)
        for nic, own in zip(nics, memory, strict=True)
    ]
    queues = [nic.create_cq(64) for nic in nics]
    pairs = [
        nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(path_mtu=1024)) for nic, cq in zip(nics, queues, strict=True)
    ]
    a.connect_qp(pairs[0], b.qp_address(pairs[1]), now)
    b.connect_qp(pairs[1], a.qp_address(pairs[0]), now)
    here, there = regions
    for number in range(MESSAGES):
        request = WorkRequest(number, WrOpcode.WRITE, here.address, here.lkey, SIZE, there.address, there.rkey)
        a.post_send(pairs[0], request, now)
    done = 0
    for _ in range(100_000):
        now += STEP_NS
        for nic, other in ((a, b), (b, a)):
            due = nic.wakeup()
            if due is not None and due <= now:
                nic.tick(now)
            for port in chance.sample(range(planes), planes):  # in no order: retransmissions leave on all
                frame = nic.transmit(port, now)
                if frame is not None and chance.random() > 0.05:
                    mac = other.config.ports[port].mac
                    other.receive(port, memoryview(mac + frame[6:]), now + 1000)
        done += len(a.poll_cq(queues[0], 64, now))
        if done == MESSAGES:
            break
    assert done == MESSAGES
    assert memory[0] == memory[1]
    for nic in nics:
        counters = nic.hw_counters(None, now)
        assert (counters["drop_internal_error"], counters["drop_malformed"]) == (0, 0)
    again = [port["tx_plane_retransmitted_packets"] for port in a.port_counters()]
    assert min(again) > 3


def test_a_nic_has_no_more_ports_than_a_port_status_has_bits() -> None:
    given = nic_config(0, planes=1)
    ports = tuple(replace(given.ports[0], plane=plane) for plane in range(33))
    Nic(replace(given, ports=ports[:32]), seed=1)
    with pytest.raises(InvalidArgumentError, match="at most 32 ports, not 33"):
        Nic(replace(given, ports=ports), seed=1)
