"""Arrivals of flows: who writes how much to whom, and when. All of it derives from the seed, or is listed in a file.

Every host has a Poisson process of its own, with its own random numbers, so what one host draws does not depend on how
many flows others begin. Times are those of the file, so that both backends have the same flows.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from mrc_lab.experiments.files.flow_checks import arrival_rate
from mrc_lab.experiments.files.host_names import select_hosts
from mrc_lab.experiments.files.workloads import ListedFlows, RandomFlows, SizedFlows
from mrc_lab.experiments.running.derangement import derangement
from simulation.seeds import generator
from topologies.fabric import Fabric


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
    """A flow to be: when it begins (ns from the beginning of the run, of the file), who writes to whom, and bytes.

    `start` is None of a flow that begins when others have ended.
    """

    start: int | None
    source: str
    destination: str
    size: int


def arrivals(load: SizedFlows, fabric: Fabric, seed: int, duration: int) -> list[Arrival]:
    """The flows of a workload in a run of `duration` ns on the file's `fabric`.

    Random flows are in the order in which they begin, listed ones in the order of their file.
    """
    if isinstance(load, ListedFlows):
        return _listed(load, fabric)
    assert isinstance(load, RandomFlows)
    until = duration if load.until is None else load.until
    hosts = select_hosts(load.hosts, fabric)
    processes = [
        _of_host(load, fabric, host, destinations, generator(seed, "flows", host), until)
        for host, destinations in _destinations(load, fabric, hosts, seed).items()
    ]
    return list(islice(heapq.merge(*processes), load.count))


def _listed(load: ListedFlows, fabric: Fabric) -> list[Arrival]:
    names = list(fabric.nic_names)
    return [
        Arrival(
            None if flow.start_ns is None else load.start + flow.start_ns,
            names[flow.source],
            names[flow.destination],
            flow.size,
        )
        for flow in load.file.matrix.flows
    ]


def _destinations(load: RandomFlows, fabric: Fabric, hosts: Sequence[str], seed: int) -> dict[str, Sequence[str]]:
    """For each host those that it may write to."""
    if load.pattern == "permutation":
        others = derangement(hosts, seed)
        return {host: (other,) for host, other in zip(hosts, others, strict=True)}
    if load.pattern == "inter_rack":
        racks = {host: fabric.nic(host).t0 for host in hosts}
        return {host: [other for other in hosts if racks[other] != racks[host]] for host in hosts}
    return {host: [other for other in hosts if other != host] for host in hosts}


def _of_host(
    load: RandomFlows, fabric: Fabric, host: str, destinations: Sequence[str], chance: random.Random, until: int
) -> Iterator[Arrival]:
    """Flows that begin at a host until `until`."""
    rate, sizes = arrival_rate(load, fabric, host), load.sizes.distribution
    time = load.start + chance.expovariate(rate)
    while time < until:
        yield Arrival(round(time), host, chance.choice(destinations), sizes.draw(chance))
        time += chance.expovariate(rate)
