"""Planes that go silent without a carrier that would show it, in random worlds: when does a flow go on?

One queue pair writes without end between two racks of one to eight planes, with any MTU and SACK threshold. Then all
planes but one, or fewer, lose what they carry, at once or one after the other: a NIC's link, the links of a T0 or all
T1s, in one direction or both. While one plane works both ways, the receiver must never get nothing new for longer than
ten unloaded round trips (docs/protocol.md §10.1).
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, replace

from mrc_host.verbs_types import CompletionStatus, QpType
from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.queues import QueueProfile

GIGA = 1_000_000_000
MAX_ROUND_TRIPS = 10
_WATCHED = 30  # round trips, after the last plane went silent
_STEPS = 4  # of a round trip: how often the receiver is looked at


@dataclass(frozen=True)
class Silence:
    """A world and what goes silent in it. Times are in unloaded round trips."""

    planes: int
    t1: int
    gigabits: int
    trimming: bool
    mtu: int
    threshold: int
    message: int
    depth: int
    warm: float  # under load before
    between: float  # from one plane to the next
    gone: tuple[int, ...]
    place: str  # nic, links, t0 or t1
    end: int  # 0: sender, 1: receiver
    way: str  # both, forward or back

    @classmethod
    def random(cls, chance: random.Random) -> Silence:
        planes, mtu = chance.randint(2, 8), chance.choice((256, 512, 1024, 2048, 4096, 4096))
        counted = max(mtu, 1024) * planes  # by a responder, for one turn of all planes
        return cls(
            planes=planes,
            t1=chance.choice((1, 2, 4)),
            gigabits=chance.choice((25, 100)),
            trimming=chance.random() < 0.5,
            mtu=mtu,
            threshold=chance.choice((1, 4096, 32768, counted, 2 * counted, 1 << 20, chance.randrange(1, 1 << 17))),
            message=chance.choice((1 << 14, 1 << 16, 1 << 18)),
            depth=chance.choice((1, 4, 16)),
            warm=chance.choice((0, 0.3, 0.5, 0.8, 1, 1.5, 2, 3, 5, 10, 20)),
            between=chance.choice((0, 0, 0.5, 3)),
            gone=tuple(chance.sample(range(planes), chance.randint(1, planes - 1))),
            place=chance.choice(("nic", "links", "t0", "t1")),
            end=chance.randrange(2),
            way=chance.choice(("both", "forward", "back")),
        )

    def fabric(self) -> Fabric:
        queues = QueueProfile(base_rtt_ns=12_000, least_frames=32, trimming=self.trimming, ecn=True)
        rate = self.gigabits * GIGA
        fabric = multi_plane_clos(planes=self.planes, t0=2, t1=self.t1, hosts=2, rate_bps=rate, queues=queues)
        transport = replace(fabric.settings.transport, sack_threshold=self.threshold)
        return replace(fabric, settings=replace(fabric.settings, transport=transport))

    def begin(self, world: SimulatedWorld, plane: int) -> None:
        """The plane goes silent."""
        nic, t0 = f"h{self.end + 1}", f"t0-{self.end}"
        if self.place == "nic":
            up = (self.way == "forward") == (self.end == 0)
            world.faults.link_down(f"{nic}@p{plane}", "*" if self.way == "both" else "t0-*" if up else nic)
        elif self.place == "links" and self.way == "both":
            world.faults.link_down(f"t0-*:t1-*@p{plane}", "*")
        elif self.place == "links":
            world.faults.link_down(f"t0-{int(self.way == 'back')}:t1-*@p{plane}", "t1-*")
        else:
            world.faults.blackhole(f"{t0 if self.place == 't0' else 't1-*'}@p{plane}")


def longest_gap(silence: Silence, seed: int) -> float:
    """For how many unloaded round trips nothing new arrived, at the longest."""
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(SimulatedWorld(silence.fabric(), seed=seed))
        near, far = stack.enter_context(world.open("h1")), stack.enter_context(world.open("h2"))
        attributes = replace(world.attributes(ends=("h1", "h2")), path_mtu=silence.mtu)
        pd, pd_far = near.alloc_pd(), far.alloc_pd()
        region, target = pd.alloc_mr(silence.message), pd_far.alloc_mr(silence.message)
        cq, cq_far = near.create_cq(4096), far.create_cq(4096)
        qp = pd.create_qp(cq, cq, QpType.MRC, attributes)
        qp_far = pd_far.create_qp(cq_far, cq_far, QpType.MRC, attributes)
        qp.connect(qp_far.address)
        qp_far.connect(qp.address)

        async def write_without_end() -> None:
            for _ in range(silence.depth):
                qp.write(region, target.remote)
            while True:
                completion = await cq.next()
                assert completion.status is CompletionStatus.SUCCESS, completion
                qp.write(region, target.remote)

        def arrived() -> int:
            counters = qp_far.counters()
            return counters.data_received - counters.duplicates_received

        world.spawn(write_without_end())
        trip = world.timing.round_trip
        world.run(int(silence.warm * trip))
        due = [(world.now + int(number * silence.between * trip), plane) for number, plane in enumerate(silence.gone)]
        end = due[-1][0] + _WATCHED * trip
        before, since, longest = arrived(), world.now, 0
        while world.now < end:
            while due and due[0][0] <= world.now:
                silence.begin(world, due.pop(0)[1])
            world.run(world.now + trip // _STEPS)
            if (count := arrived()) != before:
                before, since = count, world.now
            longest = max(longest, world.now - since)
        return longest / trip


class Fuzzer:
    """Each case is a world of its own."""

    def case(self, chance: random.Random) -> None:
        silence, seed = Silence.random(chance), chance.getrandbits(32)
        gap = longest_gap(silence, seed)
        assert gap <= MAX_ROUND_TRIPS, f"nothing new for {gap:.1f} round trips: {silence}, seed {seed}"

    def close(self) -> None:
        """Nothing is held."""
