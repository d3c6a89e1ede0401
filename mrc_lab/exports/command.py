"""``mrc export``."""

from __future__ import annotations

from pathlib import Path

import click


@click.group(epilog="Example: mrc export htsim experiment.yaml -o htsim")
def export() -> None:
    """Write an experiment as files of another simulator."""


@export.command(epilog="Example: mrc export htsim experiment.yaml -o htsim")
@click.argument("file", type=click.Path(path_type=Path), metavar="EXPERIMENT")
@click.option("--output", "-o", type=click.Path(path_type=Path), default=Path(), help="Folder. [default: this one]")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the run that has these flows.")
def htsim(file: Path, output: Path, seed: int) -> None:
    """Write the connection matrix (.cm) and the topology (.topo) of an experiment for htsim.

    The two files have the fabric, the links that have failed, and the flows. Options of htsim's programs select the
    transport and the queues. An experiment that htsim cannot run is refused.
    """
    from mrc_common import written_files
    from mrc_common.units import counted
    from mrc_lab.errors import ExperimentError
    from mrc_lab.experiments.files import load_file
    from mrc_lab.experiments.files.from_htsim import SUFFIX, TOPOLOGY_SUFFIX
    from mrc_lab.exports.htsim import exported

    experiment = load_file(file)
    matrix, tree = exported(experiment, seed)
    try:
        output.mkdir(parents=True, exist_ok=True)
        for suffix, text in ((SUFFIX, matrix.text()), (TOPOLOGY_SUFFIX, tree.text())):
            written_files.write_text(output / f"{experiment.name}{suffix}", text)
    except OSError as error:
        raise ExperimentError(f"{error.filename} cannot be written: {error.strerror}") from None
    place = output / experiment.name
    click.echo(f"{place}{SUFFIX}: {matrix.nodes} nodes, {counted(len(matrix.flows), 'flow')}")
    click.echo(f"{place}{TOPOLOGY_SUFFIX}: {len(tree.tiers)} tiers, {counted(tree.pods, 'pod')}")
