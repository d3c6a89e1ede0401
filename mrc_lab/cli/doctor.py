"""``mrc doctor``: what this machine has, what it lacks, and what each absence costs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mrc_lab.fabric.doctor import Check, Remedy


@click.command(epilog="Example: sudo mrc doctor --fix")
@click.option("--fix", is_flag=True, help="Fix what can be fixed: packages, kernel modules, leftovers.")
def doctor(fix: bool) -> int:
    """Say what this machine lacks and what that costs.

    The exit status is 3 when no fabric can be brought up here.
    """
    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric.doctor import examine

    if fix and os.geteuid() != 0:
        raise ExperimentError("mending needs root", "Run the same command with sudo.")
    findings = list(examine())
    if fix and _mend(findings):
        findings = list(examine())
    for finding in findings:
        mark = "ok     " if finding.ok else ("MISSING" if finding.fatal else f"{finding.if_not:<7}")
        click.echo(f"{mark}  {finding.what:<18}  {finding.detail}")
    if not fix and any(finding.remedy for finding in findings if not finding.ok):
        click.echo("'sudo mrc doctor --fix' mends some of this.")
    return 3 if any(finding.fatal and not finding.ok for finding in findings) else 0


def _mend(findings: list[Check]) -> bool:
    """Carry out the remedies of what is not well; tells whether there was anything to do."""
    from mrc_lab.fabric.doctor import Remedy

    wanted = {finding.remedy for finding in findings if not finding.ok}
    for remedy in (remedy for remedy in Remedy if remedy in wanted):
        click.echo(f"{remedy.value}: {_attempt(remedy)}")
    return bool(wanted - {None})


def _attempt(remedy: Remedy) -> str:
    from mrc_lab.fabric.doctor import mend
    from topologies.emulation.errors import EmulationError

    try:
        return mend(remedy)
    except EmulationError as error:
        return f"failed: {error}"
