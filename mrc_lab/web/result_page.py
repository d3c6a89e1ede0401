"""Results of experiments as one page each: their recordings on one slider, and their report beside them."""

from __future__ import annotations

from pathlib import Path

from mrc_common import named_files
from mrc_lab.errors import ExperimentError
from mrc_lab.reports import compare
from mrc_lab.reports.result_folder import read_summary
from mrc_lab.web.player_page import player_page
from mrc_lab.web.result_recording import result_recordings

_MAX_REPORT = 64 << 20


def result_page(folder: Path) -> str:
    """The page of one result: its first two variants are side by side. Raises ExperimentError."""
    recordings = result_recordings(folder)
    summary = read_summary(folder)
    title = str(summary.get("title") or summary.get("name") or folder.name)
    return player_page(title, recordings, _report(folder), right=1 if len(recordings) > 1 else None)


def comparison_page(first: Path, second: Path) -> str:
    """The page of two results: what belongs together is side by side. Raises ExperimentError."""
    report = compare.compare(first, second)
    summaries = read_summary(first), read_summary(second)
    labels = [
        compare.label(summary, folder, letter)
        for summary, folder, letter in zip(summaries, (first, second), "AB", strict=True)
    ]
    try:
        found = [result_recordings(folder, letter) for folder, letter in zip((first, second), "AB", strict=True)]
    except ExperimentError:
        return report  # of an earlier release, or of points of an axis: there is nothing to play
    return player_page(" and ".join(labels), [*found[0], *found[1]], report, right=len(found[0]))


def _report(folder: Path) -> str:
    file = folder / "report.html"
    try:
        return named_files.read_bytes(file, _MAX_REPORT).decode("utf-8", "replace")
    except OSError:
        return ""
