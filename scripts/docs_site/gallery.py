"""Makes the reports of docs/gallery.md by the commands that the page shows: ``python -m scripts.docs_site.gallery``.

A comment ``<!-- report NAME -->`` stands below the block with the command; the report becomes build/reports/NAME.html.
With ``recording`` for ``report`` it is the page that plays the run, in which the report is.
Reports that this version of the project has made are kept: ``make docs`` runs each command once.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mrc_common import children

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "reports"
_ENTRY = re.compile(
    r"^```sh \w+\n(?P<command>mrc run .+)\n```\n+<!-- (?P<what>report|recording) (?P<name>[\w-]+) -->$", re.MULTILINE
)
_SOURCES = (
    "mrc_common",
    "mrc_host",
    "mrc_lab",
    "p4compiler",
    "p4runtime_shim",
    "p4src",
    "simulation",
    "topologies",
    "examples",
)
_SUFFIXES = frozenset({".py", ".c", ".h", ".j2", ".css", ".js", ".html", ".yaml", ".goal", ".p4"})


@dataclass(frozen=True, slots=True)
class Report:
    """A report of the gallery and the command that makes it."""

    name: str
    command: tuple[str, ...]  # what follows mrc
    file: str = "report.html"  # of the result


def reports(page: Path) -> Iterator[Report]:
    """The reports that a page shows, in its order."""
    for entry in _ENTRY.finditer(page.read_text("utf-8")):
        file = "report.html" if entry["what"] == "report" else "playback.html"
        yield Report(entry["name"], tuple(shlex.split(entry["command"])[1:]), file)


def make(report: Report, folder: Path) -> None:
    """Run a command and put its report into `folder`; RuntimeError with its last lines if there is none."""
    with tempfile.TemporaryDirectory() as results:
        done = children.run(
            children.python("mrc_lab", *report.command, "--results", results),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        )  # fmt: skip
        found = list(Path(results).glob(f"*/latest/{report.file}"))
        if done.returncode or len(found) != 1:
            raise RuntimeError(f"mrc {shlex.join(report.command)}: status {done.returncode}\n{done.stdout[-500:]}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{report.name}.html").write_bytes(found[0].read_bytes())


def _version() -> str:
    """A hash of everything that reports may depend on."""
    found = hashlib.sha256()
    for room in _SOURCES:
        for file in sorted((ROOT / room).rglob("*")):
            if file.suffix in _SUFFIXES:
                found.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return found.hexdigest()


def main() -> int:
    """Make what is missing or of another version; returns the exit status."""
    stamp, version = FOLDER / "version", _version()
    wanted = {report.name: report for report in reports(ROOT / "docs/gallery.md")}
    current = stamp.is_file() and stamp.read_text() == version
    for file in FOLDER.glob("*.html"):
        if not current or file.stem not in wanted:
            file.unlink()
    stamp.unlink(missing_ok=True)
    for name, report in wanted.items():
        if not (FOLDER / f"{name}.html").exists():
            print(f"mrc {shlex.join(report.command)}", flush=True)
            make(report, FOLDER)
    stamp.write_text(version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
