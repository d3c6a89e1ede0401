"""Results of an examination: a table for people, verdicts as JSON, and the packets of each script as pcapng."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mrc_common import strict_json
from mrc_common.written_files import write_text, writing
from mrc_host.captures.pcapng import PcapngWriter
from mrc_lab.conformance.player import RuleVerdict
from mrc_lab.errors import ExperimentError


def line(verdict: RuleVerdict) -> str:
    """A verdict as a line, with the reason below if a rule is broken."""
    word = "kept  " if verdict.kept else "BROKEN"
    reason = f"\n       {verdict.reason}" if verdict.reason else ""
    return f"{word} {verdict.rule:<6} {verdict.title} ({verdict.name}){reason}"


def totals(verdicts: Sequence[RuleVerdict]) -> str:
    """How many rules are kept, and which are not."""
    rules = dict.fromkeys(verdict.rule for verdict in verdicts)
    broken = [rule for rule in rules if not all(one.kept for one in verdicts if one.rule == rule)]
    listed = f": {', '.join(broken)} broken" if broken else ""
    return f"{len(rules) - len(broken)} of {len(rules)} rules kept{listed}"


def write(folder: Path, verdicts: Sequence[RuleVerdict], planes: int) -> None:
    """verdicts.json, and a pcapng file for each verdict, numbered in order. ExperimentError if that is impossible."""
    rows = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, verdict in enumerate(verdicts, 1):
            name = f"{number:02}-{verdict.rule}-{re.sub(r'[^A-Za-z0-9_-]', '_', verdict.name)}.pcapng"
            _capture(folder / name, verdict, planes)
            row = {"rule": verdict.rule, "name": verdict.name, "title": verdict.title, "kept": verdict.kept}
            rows.append({**row, "reason": verdict.reason, "packets": len(verdict.frames), "capture": name})
        write_text(folder / "verdicts.json", strict_json.dumps(strict_json.finite(rows), indent=1) + "\n")
    except OSError as error:
        raise ExperimentError(f"{error.filename or folder} cannot be written: {error.strerror}") from None


def _capture(file: Path, verdict: RuleVerdict, planes: int) -> None:
    ports = [(f"port{plane}", f"port {plane} of the NIC under test") for plane in range(planes)]
    with writing(file, binary=True) as stream:
        writer = PcapngWriter(stream, ports, f"{verdict.rule}: {verdict.title}. {verdict.reason}")
        for one in verdict.frames:
            writer.packet(one.port, one.time_ns, one.frame, len(one.frame), one.comment)
