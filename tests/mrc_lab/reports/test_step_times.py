"""What a fault cost a job: steps before, with and after it, and the time lost, of steps made by hand and of a run."""

import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.reports.run_and_report import run_and_report
from mrc_lab.reports.step_times import Step, steps_around


def steps(*durations, gap=0):
    found, now = [], 0
    for number, duration in enumerate(durations):
        found.append(Step(number, now, now + duration, duration))
        now += duration + gap
    return found


@pytest.mark.parametrize(
    ("durations", "down", "up", "counts", "lost"),
    [
        ((10, 10, 10, 40, 10, 10), 35, 45, (3, 1, 2), 30),
        ((10, 12, 10, 40, 30, 12, 10), 35, 45, (3, 1, 3), 30 + 20),  # the second is slow still, the third as before
        ((10, 10, 10, 10), 15, 25, (1, 2, 1), 0),
        ((10, 10), 0, 5, (0, 1, 1), None),  # nothing before to compare with
        ((10, 10), 25, None, (2, 0, 0), None),  # none met it
        ((10, 10, 50), 25, None, (2, 1, 0), 40),
    ],
)
def test_time_lost_is_what_slow_steps_took_longer_than_usual(durations, down, up, counts, lost):
    made = steps(*durations)
    around = steps_around(made, down, up, begin_ns=0, end_ns=sum(durations))
    assert (len(around.before), len(around.during), len(around.after)) == counts
    assert around.lost_ns == lost


def test_steps_that_warm_up_are_not_usual():
    around = steps_around(steps(90, 10, 10, 30), 115, None, begin_ns=0, end_ns=140, first=1)
    assert around.lost_ns == 20


def test_a_training_report_says_what_the_fault_cost(tmp_path):
    text = """\
fabric: {planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G}
workload: {kind: training, steps: 8, gradients: 128K, compute: 20us}
transport: {qps: 2}
duration: 20ms
faults: [{kind: link_down, at: 200us, until: 400us, link: "t0-0:t1-0@p0"}]
"""
    result = run_and_report(load_text(text, name="train"), "sim", 1, tmp_path)
    found = result.summary["cases"]["only"]["steps"][""]
    (fault,) = found["faults"]
    assert found["count"] == 8
    assert found["slowest_ns"] == fault["during_ns"]["largest"] > fault["before_ns"]["largest"]
    late = fault["during_ns"]["largest"] - fault["before_ns"]["median"]
    assert late <= fault["lost_ns"] < 2 * late
    lines = [line for line in result.lines() if line.startswith("steps")]
    assert "8 steps, median" in lines[0]
    assert "steps around fault 1: before" in lines[1]
    assert "; it cost " in lines[1]
    assert "steps around fault 1: before" in (result.folder / "report.html").read_text("utf-8")
