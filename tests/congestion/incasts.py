"""Random incasts of near and far senders: when the last write ends, what is sent again, and how equal the shares are.

Up to 7 hosts below the receiver's own T0 (near) and up to 56 below others (far) write the same amount to one host at
the same time. Each world, which its seed gives, has to keep its `Bounds`: how late the last write ends, retransmissions
for each new packet, and Jain's index of what the flows receive, after the first burst and before any of them ends.

The bounds are fits to what holds today, not aims, and wide for many senders: docs/congestion.md has measurements, and
those of uet-htsim. ``python -m tests.congestion.incasts 2+2 7+1`` measures given incasts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import click

from simulation.world import SimulatedWorld
from tests.congestion.flows import GIGABIT, OVERHEAD, US, Flow, fabric_of
from topologies.queues import QueueProfile

NEAR: Final = 7  # hosts below the receiver's T0, besides itself
HOSTS: Final = 64
_BELOW_T0: Final = 8
_RATE: Final = 100 * GIGABIT
_ROUND_TRIP: Final = QueueProfile().base_rtt_ns
_STEPS: Final = 200  # in the ideal time
_TOO_LATE: Final = 10  # ideal times
_SETTLED: Final = 0.2  # of the ideal time: shares count from then on, the first burst is over


@dataclass(frozen=True)
class Bounds:
    """What holds today for up to so many senders.

    `latest` is the end of the last write, as a multiple of a round trip and the time all data take at the receiver's
    ports; `retransmissions` are for each new packet.
    """

    senders: int
    latest: float
    retransmissions: float
    jain: float


# Fits: of 164 random worlds the worst had 1.38, 0.63 and 0.74 with up to 16 senders, and 2.59, 1.49 and 0 with more:
# of many senders that do not know it, some wait for timeouts after the first burst (docs/congestion.md).
BOUNDS: Final = (Bounds(16, 1.5, 0.8, 0.65), Bounds(63, 3.5, 2.5, 0.0))


@dataclass(frozen=True)
class Incast:
    """A world. `told` says whether senders know how many they are (`num_remote_recv_peers`)."""

    near: int
    far: int
    planes: int = 1
    mtu: int = 4096
    marks: bool = False  # on the last hop, too
    told: bool = False
    packets: int = 256  # of each sender
    one_class: bool = False  # of all data, as in uet-htsim

    @classmethod
    def random(cls, seed: int) -> Incast:
        """The world of a seed."""
        rng = random.Random(seed)
        near, far = rng.randint(0, NEAR), rng.choice((0, rng.randint(1, 8), rng.randint(1, 8), rng.randint(9, 56)))
        if near + far < 2:
            near, far = 1, 1
        planes, mtu = rng.choice((1, 1, 2)), rng.choice((1024, 2048, 4096))
        packets = 256 if near + far <= 16 else 128  # more take minutes
        return cls(near, far, planes, mtu, rng.random() < 0.5, rng.random() < 0.25, packets)

    @property
    def senders(self) -> int:
        """How many hosts send."""
        return self.near + self.far

    @property
    def ideal(self) -> float:
        """How long a round trip and all data take at the receiver's ports, in ns."""
        return _ROUND_TRIP + self.senders * self.packets * (self.mtu + OVERHEAD) * 8e9 / (self.planes * _RATE)

    def hosts(self, seed: int) -> list[str]:
        """The senders: near ones first, far ones at random."""
        far = random.Random(seed).sample(range(_BELOW_T0 + 1, HOSTS + 1), self.far)
        return [f"h{number}" for number in (*range(2, 2 + self.near), *far)]


@dataclass(frozen=True)
class Measured:
    """What an incast did: the last write's end over the ideal one, retransmissions for each new packet, and shares."""

    last: float
    retransmissions: float
    jain: float
    near_share: float  # mean of near senders over mean of all


def jains_index(shares: Sequence[float]) -> float:
    """1 when all are equal, 1/n when one of n has everything."""
    return sum(shares) ** 2 / ((len(shares) * sum(share * share for share in shares)) or 1)


