"""``mrc train``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mrc_common import children
from mrc_host.verbs_types import QpType
from mrc_lab.cli.fabric_argument import ONLY_ONE, fabric_name


@click.command(
    epilog="Example: sudo mrc train --fabric lab --nproc 4 train.py --epochs 3",
    context_settings={"allow_interspersed_args": False},  # options behind the script are the script's
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--nproc", type=click.IntRange(min=1), metavar="N", help="Number of ranks: hosts h1 to hN (default: all)."
)
@click.option(
    "--transport",
    type=click.Choice([kind.value for kind in QpType]),
    default=QpType.MRC.value,
    help="MRC, or a baseline to compare with: RoCE's rc, rc_sr, rc_ar, Ultra Ethernet's uet.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="TCP port of the master (default: 29500).")
@click.option(
    "--elastic",
    type=click.Choice(["torchft"]),
    help="Train in replica groups that come and go, with torchft and its lighthouse.",
)
@click.option(
    "--group-size", type=click.IntRange(min=1), metavar="N", help="Hosts of a replica group of torchft (default: 1)."
)
@click.option(
    "--restarts",
    type=click.IntRange(min=0),
    metavar="N",
    help="How often a replica group of torchft that has failed is started again (default: 10).",
)
@click.option(
    "--min-groups",
    type=click.IntRange(min=1),
    metavar="N",
    help="Replica groups of torchft without which none trains (default: 1).",
)
@fabric_name(ONLY_ONE, words=True)
def train(
    script: str,
    arguments: tuple[str, ...],
    nproc: int | None,
    transport: str,
    port: int | None,
    elastic: str | None,
    group_size: int | None,
    restarts: int | None,
    min_groups: int | None,
    name: str | None,
) -> int:
    """Run a PyTorch script with one rank in each host of a fabric that is up.

    The script calls init_process_group("mrc") and finds its rank, the world's size and the master in the environment,
    as under torchrun (docs/pytorch.md). It needs root. When a rank fails the others are ended, and the exit status is
    that of the rank; with --elastic torchft its replica group starts again, and the others go on
    (docs/training-faults.md).
    """
    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric.find_fabric import find_fabric
    from mrc_lab.torch_jobs.installation import require_torch, require_torchft
    from mrc_lab.torch_jobs.launch import MASTER_PORT, Rank, launch
    from mrc_lab.torch_jobs.replica_groups import RESTARTS, ReplicaGroups
    from topologies.loader import load_file

    if elastic is None and (group_size, restarts, min_groups) != (None, None, None):
        raise click.UsageError("--group-size, --restarts and --min-groups go with --elastic torchft")
    if elastic is not None and port is not None:
        raise click.UsageError("--port does not go with --elastic torchft, which takes free ports")
    if os.geteuid() != 0:
        raise ExperimentError("starting ranks inside hosts needs root", "Run the same command with sudo.")
    require_torch()
    if elastic is not None:
        require_torchft()
    run = find_fabric(name)
    hosts = [nic.name for nic in load_file(run.fabric_file).nics]
    if nproc is not None and nproc > len(hosts):
        raise click.UsageError(f"fabric {run.name} has {len(hosts)} hosts: --nproc is at most that")
    shells = run.shells()
    ranks = [Rank(host, shells[host].pid) for host in hosts[:nproc] if host in shells]
    if len(ranks) < (nproc or len(hosts)):
        raise ExperimentError(f"a host of fabric {run.name} is gone", "Take the fabric down.")
    command = children.user_script(str(Path(script).resolve()), *arguments)
    more = {"MRC_QP_TYPE": transport}
    if elastic is None:
        failure = launch(run, ranks, command, more=more, port=port or MASTER_PORT)
    else:
        size, least = group_size or 1, min_groups or 1
        if len(ranks) % size:
            raise click.UsageError(f"{len(ranks)} hosts are no whole number of groups of {size}: change --nproc")
        if least * size > len(ranks):
            raise click.UsageError(f"--min-groups is more than the {len(ranks) // size} groups there are")
        again = RESTARTS if restarts is None else restarts
        groups = ReplicaGroups(run, ranks, command, size=size, restarts=again, min_groups=least, more=more)
        failure = groups.train()
    return 0 if failure is None else failure.status
