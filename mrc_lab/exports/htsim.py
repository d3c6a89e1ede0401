"""An experiment as htsim's connection matrix and topology, or a FileError at the key that htsim has nothing for."""

from __future__ import annotations

from mrc_lab.errors import FileError
from mrc_lab.experiments.files.model import Experiment
from mrc_lab.exports.htsim_fabric import exported_failures, exported_tree
from mrc_lab.exports.htsim_flows import exported_flows
from mrc_lab.workloads.htsim.connection_matrix import MAX_CONNECTIONS, ConnectionMatrix
from mrc_lab.workloads.htsim.topology import FatTree


def exported(experiment: Experiment, seed: int) -> tuple[ConnectionMatrix, FatTree]:
    """What htsim runs in place of an experiment with `seed`; FileError names the key that has no like there."""
    try:
        return _exported(experiment, seed)
    except ValueError as error:
        raise FileError(f"{experiment.source}: {error}") from None


def _exported(experiment: Experiment, seed: int) -> tuple[ConnectionMatrix, FatTree]:
    if len(experiment.cases) > 1:
        raise ValueError("variants, axis and sizes are several runs, and htsim's files are one: write it as one")
    (case,) = experiment.cases
    if case.p4 is not None:
        raise ValueError("p4: htsim's switches run no P4 program")
    tree = exported_tree(case)
    flows, triggers = exported_flows(case, seed)
    if len(flows) > MAX_CONNECTIONS:
        raise ValueError(f"workload: there would be {len(flows):,} flows, and {MAX_CONNECTIONS:,} are the most")
    return ConnectionMatrix(tree.nodes, flows, triggers, exported_failures(case), experiment.source), tree
