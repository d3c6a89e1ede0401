"""An experiment made of a connection matrix of htsim and, if there is one, a topology: what ``mrc run FILE.cm`` runs.

It is written as the text of an experiment file, which the result then has a copy of, to be changed and run again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mrc_common import units
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.listed_flows import failed_link
from mrc_lab.experiments.files.loader import load_text
from mrc_lab.experiments.files.model import Experiment
from mrc_lab.workloads.htsim.connection_matrix import ConnectionMatrix
from mrc_lab.workloads.htsim.matrix_file import read_matrix
from mrc_lab.workloads.htsim.topology import AGG, CORE, TOR, FatTree, FatTreeTier, read_topology
from topologies.clos import Clos
from topologies.errors import FabricError

SUFFIX, TOPOLOGY_SUFFIX = ".cm", ".topo"
DEFAULT_GBPS, DEFAULT_LINK_NS = 100, 1000  # as htsim without a topology
_CLASSES = {TOR: "nic-t0", AGG: "t0-t1", CORE: "t1-t2"}
_BUFFERS = 1 << 30  # bytes of the hosts' memory, about
_BINS = 1000  # at most
_LEAST_NS = 10_000_000
_LEAST_BIN_NS = 1000


def load_matrix(path: Path, topology: Path | None) -> Experiment:
    """The experiment of a matrix on a topology; FileError for anything wrong with either.

    Without `topology` it is the file of the same name beside the matrix that ends in ``.topo``, if there is one, or
    else :func:`default_tree`.
    """
    matrix = read_matrix(path)
    beside = path.with_suffix(TOPOLOGY_SUFFIX)
    if topology is None and beside.exists():
        topology = beside
    tree = default_tree(matrix.nodes) if topology is None else read_topology(topology)
    if topology is not None and tree.nodes != matrix.nodes:
        raise FileError(f"{path} has {matrix.nodes} nodes, but {topology} has {tree.nodes}: they must have as many")
    whose = "the default fabric" if topology is None else str(topology)
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", path.stem).lstrip("._+-")[:64] or "matrix"
    try:
        text = experiment_text(matrix, tree, path.name, f"Flows of {path.name} on {whose}.")
    except FabricError as error:
        raise FileError(f"{path}, {error}") from None
    return load_text(text, source=str(path.parent / f"experiment of {path.name}"), name=name)


def default_tree(nodes: int) -> FatTree:
    """Two tiers without oversubscription, with about twice as many T0s as hosts below each.

    For 2 k^2 nodes, k a power of two, it is htsim's default of two tiers; other numbers are rounded up to fill all
    racks.
    """
    below = 1 << round(math.log2(math.sqrt(nodes / 2)))
    racks = -(-nodes // below)
    tor = FatTreeTier(DEFAULT_GBPS, below, below, DEFAULT_LINK_NS)
    return FatTree(racks * below, racks * below, (tor, FatTreeTier(DEFAULT_GBPS, racks, 0, DEFAULT_LINK_NS)))


def experiment_text(matrix: ConnectionMatrix, tree: FatTree, file: str, about: str) -> str:
    """The experiment file; `file` is the matrix's name from there.

    FabricError for a failure that the tree cannot have, FileError for switches that are not alike.
    """
    return "\n".join([*_lines(matrix, tree, file, about), ""])


def _lines(matrix: ConnectionMatrix, tree: FatTree, file: str, about: str) -> Iterator[str]:
    duration = _duration(matrix, tree)
    yield f"about: {json.dumps(about)}"
    yield f"fabric: {fabric_text(tree)}"
    latencies = {tier.switch_ns for tier in tree.tiers}
    if len(latencies) > 1:
        raise FileError(f"{file}: Switch_Latency_ns differs between tiers, but all switches take the same time here")
    if latencies != {0}:
        yield f"timing: {{switch: {_written(latencies.pop())}}}"
    largest = max(flow.size for flow in matrix.flows)
    write = min(1 << (_BUFFERS // (2 * matrix.nodes)).bit_length() - 1, 1 << 20)
    parts = f", message: {units.size_word(write)}" if largest > write else ""
    yield f"workload: {{kind: htsim, file: {json.dumps(file)}{parts}}}"
    if matrix.failures:
        fabric = _clos(tree).fabric()
        yield "faults:"
        for failure in matrix.failures:
            yield f"  - {{kind: link_down, link: '{failed_link(fabric, failure)}', at: 0us}}"
    yield f"duration: {_written(duration)}"
    yield f"measure: {{bin: {_written(max(_LEAST_BIN_NS, duration // _BINS))}}}"
    yield "report:"
    for metric, statistic in (("fct", "mean"), ("fct", "p99"), ("fct", "max"), ("slowdown", "p99")):
        yield f"  - {{metric: {metric}, title: {statistic} {metric}, of: {{statistic: {statistic}}}}}"
    yield "  - {metric: retransmitted}"


def fabric_text(tree: FatTree) -> str:
    """The key `fabric` of an experiment file."""
    first = tree.tiers[TOR]
    clos = _clos(tree)
    names = ("planes", "pods", "t0", "t1", "t2", "hosts") if tree.t2 else ("planes", "t0", "t1", "hosts")
    parts = [f"{name}: {getattr(clos, name)}" for name in names]
    parts += [f"rate: {first.gbps}G", f"delay: {_written(first.link_ns)}"]
    rules = []
    for number, tier in enumerate(tree.tiers):
        given = [f"rate: {tier.gbps}G"] * (tier.gbps != first.gbps)
        given += [f"delay: {_written(tier.link_ns)}"] * (tier.link_ns != first.link_ns)
        if given:
            rules.append(f"{_CLASSES[number]}: {{{', '.join(given)}}}")
    if rules:
        parts.append(f"links: {{{', '.join(rules)}}}")
    return f"{{{', '.join(parts)}}}"


def _clos(tree: FatTree) -> Clos:
    """The switches of a tree."""
    return Clos(
        "experiment", planes=1, pods=tree.pods, t0=tree.t0_per_pod, t1=tree.t1_per_pod, t2=tree.t2, hosts=tree.nodes
    )


def _duration(matrix: ConnectionMatrix, tree: FatTree) -> int:
    """Time in which all flows end unless something is very wrong, ns: a run is over when they have ended.

    Flows that wait for others are taken to run one after the other.
    """
    sent, received = Counter[int](), Counter[int]()
    for flow in matrix.flows:
        sent[flow.source] += flow.size
        received[flow.destination] += flow.size
    most = max(*sent.values(), *received.values())
    if matrix.triggers:
        most = sum(sent.values())
    ratio = math.prod(tier.oversubscribed for tier in tree.tiers)
    latest = max(flow.start_ns or 0 for flow in matrix.flows)
    return latest + max(_LEAST_NS, 10 * ratio * most * 8 // tree.tiers[TOR].gbps)


def _written(ns: int) -> str:
    """A time as experiment files have it: ``10ms``, ``1500ns``."""
    for factor, unit in ((10**6, "ms"), (10**3, "us")):
        if ns % factor == 0:
            return f"{ns // factor}{unit}"
    return f"{ns}ns"
