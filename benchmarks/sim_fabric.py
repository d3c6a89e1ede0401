"""Speed of the simulation: data packets end to end per second of one core, and where the time goes.

Every packet carries 4096 bytes from h1's T0 over a T1 to another T0, the P4 program runs at each of the three hops, and
it is acknowledged and its bytes are compared at the end. CPU time is what counts, so that a busy machine does not
change the measurement: on a core of one's own it is wall time. The parts (NIC, switches) are measured in a run of their
own with a stopwatch around every device call, whose own cost is taken off; what is left is the world's: events,
channels, verbs, asyncio. In that run all verbs are called in Python, as for observers (simulation/nodes.py).

Measurements are those of the compiled transport (``mrc_host.compiled``), and ``sim_plain_*`` those of the same sources
in plain Python; each comes from a process of its own. ``python -m benchmarks sim`` prints them.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.compiled_and_plain import COMPILED, measure_each
from mrc_host import compiled

if __name__ == "__main__" and sys.argv[1] == COMPILED:
    compiled.use()  # before anything imports the transport

from benchmarks.report import Measurement, report
from mrc_common.same_bytes import same_bytes
from mrc_host.verbs_types import CompletionStatus, QpType
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos

GIGA = 1_000_000_000
MESSAGE = 1 << 20
PACKETS = MESSAGE // 4096
TARGET = 15_000  # packets per second
_BYTES = bytes(range(256)) * (MESSAGE // 256)


async def write_messages(world: SimulatedWorld, source: str, target: str, messages: int) -> None:
    """Write `messages` of 1 MiB, four at a time, and compare the bytes."""
    with world.open(source) as near, world.open(target) as far:
        pd, far_pd = near.alloc_pd(), far.alloc_pd()
        region, far_region = pd.alloc_mr(MESSAGE), far_pd.alloc_mr(MESSAGE)
        region.buffer[:] = _BYTES
        cq, far_cq = near.create_cq(), far.create_cq()
        qp = pd.create_qp(cq, cq, QpType.MRC, world.attributes())
        far_qp = far_pd.create_qp(far_cq, far_cq, QpType.MRC, world.attributes())
        qp.connect(far_qp.address)
        far_qp.connect(qp.address)
        posted = 0
        for done in range(messages):
            while posted < min(messages, done + 4):
                qp.post_write(region, 0, MESSAGE, far_region.address, far_region.rkey, wr_id=posted)
                posted += 1
            completion = await cq.next()
            assert completion.status is CompletionStatus.SUCCESS, completion
        assert same_bytes(far_region.buffer, region.buffer)


def _pair(
    messages: int,
    prepare: Callable[[SimulatedWorld], None] = lambda world: None,
    clock: Callable[[], float] = time.process_time,
) -> float:
    """Seconds on `clock` for `messages` between two NICs of 8 x 100 Gb/s."""
    with SimulatedWorld(multi_plane_clos(planes=8, t0=2, t1=4, hosts=4), seed=1, rate=100 * GIGA) as world:
        prepare(world)
        start = clock()
        world.run(write_messages(world, "h1", "h3", messages))
        return clock() - start


class _Stopwatch:
    """Time spent in calls, and how many there were."""

    def __init__(self) -> None:
        self.spent = self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, watched."""
        clock = time.perf_counter_ns

        def watched(*arguments: Any) -> Any:
            start = clock()
            result = function(*arguments)
            self.spent += clock() - start
            self.calls += 1
            return result

        return watched

    @classmethod
    def cost(cls) -> tuple[float, float]:
        """Nanoseconds a call that the stopwatch counts as the function's, and that it takes in all."""
        idle = cls()
        nothing = idle.around(lambda now: None)
        start = time.perf_counter_ns()
        for _ in range(100_000):
            nothing(0)
        return idle.spent / idle.calls, (time.perf_counter_ns() - start) / idle.calls


def _parts(messages: int) -> tuple[float, float]:
    """Shares of the time that are spent inside NICs, and inside switches."""
    nic, switch = _Stopwatch(), _Stopwatch()

    def watch(world: SimulatedWorld) -> None:
        for name in world.fabric.nic_names:
            world.nic_node(name).wrap(nic.around, nic.around, nic.around, nic.around)
        for description in world.fabric.switches:
            node: Any = world.node(description.name)
            node.wrap(switch.around, switch.around)

    own = _Stopwatch.cost()
    whole = 1e9 * _pair(messages, watch, time.perf_counter) - (nic.calls + switch.calls) * own[1]
    return tuple((part.spent - part.calls * own[0]) / whole for part in (nic, switch))  # type: ignore[return-value]


def _large(messages: int) -> tuple[float, float, float]:
    """64 NICs of 8 ports, each writing to one below another T0: seconds to build, MiB, packets/s."""
    before = _resident()
    start = time.process_time()
    fabric = multi_plane_clos(planes=8, t0=8, t1=8, hosts=64)
    with SimulatedWorld(fabric, seed=1, rate=100 * GIGA) as world:
        built = time.process_time() - start

        def all_to_next() -> None:
            tasks = [
                world.spawn(write_messages(world, f"h{i + 1}", f"h{(i + 8) % 64 + 1}", messages)) for i in range(64)
            ]
            for task in tasks:
                world.run(task)

        start = time.process_time()
        all_to_next()
        speed = 64 * messages * PACKETS / (time.process_time() - start)
        used = _resident() - before
        return built, used, speed


def _growth(messages: int) -> float:
    """MiB by which the process has grown after ten times as many messages, as seen by the kernel's high-water mark."""
    with SimulatedWorld(multi_plane_clos(planes=2, t0=2, t1=4, hosts=4), seed=1, rate=100 * GIGA) as world:
        world.run(write_messages(world, "h1", "h3", messages))
        before = _resident()
        for _ in range(10):
            world.run(write_messages(world, "h1", "h3", messages))
        return _resident() - before


def _resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure() -> Iterator[Measurement]:
    """All measurements of this file, each of the two kinds of transport in a process of its own."""
    return measure_each("benchmarks.sim_fabric")


def _measurements(prefix: str) -> Iterator[Measurement]:
    """The measurements of the transport as it is in this process."""
    _pair(4)  # compile the P4 program and warm up
    best = min(_pair(40) for _ in range(3))
    total = best * 1e6 / (40 * PACKETS)
    yield Measurement(f"{prefix}_packets_per_second", 1e6 / total, "packets/s", 1e6 / total / TARGET, "target")
    yield Measurement(f"{prefix}_cpu_per_packet", total, "us")
    nic, switch = _parts(20)
    for name, share in (("nics", nic), ("switches", switch), ("world", 1 - nic - switch)):
        yield Measurement(f"{prefix}_cpu_per_packet_in_{name}", share * total, "us", share, f"{prefix}_cpu_per_packet")
    yield Measurement(f"{prefix}_memory_growth", _growth(10), "MiB")
    built, used, speed = _large(1)
    yield Measurement(f"{prefix}_64_nics_8_planes_build", built, "s")
    yield Measurement(f"{prefix}_64_nics_8_planes_memory", used, "MiB")
    yield Measurement(f"{prefix}_64_nics_8_planes_packets_per_second", speed, "packets/s", speed / TARGET, "target")
    *_, speed = _large(4)  # by then each path has been used before
    yield Measurement(
        f"{prefix}_64_nics_8_planes_4_mib_packets_per_second", speed, "packets/s", speed / TARGET, "target"
    )


if __name__ == "__main__":
    report(_measurements("sim" if sys.argv[1] == COMPILED else "sim_plain"))
