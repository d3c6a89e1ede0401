"""Queue pairs of one NIC share its ports by bytes, also where their packets must keep planes in balance.

The ports are out of step, as they are on a real NIC: then one queue pair's turns come at different times on each.
"""

from collections import Counter

import pytest

from mrc_host.verbs_types import QpAttributes
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import MS, World, connect


@pytest.mark.parametrize("planes", [1, 2, 4])
@pytest.mark.parametrize("mtu", [256, 512, 1024])
def test_ports_are_shared_by_bytes_not_packets(mtu: int, planes: int) -> None:
    world = World(3, planes=planes)
    wide = {"mpr": 255, "mpr_dest": 255, "congestion_window": 1 << 22}
    long, first = connect(world, 0, 1, size=1 << 20, attributes=QpAttributes(path_mtu=4096, **wide))
    short, second = connect(world, 0, 2, size=1 << 20, attributes=QpAttributes(path_mtu=mtu, **wide))
    world.run(5 * MS)
    long.write(first, 1 << 20)
    short.write(second, 1 << 20)
    sent: Counter[int] = Counter()
    free = [2_000 * port for port in range(planes)]  # when each port has sent what it was given, a byte a nanosecond
    while max(free) < 1_000_000 // planes:
        port = free.index(min(free))
        frame = world.nics[0].transmit(port, world.now + free[port])
        assert frame is not None
        free[port] += len(frame)
        sent[int.from_bytes(frame[SRV6_PREFIX + 5 : SRV6_PREFIX + 8], "big")] += len(frame)
    assert max(sent.values()) < 1.25 * min(sent.values()), sent
