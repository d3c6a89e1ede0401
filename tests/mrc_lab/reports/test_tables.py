import csv
import resource

import pytest

from mrc_common.written_files import naming, write_text
from mrc_lab.experiments.running.recording import RerouteRecord
from mrc_lab.reports.tables import write_tables
from tests.mrc_lab.reports.recordings import recording


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_series_sum_to_the_recording(tmp_path):
    made = recording()
    names = write_tables(made, tmp_path / "only")
    assert sorted(names) == ["completions.csv", "events.csv", "flows.csv", "links.csv"]
    flows = rows(tmp_path / "only" / "flows.csv")
    assert len(flows) == 20
    assert sum(int(row["received"]) for row in flows if row["flow"] == "h1>h3") == 100
    assert {row["bits_per_s"] for row in flows if row["flow"] == "h2>h4"} == {"24000000000"}
    links = rows(tmp_path / "only" / "links.csv")
    assert sum(int(row["bytes"]) for row in links if (row["link"], row["direction"]) == ("h1@p0", "up")) == 100_000
    assert [(row["link"], row["lost"]) for row in links if row["lost"] != "0"] == [("t0-0:t1-0@p0", "7")]
    assert len(rows(tmp_path / "only" / "completions.csv")) == 90


def test_events_are_sorted_by_time(tmp_path):
    write_tables(recording(), tmp_path)
    events = rows(tmp_path / "events.csv")
    times = [int(row["time_ns"]) for row in events]
    assert times == sorted(times)
    assert [row["event"] for row in events] == [
        "fault begins", "port", "path", "path", "fault ends", "path",
    ]  # fmt: skip
    assert events[2]["first_loss_ns"] == "41000"


def test_a_full_disk_is_reported_with_the_file(tmp_path):
    """The system names the file it cannot open, but not the one it cannot write to."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match=r"notes\.txt"):
            write_text(tmp_path / "notes.txt", "more than ten bytes, so that it does not fit")
        series = tmp_path / "series.csv"
        with pytest.raises(OSError, match=r"series\.csv"), naming(series), series.open("w") as file:
            file.write("more than ten bytes, noticed when it is closed")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_reroutes_are_events_of_their_plane(tmp_path):
    reroute = RerouteRecord(45_500, 1, "without t0-0:t1-0@p1: 7 entries")
    write_tables(recording(reroutes=(reroute,)), tmp_path)
    (row,) = (row for row in rows(tmp_path / "events.csv") if row["event"] == "reroute")
    assert (row["time_ns"], row["plane"], row["reason"]) == ("45500", "1", reroute.text)
