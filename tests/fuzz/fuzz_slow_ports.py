"""Worlds with ports that are slower than the others, or without any: they are found if and only if they are there.

A NIC writes without end to another over two to eight planes, with one to three queue pairs and MTUs from 1024 on. Then
up to half of the ports of either NIC get at most half of their rate, the same or each another, or a link between
switches loses its carrier or half of its rate or more, or nothing happens. Within the cycles that make a port slow
(``mrc_host/transport/slow_ports.py``) exactly those ports are reported, at the right end; with `slow_port_retry` they
are retired, and the planes that remain carry the same. When they have their rate again, none is slow or retired any
more, and all planes carry the same again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from mrc_host.transport.slow_ports import CYCLES
from mrc_host.verbs.memory import MemoryRegion
from mrc_host.verbs.queue_pair import QueuePair
from mrc_host.verbs_types import CompletionStatus
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.queues import QueueProfile

GIGA = 1_000_000_000
_MESSAGE = 1 << 18
_WARM = 16  # cycles
_PATIENCE = 4  # times what the cycles that decide take at the slow port's rate
_TRIALS = 4  # times to the first trial, of which one or two may have failed


@dataclass(frozen=True)
class Slowness:
    """A world, and what becomes slow in it: ports of h1 or h2, a link, or nothing."""

    planes: int
    t1: int
    gigabits: int
    trimming: bool
    mtu: int
    queue_pairs: int
    depth: int
    retry: bool
    place: str  # h1, h2, link down, link slow or nothing
    slow: dict[int, int]  # by plane: percent of its rate. A link is of the first of them

    @classmethod
    def random(cls, chance: random.Random) -> Slowness:
        planes = chance.choice((2, 3, 4, 5, 6, 8))
        slow = chance.sample(range(planes), chance.choice((1, chance.randint(1, planes // 2))))
        percents = [chance.choice((10, 25, 50, chance.randint(10, 50))) for _ in slow]
        if chance.random() < 0.7:
            percents = percents[:1] * len(slow)
        return cls(
            planes=planes,
            t1=chance.choice((2, 4)),
            gigabits=chance.choice((25, 100)),
            trimming=chance.random() < 0.7,
            mtu=chance.choice((1024, 2048, 4096, 4096)),
            queue_pairs=chance.choice((1, 1, 2, 3)),
            depth=chance.choice((4, 8, 16)),
            retry=chance.random() < 0.5,
            place=chance.choice(("h1", "h1", "h2", "h2", "link down", "link slow", "nothing")),
            slow=dict(zip(slow, percents, strict=True)),
        )

    @property
    def cycle(self) -> int:
        """Time (ns) in which each queue pair sends a burst on a port at full rate."""
        return self.queue_pairs * 8 * 4096 * 8 // self.gigabits

    @property
    def decided(self) -> int:
        """Time (ns) in which slow ports are certainly found."""
        return _PATIENCE * CYCLES * self.cycle * 100 // min(self.slow.values())

    @property
    def retry_after(self) -> int:
        """Time (ns) to the first trial of a retired port."""
        return 2 * CYCLES * self.cycle

    def fabric(self) -> Fabric:
        queues = QueueProfile(base_rtt_ns=12_000, least_frames=32, trimming=self.trimming, ecn=True)
        rate = self.gigabits * GIGA
        fabric = multi_plane_clos(planes=self.planes, t0=2, t1=self.t1, hosts=2, rate_bps=rate, queues=queues)
        retry = self.retry_after if self.retry else 0
        transport = replace(fabric.settings.transport, slow_port_retry=retry)
        return replace(fabric, settings=replace(fabric.settings, transport=transport))

    def inject(self, world: SimulatedWorld) -> list[int]:
        """Make slow what is to be; the faults."""
        gigabit, faults, plane = self.gigabits * GIGA // 100, world.faults, min(self.slow)
        link = f"t0-0:t1-0@p{plane}"
        if self.place == "link down":
            return [faults.link_down(link)]
        if self.place == "link slow":
            return [faults.rate(link, gigabit * self.slow[plane])]
        if self.place == "nothing":
            return []
        return [faults.rate(f"{self.place}@p{plane}", gigabit * percent) for plane, percent in self.slow.items()]

    def expected(self, h1: str, h2: str) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """The ports of h1 that must be found and all that may be, with their gauge: `h1` for its own, `h2` for h2's.

        All planes go as slowly as the slowest, whose packets queue; those of other slow ports of h2 then need not.
        """
        gauge = {"h1": h1, "h2": h2}.get(self.place)
        if gauge is None:
            return set(), set()
        least = max(self.slow.values()) if self.place == "h1" else min(self.slow.values())
        return {(gauge, plane) for plane, percent in self.slow.items() if percent <= least}, {
            (gauge, plane) for plane in self.slow
        }


class _Traffic:
    """Writes without end from h1 to h2."""

    def __init__(self, slowness: Slowness, world: SimulatedWorld) -> None:
        self._world = world
        near, far = world.open("h1"), world.open("h2")
        attributes = replace(world.attributes(ends=("h1", "h2")), path_mtu=slowness.mtu)
        pd, pd_far = near.alloc_pd(), far.alloc_pd()
        region, target = pd.alloc_mr(_MESSAGE), pd_far.alloc_mr(_MESSAGE)
        for _ in range(slowness.queue_pairs):
            cq, cq_far = near.create_cq(4096), far.create_cq(4096)
            qp, qp_far = (
                pd.create_qp(cq, cq, attributes=attributes),
                pd_far.create_qp(cq_far, cq_far, attributes=attributes),
            )
            qp.connect(qp_far.address)
            qp_far.connect(qp.address)
            world.spawn(self._write(qp, region, target, slowness.depth))

    @staticmethod
    async def _write(qp: QueuePair, region: MemoryRegion, target: MemoryRegion, depth: int) -> None:
        for _ in range(depth):
            qp.write(region, target.remote)
        while True:
            completion = await qp.send_cq.next()
            assert completion.status is CompletionStatus.SUCCESS, completion
            qp.write(region, target.remote)

    def found(self, *names: str) -> set[tuple[str, int]]:
        """The gauges of these names that are set, with their ports."""
        counters = self._world.nic("h1").port_counters()
        return {(name, port) for port, gauges in enumerate(counters) for name in names if gauges[name]}

    def find(
        self, slowness: Slowness, gauges: tuple[str, ...], wanted: set[tuple[str, int]], allowed: set[tuple[str, int]]
    ) -> None:
        """Run until each of the `wanted` ports was found; AssertionError if one is not, or another than the `allowed`.

        Not all need be at once: a retired port may be on trial. If none is wanted, run as long as that would take.
        """
        seen = self.found(*gauges)
        end = self._world.now + slowness.decided
        while self._world.now < end and (not wanted or not wanted <= seen):
            self._world.run(self._world.now + CYCLES * slowness.cycle // 4)
            seen |= self.found(*gauges)
        assert wanted <= seen <= allowed, f"{seen} instead of {wanted}"

    def loads(self, ns: int) -> list[int]:
        """Bytes that each port of h1 sends in so long."""
        before = [port["tx_bytes"] for port in self._world.nic("h1").port_counters()]
        self._world.run(self._world.now + ns)
        after = [port["tx_bytes"] for port in self._world.nic("h1").port_counters()]
        return [b - a for a, b in zip(before, after, strict=True)]


def check(slowness: Slowness, seed: int) -> None:
    """AssertionError unless what is slow is found, nothing else is, and it is forgotten when it is over."""
    slow, retired = ("slow", "slow_peers"), ("retired", "retired_peers")
    with SimulatedWorld(slowness.fabric(), seed=seed) as world:
        traffic = _Traffic(slowness, world)
        world.run(_WARM * slowness.cycle)
        faults = slowness.inject(world)
        wanted, allowed = slowness.expected(*slow)
        traffic.find(slowness, slow, wanted, allowed)
        if slowness.retry and wanted:
            traffic.find(slowness, retired, *slowness.expected(*retired))
        for fault in faults:
            world.faults.clear(fault)
        end = world.now + slowness.decided + _TRIALS * slowness.retry_after * len(slowness.slow)
        while world.now < end and traffic.found(*slow):
            world.run(world.now + CYCLES * slowness.cycle // 4)
        assert not traffic.found(*slow, *retired), "still slow"
        loads = traffic.loads(4 * CYCLES * slowness.cycle // 8)
        assert max(loads) < 1.2 * min(loads), f"unequal loads: {loads}"


class Fuzzer:
    """Each case is a world of its own."""

    def case(self, chance: random.Random) -> None:
        slowness, seed = Slowness.random(chance), chance.getrandbits(32)
        try:
            check(slowness, seed)
        except AssertionError as error:
            raise AssertionError(f"{error}: {slowness}, seed {seed}") from error

    def close(self) -> None:
        """Nothing is held."""
