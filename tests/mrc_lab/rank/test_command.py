"""`mrc rank` as a user runs it: one small row, again, and names that are none."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrc_lab.errors import ExperimentError
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


SMALL = ("--only", "incast-8", "--only", "rc", "--seeds", "1", "--jobs", "1")


def test_the_order_of_names_makes_no_other_ranking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for names in (("healthy",), ("healthy", "healthy")):
        only = [option for name in names for option in ("--only", name)]
        done = CliRunner().invoke(rank, [*only, *SMALL], standalone_mode=False)
        assert done.return_value == 0, done.output
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["rank+rc+incast-8+healthy"]


def test_another_ranking_leaves_a_folder_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "ranking"
    done = CliRunner().invoke(rank, ["--only", "healthy", *SMALL, "--output", str(folder)], standalone_mode=False)
    assert done.return_value == 0, done.output
    there = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ExperimentError, match="holds another sweep"):
        CliRunner().invoke(
            rank, ["--only", "oversubscribed", *SMALL, "--output", str(folder)], standalone_mode=False,
            catch_exceptions=False,
        )  # fmt: skip
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == there


def test_runs_of_another_version_and_failed_ones_are_counted(tmp_path: Path) -> None:
    command = ["--only", "healthy", *SMALL, "--output", str(tmp_path)]
    first = CliRunner().invoke(rank, command, standalone_mode=False)
    assert "another version" not in first.stderr
    assert "left out" not in first.stderr
    (place,) = tmp_path.glob("rc/runs/*.json")
    record = json.loads(place.read_text())
    del record["summary"]
    place.write_text(json.dumps({**record, "sources": "older", "error": "h1 has no port"}))
    again = CliRunner().invoke(rank, command, standalone_mode=False)
    assert "1 run in" in again.stderr
    assert "another version of this project" in again.stderr
    assert "1 run failed, left out" in again.stderr


def test_the_list_says_what_there_is() -> None:
    listed = CliRunner().invoke(rank, ["--list", "--only", "healthy"], standalone_mode=False)
    assert listed.return_value == 0
    assert "conditions: healthy\n" in listed.stdout
    assert "transports: mrc, uet, rc_ar, rc_sr, rc, rc-reroute, rc-dcqcn, mrc-1-plane" in listed.stdout
