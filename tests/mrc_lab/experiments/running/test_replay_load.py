"""Schedules in experiment files: run, recorded, and refused where they do not fit."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_file
from mrc_lab.reports.run_and_report import run_and_report
from tests.mrc_lab.workloads.schedules import chakra_traces as traces

TWO = """num_ranks 2
rank 0 {
a: calc 50000
b: send 100000b to 1 tag 3
b requires a
}
rank 1 {
r: recv 100000b from 0 tag 3
c: calc 1000
c requires r
}
"""


def experiment(folder: Path, goal: str, workload: str = "", **keys: str) -> Path:
    (folder / "two.goal").write_text(goal)
    lines = {"duration": "20ms", **keys}
    file = folder / "two.yaml"
    file.write_text(
        "fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}\n"
        f"workload: {{kind: goal, file: two.goal{workload}}}\n"
        + "".join(f"{key}: {value}\n" for key, value in lines.items())
    )
    return file


def test_the_table_has_the_times_of_every_operation(tmp_path: Path) -> None:
    result = run_and_report(load_file(experiment(tmp_path, TWO, ", hosts: [h1, h4]")), "sim", 1, tmp_path / "results")
    assert result.summary["verdict"] == "pass"
    with (result.folder / "only" / "tasks.csv").open() as stream:
        rows = {row["label"]: row for row in csv.DictReader(stream)}
    assert [(row["host"], row["operation"], row["peer"], row["line"]) for row in rows.values()] == [
        ("h1", "calc", "", "3"),
        ("h1", "send", "1", "4"),
        ("h4", "recv", "0", "8"),
        ("h4", "calc", "", "9"),
    ]
    times = {label: (int(row["began_ns"]), int(row["ended_ns"])) for label, row in rows.items()}
    assert times["a"] == (0, 50_000)
    assert times["b"][0] == 50_000
    assert times["r"][0] == 0
    assert 50_000 + 100_000 * 8 / 200 < times["r"][1] == times["c"][0] < 100_000
    assert times["c"][1] == times["c"][0] + 1000
    again = load_file(result.folder / "experiment.yaml")  # the schedule is beside the copy
    assert again.cases[0].workload.file.schedule.ranks == 2  # type: ignore[union-attr]


def test_a_chakra_trace_runs_and_the_table_has_the_times_of_its_nodes(tmp_path: Path) -> None:
    ranks = [
        [
            traces.node(1, traces.COMPUTE, "forward", us=10 * (rank + 1)),
            traces.node(2, traces.COLLECTIVE, "sum", after=(1,), comm_type=traces.ALL_REDUCE, comm_size=400_000),
            traces.node(3, traces.COMPUTE, "step", after=(2,), us=5),
        ]
        for rank in range(4)
    ]
    traces.write(tmp_path, *ranks)
    file = tmp_path / "trace.yaml"
    file.write_text(
        "fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}\nduration: 20ms\n"
        "workload: {kind: chakra, file: trace.0.et}\n"
    )
    result = run_and_report(load_file(file), "sim", 1, tmp_path / "results")
    assert result.summary["verdict"] == "pass"
    with (result.folder / "only" / "tasks.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for host in ("h1", "h2", "h3", "h4"):
        calcs = [row for row in rows if (row["host"], row["operation"]) == (host, "calc")]
        forward, done, step = ((row["label"], int(row["began_ns"]), int(row["ended_ns"])) for row in calcs)
        assert forward == ("forward", 0, int(host[1]) * 10_000)
        # The slowest rank begins after 40 us, and six messages of 100,000 bytes follow each other at 200 Gb/s.
        assert done[0] == "sum"
        assert done[1] == done[2] > 40_000 + 3 * 100_000 * 8 / 200
        assert step == ("step", done[2], done[2] + 5_000)
    again = load_file(result.folder / "experiment.yaml")  # all files of the trace are beside the copy
    assert again.cases[0].workload.file.schedule.ranks == 4  # type: ignore[union-attr]
    (tmp_path / "trace.2.et").write_bytes(b"")
    with pytest.raises(FileError, match=r"trace\.yaml, line 3: .*trace\.2\.et: is empty"):
        load_file(file)


def test_operations_unfinished_in_time_are_named(tmp_path: Path) -> None:
    file = experiment(tmp_path, TWO, duration="30us", measure="{bin: 10us}")
    result = run_and_report(load_file(file), "sim", 1, tmp_path / "results")
    assert result.summary["verdict"] == "fail"
    (error,) = result.summary["cases"]["only"]["errors"]
    assert error.startswith(
        "only 0 of 4 operations were done when the time was over: there waited rank 0: calc 50000 (a"
    )
    assert "rank 1: recv 100000b from 0 tag 3 (r in line 8)" in error


@pytest.mark.parametrize(
    ("goal", "workload", "error"),
    [
        (TWO.replace("requires r", "requires q"), "", "two.goal, line 10: unknown label q"),
        (TWO, ", hosts: h1", "two.goal has 2 ranks, but 1 hosts take part: one a rank"),
        (TWO.replace("100000b", "1000000000b"), ", outstanding: 9", "of memory, but 8 GiB is the most"),
        (TWO, ", file: none.goal", "is given twice"),
    ],
)
def test_schedules_that_do_not_fit_are_refused_before_the_run(
    tmp_path: Path, goal: str, workload: str, error: str
) -> None:
    with pytest.raises(FileError) as raised:
        load_file(experiment(tmp_path, goal, workload))
    assert "two.yaml, line 2: workload" in str(raised.value)
    assert error in str(raised.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    file = experiment(tmp_path, TWO)
    (tmp_path / "two.goal").unlink()
    with pytest.raises(FileError, match=r"two\.yaml, line 2: .*two\.goal cannot be read: No such file"):
        load_file(file)


@pytest.mark.parametrize("calcs", ["", "l: calc 500\n"])
def test_a_schedule_without_a_message_runs_and_is_reported(tmp_path: Path, calcs: str) -> None:
    goal = f"num_ranks 2\nrank 0 {{\n{calcs}}}\nrank 1 {{\n}}\n"
    file = experiment(tmp_path, goal, report="[{metric: completion_time}, {metric: fairness}, {metric: throughput}]")
    result = run_and_report(load_file(file), "sim", 1, tmp_path / "results")
    assert result.summary["verdict"] == "pass"
    values = [one["values"]["only"] for one in result.summary["reported"]]
    assert values == ([500, 0, 0] if calcs else [0, 0, None])
    assert "no host writes to another" in (result.folder / "report.html").read_text()
