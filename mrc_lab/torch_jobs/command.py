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
@click.option("--port", type=click.IntRange(1, 65535), default=29500, show_default=True, help="TCP port of the master.")
@fabric_name(ONLY_ONE, words=True)
def train(
    script: str, arguments: tuple[str, ...], nproc: int | None, transport: str, port: int, name: str | None
) -> int:
    """Run a PyTorch script with one rank in each host of a fabric that is up.

    The script calls init_process_group("mrc") and finds its rank, the world's size and the master in the environment,
    as under torchrun (docs/pytorch.md). It needs root. When a rank fails the others are ended, and the exit status is
    that of the rank.
    """
    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric.find_fabric import find_fabric
    from mrc_lab.torch_jobs.installation import require_torch
    from mrc_lab.torch_jobs.launch import Rank, launch
    from topologies.loader import load_file

    if os.geteuid() != 0:
        raise ExperimentError("starting ranks inside hosts needs root", "Run the same command with sudo.")
    require_torch()
    run = find_fabric(name)
    hosts = [nic.name for nic in load_file(run.fabric_file).nics]
    if nproc is not None and nproc > len(hosts):
        raise click.UsageError(f"fabric {run.name} has {len(hosts)} hosts: --nproc is at most that")
    shells = run.shells()
    ranks = [Rank(host, shells[host].pid) for host in hosts[:nproc] if host in shells]
    if len(ranks) < (nproc or len(hosts)):
        raise ExperimentError(f"a host of fabric {run.name} is gone", "Take the fabric down.")
    command = children.user_script(str(Path(script).resolve()), *arguments)
    failure = launch(run, ranks, command, more={"MRC_QP_TYPE": transport}, port=port)
    return 0 if failure is None else failure.status
