"""The page: cases in which MRC is not the best come first, and the headline counts what it made unnecessary."""

from __future__ import annotations

import csv
import io
from typing import Any

from mrc_lab.torch_jobs.train_faults.cases import load
from mrc_lab.torch_jobs.train_faults.table import headline, markdown, rows_of, tidy
from tests.mrc_lab.torch_jobs.train_faults import runs

Records = dict[tuple[str, str], dict[str, Any]]


def records(*made: dict[str, Any]) -> Records:
    return {(record["case"], record["stack"]): record for record in made}


def names(found: Records) -> list[tuple[str, bool]]:
    return [(row.case.name, row.behind) for row in rows_of(load(), found)]


def test_a_case_in_which_another_stack_keeps_more_ranks_comes_first() -> None:
    found = records(
        runs.undisturbed(case="cut-port"), runs.recovered(case="cut-port"),
        runs.recovered(case="t0-gone", stack="mrc"), runs.undisturbed(case="t0-gone", stack="gloo"),
    )  # fmt: skip
    assert names(found) == [("t0-gone", True), ("cut-port", False)]


def test_a_lower_cost_counts_where_all_else_is_equal_and_it_is_more_than_noise() -> None:
    slow, quick = runs.undisturbed(400), runs.undisturbed(100, stack="gloo")
    assert names(records(slow, quick)) == [("cut-port", True)]
    quiet = runs.undisturbed(350, case="healthy")
    assert ("cut-port", False) in names(records(slow, quick, quiet)), "as much as where nothing fails"


def test_a_job_that_ends_is_worse_than_one_with_a_single_rank() -> None:
    assert names(records(runs.ended(stack="mrc"), runs.recovered())) == [("cut-port", True)]


def test_the_headline_counts_cases_in_which_only_others_had_to_reconfigure() -> None:
    found = records(
        runs.undisturbed(), runs.recovered(), runs.ended(),
        runs.recovered(case="nic-gone", stack="mrc"), runs.recovered(case="nic-gone"),
        runs.undisturbed(case="healthy"), runs.undisturbed(case="healthy", stack="gloo"),
    )  # fmt: skip
    rows = rows_of(load(), found)
    assert headline(rows) == (
        "**MRC made reconfigurations unnecessary in 1 of 3 cases**: gloo had to reconfigure in 2;"
        " rc had to reconfigure in 1, and 1 of these jobs ended; mrc had to reconfigure in 1."
    )


def test_a_stack_beside_the_others_is_shown_and_not_compared() -> None:
    found = records(runs.undisturbed(), runs.recovered(stack="mrc-3s"))
    rows = rows_of(load(), found)
    assert headline(rows) == (
        "**MRC made reconfigurations unnecessary in 0 of 1 cases**: mrc-3s had to reconfigure in 1;"
        " mrc had to reconfigure in 0."
    )
    assert not rows[0].behind
    late = rows_of(load(), records(runs.undisturbed(late_ms=900), runs.undisturbed(stack="mrc-3s")))
    assert not late[0].behind


def test_without_runs_of_mrc_nothing_is_unnecessary() -> None:
    rows = rows_of(load(), records(runs.recovered()))
    assert "unnecessary in 0 of 1 cases" in headline(rows)


def test_the_page_has_each_outcome_each_recovery_and_a_time_line_of_each_run() -> None:
    found = records(runs.undisturbed(260), runs.recovered(), runs.ended())
    page = markdown(load(), rows_of(load(), found), found)
    outcomes = "2 attempts, 3 ranks left, +0.9 s | ended after 1 attempt | goes on, +0.3 s |"
    assert f"| cut-port | a link of a NIC is cut | {outcomes}" in page
    assert "| cut-port | gloo | 0.20 | 0.21 | 0.89 | 1.00 | 2 | 1 | 1.0e-12 |" in page
    assert "| cut-port | rc | 0.19 | - | - | - | 1 | 1 | - |" in page
    assert page.count("```text") == 3
    assert "FAULT: blackhole t1-0@p0" in page
    assert "h1, h2, h3, h4: failed: Connection closed" in page, "without where gloo's source says it"


def test_the_tidy_table_has_a_row_for_each_run() -> None:
    found = records(runs.undisturbed(260), runs.recovered(), runs.ended())
    rows = list(csv.DictReader(io.StringIO(tidy(rows_of(load(), found)))))
    assert [(row["stack"], row["finished"], row["ranks_left"]) for row in rows] == [
        ("gloo", "True", "3"), ("rc", "False", "0"), ("mrc", "True", "4")
    ]  # fmt: skip
    assert float(rows[2]["cost"]) > 0.2
    assert rows[1]["cost"] == ""
