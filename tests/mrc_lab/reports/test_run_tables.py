"""Tables over all cases of a run, as pandas reads them."""

import pandas
import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.reports.run_and_report import run_and_report
from mrc_lab.reports.run_tables import FLOWS

TEXT = """\
title: Flows beside storage
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}
duration: 1ms
measure: {bin: 20us}
workloads:
  - {name: background, kind: flows, load: 80%, sizes: web_search}
  - {name: storage, kind: write_bw, pairs: h1>h3, message: 64K, total: 1M}
variants:
  - {name: mrc}
  - {name: rc, transport: {type: rc}}
report:
  - {metric: slowdown, of: {tenant: storage}}
  - {metric: fct, of: {tenant: background, statistic: mean}}
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_and_report(load_text(TEXT, name="both"), "sim", 5, tmp_path_factory.mktemp("result"))


def test_there_is_a_row_for_every_flow(result):
    table = pandas.read_csv(result.folder / "flows.csv")
    assert tuple(table.columns) == FLOWS
    assert set(table.case) == {"mrc", "rc"}
    assert set(table.seed) == {5}
    storage = table[table.tenant == "storage"]
    assert list(storage.bytes) == [1 << 20] * 2
    background = table[table.tenant == "background"]
    mrc, rc = (background[background.case == name] for name in ("mrc", "rc"))
    assert list(mrc.bytes) == list(rc.bytes), "both transports have the same flows"
    assert list(mrc.start_ns) == list(rc.start_ns)
    ended = table[table.end_ns.notna()]
    assert ((ended.end_ns - ended.start_ns) == ended.fct_ns).all()
    assert (ended.fct_ns / ended.ideal_ns).round(3).equals(ended.slowdown.round(3))
    assert (ended.retransmitted >= 0).all()


def test_flows_that_had_not_ended_are_rows_without_an_end_and_are_said(result):
    table = pandas.read_csv(result.folder / "flows.csv")
    late = table[table.end_ns.isna()]
    assert len(late)
    assert late.fct_ns.isna().all()
    assert late.slowdown.isna().all()
    for name, case in result.summary["cases"].items():
        assert case["flow_completion"]["unfinished"] == len(late[late.case == name])
        assert case["flow_completion"]["flows"] == len(table[table.case == name])
        assert case["flow_completion"]["fct_ns"]["mean"] is None
    lines = list(result.lines())
    assert any("flows had not ended when the run did" in line for line in lines)
    assert any(line.startswith("reported") and "fct: mrc: none" in line for line in lines)
    page = (result.folder / "report.html").read_text("utf-8")
    assert "flows had not ended when the run did" in page
    assert "Slowdown by size of all cases" in page


def test_links_of_all_cases_are_in_one_table(result):
    table = pandas.read_csv(result.folder / "link_utilisation.csv")
    assert len(table) == 2 * 2 * (2 * 4 + 2 * 4)
    assert ((table["mean"] >= 0) & (table["mean"] <= table["max"])).all()
    assert (table["max"] < 1.05).all(), "a bin may have one frame that was begun in it and ends after it"


def test_a_run_without_such_flows_has_no_table_of_flows(tmp_path):
    text = "fabric: {hosts: 4, t0: 2, t1: 2}\nworkload: {kind: write_bw, pairs: h1>h3}\nduration: 60us\n"
    folder = run_and_report(load_text(text, name="endless"), "sim", 1, tmp_path).folder
    assert not (folder / "flows.csv").exists()
    assert (folder / "link_utilisation.csv").exists()
