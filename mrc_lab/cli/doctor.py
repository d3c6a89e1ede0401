"""``mrc doctor``: lists what this machine has and what is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mrc_lab.fabric.doctor import CheckResult, Fix


@click.command(epilog="Example: sudo mrc doctor --fix")
@click.option("--fix", is_flag=True, help="Fix what can be fixed: packages, kernel modules, leftovers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(fix: bool, as_json: bool) -> int:
    """List what is missing on this machine, and what does not work without it.

    The exit status is 3 if no fabric can be brought up here.
    """
    from mrc_lab.errors import ExperimentError
    from mrc_lab.fabric.doctor import examine

    if fix and os.geteuid() != 0:
        raise ExperimentError("--fix needs root", "Run the same command with sudo.")
    findings = list(examine())
    if fix and _apply_fixes(findings, err=as_json):
        findings = list(examine())
    if as_json:
        from mrc_lab.commands.check_listing import CHECKS, checks

        click.echo(CHECKS.json(checks(findings)))
    else:
        _print(findings, advise=not fix)
    return 3 if any(finding.fatal and not finding.ok for finding in findings) else 0


def _print(findings: list[CheckResult], *, advise: bool) -> None:
    from mrc_lab.terminal.console import console, print_folded
    from mrc_lab.terminal.state_colour import coloured_verdict

    to = console()
    for finding in findings:
        mark = "ok     " if finding.ok else ("MISSING" if finding.fatal else f"{finding.if_not:<7}")
        begin = f"{mark}  {finding.what:<18}  "
        print_folded(to, coloured_verdict(f"{begin}{finding.detail}"), len(begin))
    if advise and any(finding.fix for finding in findings if not finding.ok):
        click.echo("'sudo mrc doctor --fix' fixes some of this.")


def _apply_fixes(findings: list[CheckResult], *, err: bool) -> bool:
    """Apply the fixes for failed checks, with a line on each (`err`: on standard error); whether there were any."""
    from mrc_lab.fabric.doctor import Fix

    wanted = {finding.fix for finding in findings if not finding.ok}
    for fix in (fix for fix in Fix if fix in wanted):
        click.echo(f"{fix.value}: {_attempt(fix)}", err=err)
    return bool(wanted - {None})


def _attempt(fix: Fix) -> str:
    from mrc_lab.fabric.doctor import apply
    from topologies.emulation.errors import EmulationError

    try:
        return apply(fix)
    except EmulationError as error:
        return f"failed: {error}"
