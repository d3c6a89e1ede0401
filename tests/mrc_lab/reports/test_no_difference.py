"""Cases that vary something and go the same are named, with what they vary; cases that differ are not."""

from mrc_lab.experiments.files import load_text
from mrc_lab.reports.run_and_report import run_and_report

QUIET = """\
fabric: {hosts: 4, planes: 1, t0: 2, t1: 2}
workload: {kind: write_bw, pairs: h1>h3, total: 64K}
duration: 100us
report: [{metric: throughput}]
"""
VARIED = "variants: [{name: both}, {name: no-ecn, fabric: {queues: {ecn: no}}}, {name: slow, transport: {qps: 2}}]\n"


def test_a_file_that_cannot_show_what_it_varies_says_so(tmp_path):
    result = run_and_report(load_text(QUIET + VARIED, name="quiet"), "sim", 1, tmp_path)
    (sentence,) = result.summary["no_difference"]
    assert sentence.startswith("both and no-ecn went the same to the packet")
    assert "(fabric.queues.ecn); no packet waited long enough to be marked, trimmed or dropped" in sentence
    assert any(line.startswith("note      both and no-ecn") for line in result.lines())
    assert sentence in (result.folder / "report.html").read_text("utf-8")


def test_cases_that_differ_say_nothing(tmp_path):
    varied = "variants: [{name: a}, {name: b, transport: {qps: 2}}]\n"
    assert run_and_report(load_text(QUIET + varied, name="quiet"), "sim", 1, tmp_path).summary["no_difference"] == []


def test_of_many_cases_the_lowest_and_highest_are_printed(tmp_path):
    sizes = "sizes: [1K, 2K, 4K, 8K, 16K, 32K, 64K, 128K]\n"
    result = run_and_report(load_text(QUIET + sizes, name="many"), "sim", 1, tmp_path)
    (line,) = (line for line in result.lines() if line.startswith("reported"))
    assert "lowest and highest of 8 cases: 1K: " in line
    assert line.endswith("; report.html lists all")
