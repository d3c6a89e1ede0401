"""JSON listing of `mrc doctor`."""

from __future__ import annotations

from collections.abc import Iterable

from mrc_lab.commands.listing import Column, Listing, Row
from mrc_lab.fabric.doctor import CheckResult

CHECKS = Listing(
    "mrc doctor",
    "checks of this machine, and fabrics that are up",
    (
        Column("check", "name of the check"),
        Column("ok", "whether it passed"),
        Column("required", "whether no fabric can be brought up without it"),
        Column("detail", "what was found, or what does not work without it"),
        Column("fix", "what `--fix` would do; null if it passed or cannot be fixed"),
    ),
)


def checks(findings: Iterable[CheckResult]) -> list[Row]:
    """A row for each check."""
    return [
        {
            "check": finding.what,
            "ok": finding.ok,
            "required": finding.fatal,
            "detail": finding.detail,
            "fix": None if finding.ok or finding.fix is None else finding.fix.value,
        }
        for finding in findings
    ]