def measure(incast: Incast, seed: int) -> Measured:
    """Run an incast until all writes have ended; AssertionError if they take 10 times as long as they should."""
    fabric = fabric_of(
        incast.planes,
        8,
        t0=HOSTS // _BELOW_T0,
        hosts=HOSTS,
        rate=_RATE,
        ecn_lasthop=incast.marks,
        retransmissions_first=not incast.one_class,
    )
    with SimulatedWorld(fabric, seed=seed) as world:
        attributes = replace(world.attributes(), path_mtu=incast.mtu)
        if incast.told:
            attributes = replace(attributes, num_remote_recv_peers=incast.senders)
        size = incast.packets * incast.mtu
        flows = [Flow(world, host, "h1", attributes, size=size, depth=1, endless=False) for host in incast.hosts(seed)]
        before: list[int] | None = None
        shares: list[int] = []
        while not all(flow.done for flow in flows):
            assert world.now < _TOO_LATE * incast.ideal, f"writes did not end in {world.now // US} us: {incast}"
            world.run(world.now + int(incast.ideal / _STEPS))
            if any(flow.done for flow in flows):
                continue
            received = [flow.packets_received() for flow in flows]
            if before is None and world.now >= _SETTLED * incast.ideal:
                before = received
            elif before is not None:
                shares = [new - old for new, old in zip(received, before, strict=True)]
        resent = sum(flow.qp.counters().retransmitted for flow in flows)
        mean = sum(shares) / len(flows) or 1
        near = sum(shares[: incast.near]) / incast.near if incast.near else mean
        return Measured(
            world.now / incast.ideal, resent / (incast.packets * len(flows)), jains_index(shares), near / mean
        )


def wrong(incast: Incast, seed: int) -> str:
    """What is wrong with an incast, or nothing."""
    got = measure(incast, seed)
    bounds = next(bounds for bounds in BOUNDS if incast.senders <= bounds.senders)
    if got.last > bounds.latest:
        return f"the last write ended at {got.last:.2f} of the ideal time, later than {bounds.latest}: {incast}"
    if got.retransmissions > bounds.retransmissions:
        most = bounds.retransmissions
        return f"{got.retransmissions:.2f} retransmissions for each new packet, more than {most}: {incast}"
    if got.jain < bounds.jain:
        return f"Jain's index is {got.jain:.2f}, less than {bounds.jain}: {incast}"
    return ""


def check(seed: int) -> str:
    """Run the world of a seed: what is wrong with it, or nothing."""
    return wrong(Incast.random(seed), seed)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("mixtures", nargs=-1, required=True, metavar="NEAR+FAR...")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="How many seeds, from 1 on.")
@click.option("--planes", type=click.IntRange(1, 8), default=1, show_default=True)
@click.option("--mtu", type=click.Choice(["1024", "2048", "4096"]), default="4096", show_default=True)
@click.option("--packets", type=click.IntRange(1), default=256, show_default=True, help="What each sender writes.")
@click.option("--marks", is_flag=True, help="Mark on the last hop, too.")
@click.option("--told", is_flag=True, help="Senders know how many they are.")
@click.option("--one-class", is_flag=True, help="Retransmissions are in the class of other data.")
def main(
    mixtures: tuple[str, ...],
    seeds: int,
    planes: int,
    mtu: str,
    packets: int,
    marks: bool,
    told: bool,
    one_class: bool,
) -> None:
    """Measure incasts of NEAR hosts below the receiver's T0 and FAR ones, such as 2+2."""
    for mixture in mixtures:
        near, _, far = mixture.partition("+")
        if not (near.isdigit() and far.isdigit() and int(near) <= NEAR and int(far) <= HOSTS - _BELOW_T0):
            raise click.UsageError(
                f"{mixture} is no mixture: write 0+8 or 2+2, with at most {NEAR}+{HOSTS - _BELOW_T0}."
            )
        incast = Incast(int(near), int(far), planes, int(mtu), marks, told, packets, one_class)
        if incast.senders < 2:
            raise click.UsageError(f"{mixture} is no incast: it takes two senders.")
        all_of = [measure(incast, seed) for seed in range(1, seeds + 1)]
        for name in ("last", "retransmissions", "jain", "near_share"):
            values = [getattr(got, name) for got in all_of]
            spread = f"({min(values):.3f} to {max(values):.3f})"
            click.echo(f"{mixture} {name}: mean {sum(values) / seeds:.3f} {spread}, {seeds} seeds")


if __name__ == "__main__":
    main()
