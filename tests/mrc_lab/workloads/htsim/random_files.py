"""Random connection matrices and topologies, valid by construction."""

from __future__ import annotations

import random

from mrc_lab.workloads.htsim.connection_matrix import (
    ConnectionMatrix,
    MatrixFailure,
    MatrixFlow,
    MatrixTrigger,
    TriggerKind,
)
from mrc_lab.workloads.htsim.topology import FatTree, FatTreeTier


def random_matrix(chance: random.Random, nodes: int | None = None, largest: int = 10**6) -> ConnectionMatrix:
    """A matrix whose triggers all fire: each waits for flows that are earlier in the file."""
    nodes = chance.randint(2, 20) if nodes is None else nodes
    flows: list[MatrixFlow] = []
    triggers: list[MatrixTrigger] = []
    for _ in range(chance.randint(1, 8)):
        source, destination = chance.sample(range(nodes), 2)
        start = chance.choice([0, chance.randrange(10**9)])
        flows.append(MatrixFlow(source, destination, chance.randint(1, largest), start, len(flows) + 1))
    for number in range(1, chance.randint(1, 5)):
        free = [at for at, flow in enumerate(flows) if not (flow.send_done_trigger or flow.recv_done_trigger)]
        if not free:
            break
        kind = chance.choice(list(TriggerKind))
        most = 1 if kind is TriggerKind.ONESHOT else len(free)
        activating = chance.sample(free, chance.randint(1, most))
        for at in activating:
            end = chance.choice(["send_done_trigger", "recv_done_trigger"])
            one = flows[at]
            ends = {end: number}
            flows[at] = MatrixFlow(one.source, one.destination, one.size, one.start, one.id, one.trigger, **ends)
        triggers.append(MatrixTrigger(number, kind, len(activating) if kind is TriggerKind.BARRIER else 0))
        targets = len(activating) if kind is TriggerKind.MULTISHOT else 3
        for _ in range(chance.randint(1, targets)):
            source, destination = chance.sample(range(nodes), 2)
            size = chance.randint(1, largest)
            flows.append(MatrixFlow(source, destination, size, None, len(flows) + 1, number))
    failures = [MatrixFailure(chance.randrange(8), chance.randrange(4)) for _ in range(chance.randint(0, 2))]
    return ConnectionMatrix(nodes, tuple(flows), tuple(triggers), tuple(failures))


def random_tree(chance: random.Random) -> FatTree:
    """A topology that htsim accepts."""
    up, ratio = chance.randint(1, 4), chance.randint(1, 3)
    below, racks = up * ratio, chance.randint(2, 4)
    gbps, delay, switch = chance.choice([25, 100, 400]), chance.randint(1, 2000), chance.choice([0, 500])
    if chance.random() < 0.5:
        nodes = below * racks
        tiers = FatTreeTier(gbps, below, up, delay, switch, ratio), FatTreeTier(gbps, racks, 0, delay, switch)
        return FatTree(nodes, nodes, tiers)
    pods, pod = chance.randint(2, 3), below * racks
    divisors = [one for one in range(1, racks + 1) if racks % one == 0]
    upper = chance.choice(divisors)
    tier = FatTreeTier(gbps, racks, racks // upper, chance.randint(1, 2000), switch, upper)
    tiers3 = FatTreeTier(gbps, below, up, delay, switch, ratio), tier, FatTreeTier(gbps, pods, 0, delay, switch)
    return FatTree(pod * pods, pod, tiers3)
