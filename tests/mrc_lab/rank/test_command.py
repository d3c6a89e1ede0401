"""`mrc rank` as a user runs it: one small row, again, and names that are none."""

from __future__ import annotations

import csv
from pathlib import Path

from click.testing import CliRunner

from mrc_lab.rank.command import rank


def test_a_row_is_ranked_and_the_second_time_nothing_is_run(tmp_path: Path) -> None:
    only = [option for name in ("incast-8", "healthy", "uet", "rc") for option in ("--only", name)]
    command = [*only, "--seeds", "1", "--jobs", "1", "--output", str(tmp_path / "ranking")]
    first = CliRunner().invoke(rank, command, standalone_mode=False)
    assert first.return_value == 0, first.output
    assert "| incast-8 | healthy |" in first.stdout
    with (tmp_path / "ranking" / "ranking.csv").open() as stream:
        read = {row["transport"]: float(row["share"]) for row in csv.DictReader(stream)}
    assert set(read) == {"uet", "rc"}
    assert all(0.9 < share < 1.02 for share in read.values()), "neither loses anything, and the line is the limit"
    records = {path: path.stat().st_mtime_ns for path in (tmp_path / "ranking").glob("*/runs/*.json")}
    assert len(records) == 2
    again = CliRunner().invoke(rank, command, standalone_mode=False)
    assert again.return_value == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "ranking").glob("*/runs/*.json")} == records


def test_the_list_says_what_there_is() -> None:
    listed = CliRunner().invoke(rank, ["--list", "--only", "healthy"], standalone_mode=False)
    assert listed.return_value == 0
    assert "conditions: healthy\n" in listed.stdout
    assert "transports: mrc, uet, rc_ar, rc_sr, rc, rc-reroute, rc-dcqcn" in listed.stdout
