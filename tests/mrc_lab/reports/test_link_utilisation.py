"""How busy links were, by arithmetic."""

import csv

import numpy as np
import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.reports import link_utilisation
from mrc_lab.reports.run_and_report import run_and_report
from tests.mrc_lab.reports.recordings import experiment, recording


def busy(made, case=None):
    found = link_utilisation.utilisation(case or experiment().cases[0], made)
    return {f"{one.link} {one.direction}": (one.mean, one.most) for one in found}


def test_frames_count_with_all_that_is_around_them():
    """Ten frames of 1000 bytes and 24 around each in 10 us of 100 Gb/s: 81,920 of 1,000,000 bits."""
    found = busy(recording())
    assert found["h1@p0 up"] == pytest.approx((0.08192, 0.08192))
    assert found["h1@p0 down"] == (0, 0)


def test_the_mean_is_over_time_and_the_maximum_over_bins():
    rates = [(0, 0), (10, 0), (30, 0), *[(0, 0)] * 7]  # the first bin warms up
    mean, most = busy(recording(rates))["h1@p0 up"]
    assert mean == pytest.approx(40 * 1024 * 8 / (90 * 100e3))
    assert most == pytest.approx(30 * 1024 * 8 / (10 * 100e3))


def test_a_short_last_bin_has_no_maximum_of_its_own():
    times = np.array([*range(0, 100_000, 10_000), 91_000])
    assert busy(recording(times=times))["h1@p0 up"][1] == pytest.approx(0.08192)


def test_rates_are_those_of_the_run():
    (link, *_) = link_utilisation.utilisation(experiment().cases[0], recording(rate_scale=0.1))
    assert link.rate_bps == pytest.approx(10e9)
    assert link.mean == pytest.approx(0.8192)


def test_without_bins_of_links_there_is_no_maximum():
    head = "fabric: {hosts: 4, planes: 2, t0: 2, t1: 2, rate: 100G}\nworkload: {kind: write_bw, pairs: h1>h3}\n"
    (case,) = load_text(f"{head}duration: 100us\nmeasure: {{bin: 10us, warmup: 10us, links: no}}\n").cases
    assert busy(recording(), case)["h1@p0 up"][1] is None
    table = link_utilisation.table(link_utilisation.utilisation(case, recording()))
    assert table["rows"][0][-2] == "not recorded"


def test_the_table_names_the_busiest_of_each_class():
    table = link_utilisation.table(link_utilisation.utilisation(experiment().cases[0], recording()))
    assert [row[:3] for row in table["rows"]] == [
        ("nic-t0", "up", "1"),
        ("nic-t0", "down", "1"),
        ("t0-t1", "up", "1"),
        ("t0-t1", "down", "1"),
    ]
    assert table["rows"][0][6] == "h1@p0"
    assert link_utilisation.table([]) is None


def test_a_flow_at_full_rate_keeps_its_link_busy(tmp_path):
    text = """\
fabric: {planes: 1, t0: 2, t1: 2, hosts: 4, rate: 100G}
workload: {kind: write_bw, pairs: h1>h3, message: 256K}
duration: 300us
measure: {bin: 10us, warmup: 50us}
"""
    folder = run_and_report(load_text(text, name="full"), "sim", 1, tmp_path).folder
    with (folder / "link_utilisation.csv").open() as table:
        rows = {(row["link"], row["direction"]): row for row in csv.DictReader(table)}
    assert len(rows) == 2 * (4 + 4)
    assert float(rows["h1@p0", "up"]["mean"]) == pytest.approx(1, abs=0.01)
    uplinks = [float(rows[f"t0-0:t1-{number}@p0", "up"]["mean"]) for number in range(2)]
    assert sum(uplinks) == pytest.approx(1, abs=0.01)
    assert float(rows["h2@p0", "up"]["mean"]) == 0
    assert "Use of links" in (folder / "report.html").read_text("utf-8")
