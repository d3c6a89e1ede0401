"""Runs of experiments as recordings: what is in the result folder is what the page is given, and what it shows."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mrc_lab.cli.run import run
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.web import result_recording, result_series
from mrc_lab.web.compare_command import compare
from mrc_lab.web.recording import read_recordings
from mrc_lab.web.report_command import report
from mrc_lab.web.result_faults import carrier_changes, faults_of
from mrc_lab.web.result_recording import result_recordings
from tests.mrc_lab.web.browser import chromium
from tests.waiting import until

LINK = "t0-0:t1-1@p0"
CUT = f"""
name: cut
fabric: {{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}}
transport: {{type: mrc}}
workload: {{kind: write_bw, pairs: [h1>h3], message: 64K, outstanding: 2}}
duration: 300us
measure: {{bin: 20us}}
faults:
  - {{kind: link_down, link: "{LINK}", at: 100us, until: 200us}}
variants:
  - {{name: rc, transport: {{type: rc}}}}
  - {{name: mrc, transport: {{type: mrc}}}}
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    file = place / "cut.yaml"
    file.write_text(CUT)
    outcome = CliRunner().invoke(run, [str(file), "--results", str(place), "--web"], standalone_mode=False)
    assert outcome.exception is None, outcome.output
    return place / "cut" / "latest"


def states(records: tuple[str, ...]) -> list[dict[str, Any]]:
    return [record for record in map(json.loads, records) if "state" in record or "whole" in record]


def events(records: tuple[str, ...]) -> list[tuple[float, str, str]]:
    found = map(json.loads, records)
    return [(record["at"], record["event"][0], record["event"][2]) for record in found if "event" in record]


def test_records_are_in_order_and_begin_with_layout_and_whole_state(result: Path) -> None:
    rc, mrc = result_recordings(result)
    assert (rc.name, mrc.name) == ("rc", "mrc")
    first, second = json.loads(mrc.records[0]), json.loads(mrc.records[1])
    assert first["layout"]["run"] == [0.3, 1.0, True]
    assert set(second["whole"]["links"]) == {link[0] for link in first["layout"]["links"]}
    times = [json.loads(record)["at"] for record in mrc.records]
    assert times == sorted(times)
    assert times[-1] == 0.3


def test_bytes_of_every_link_are_those_of_the_table(result: Path) -> None:
    wanted: dict[str, int] = {}
    with (result / "mrc" / "links.csv").open() as table:
        for row in csv.DictReader(table):
            if row["direction"] == "up":
                wanted[row["link"]] = wanted.get(row["link"], 0) + int(row["bytes"])
    found: dict[str, float] = dict.fromkeys(wanted, 0.0)
    rates = dict.fromkeys(wanted, 0)
    then = 0.0
    for record in states(result_recordings(result)[1].records):
        for name, rate in rates.items():
            found[name] += rate * (record["at"] - then) / 8e3
        then = record["at"]
        for name, value in record.get("state", {}).get("links", {}).items():
            rates[name] = value[1]
    assert found == pytest.approx(wanted, rel=1e-3)


@pytest.fixture(scope="module")
def congested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an incast, whose packets are marked and trimmed before its target."""
    place = tmp_path_factory.mktemp("congested")
    file = place / "incast.yaml"
    incast = "{kind: incast, target: h1, sources: [h2, h3, h4], total: 2M}"
    text = CUT.partition("faults:")[0].replace("{kind: write_bw, pairs: [h1>h3], message: 64K, outstanding: 2}", incast)
    file.write_text(text.replace("300us", "5ms").replace("rate: 100G}", "rate: 100G, queues: {ecn_lasthop: yes}}"))
    outcome = CliRunner().invoke(run, [str(file), "--results", str(place), "--web"], standalone_mode=False)
    assert outcome.exception is None, outcome.output
    return place / "cut" / "latest"


def counted(records: tuple[str, ...]) -> dict[str, list[float]]:
    """Packets marked and trimmed by link, from the rates that the page is given."""
    found: dict[str, list[float]] = {}
    rates: dict[str, list[int]] = {}
    then = 0.0
    for record in states(records):
        for name, now in rates.items():
            sums = found.setdefault(name, [0.0, 0.0])
            for place in range(2):
                sums[place] += now[place] * (record["at"] - then) / 1e3
        then = record["at"]
        for name, value in record.get("state", {}).get("signals", {}).items():
            rates[name] = value[:2] if value else [0, 0]
    return {name: sums for name, sums in found.items() if any(sums)}


def test_marks_and_trims_of_every_link_are_those_of_the_table_over_time(congested: Path) -> None:
    wanted: dict[str, list[float]] = {}
    with (congested / "only" / "signals.csv").open() as table:
        for row in csv.DictReader(table):
            sums = wanted.setdefault(row["link"], [0.0, 0.0])
            for place, name in enumerate(("marked", "trimmed")):
                sums[place] += int(row[name])
    assert min(sum(sums[place] for sums in wanted.values()) for place in range(2)) > 0, "some of both"
    (one,) = result_recordings(congested)
    assert json.loads(one.records[0])["layout"]["run"][2] is True
    found = counted(one.records)
    assert found.keys() == wanted.keys()
    for name, sums in wanted.items():
        assert found[name] == pytest.approx(sums, rel=1e-3, abs=0.01)


def test_marks_and_trims_that_were_counted_over_several_bins_are_shared_among_them(
    congested: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(congested.resolve(), folder)
    head = "begin_ns,end_ns,link,direction,marked,trimmed"
    (folder / "only" / "signals.csv").write_text(f"{head}\n20000,80000,h1@p0,down,3,60\n")
    shared = [
        (record["at"], record["state"]["signals"].get("h1@p0"))
        for record in states(result_recordings(folder)[0].records)[1:]
        if "h1@p0" in record["state"].get("signals", {})
    ]
    assert shared == [
        *((at, [50_000, 1_000_000, 0, {}]) for at in (0.02, 0.04, 0.06)),
        (0.08, None),
    ]


def test_run_without_marks_and_trims_over_time_says_so(result: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(result.resolve(), folder)
    for variant in ("rc", "mrc"):
        (folder / variant / "signals.csv").unlink()
    assert json.loads(result_recordings(folder)[0].records[0])["layout"]["run"][2] is False


def test_page_of_a_run_shows_marks_and_trims_where_and_when_they_were(congested: Path) -> None:
    with chromium((congested / "playback.html").as_uri()) as page:
        page.js("const t = document.querySelector('#time'); t.value = t.max / 8; t.dispatchEvent(new Event('input'))")
        page.driver.switch_to.frame(page.one("#frames iframe"))
        page.js("document.querySelector('#measure input[value=trims]').click()")
        until(lambda: "level-0" not in page.classes('[data-name="h1@p0"]'), "trims before the target")
        assert "level-0" in page.classes('[data-name="h2@p0"]')
        assert "trims" in page.text("#losses")
        page.driver.switch_to.default_content()
        page.js("const t = document.querySelector('#time'); t.value = t.max; t.dispatchEvent(new Event('input'))")
        page.driver.switch_to.frame(page.one("#frames iframe"))
        until(lambda: "level-0" in page.classes('[data-name="h1@p0"]'), "no trims at the end")


def test_cut_link_is_down_between_its_times_and_paths_over_it_go(result: Path) -> None:
    mrc = result_recordings(result)[1].records
    ups = [(record["at"], record["state"]["links"][LINK][0]) for record in states(mrc)[1:]
           if LINK in record["state"].get("links", {})]  # fmt: skip
    assert {up for at, up in ups if 0.1 < at < 0.2} <= {False}
    assert (0.1, False) in ups
    assert ups[-1][1]
    happened = events(mrc)
    assert [one[:2] for one in happened if one[1].startswith("link")] == [(0.1, "link down"), (0.2, "link up")]
    lost = [(at, text) for at, kind, text in happened if kind == "paths"]
    assert all(at >= 0.1 for at, _ in lost)
    assert any("1 path h1 to h3 in plane 0 out of use after a lost packet" in text for _, text in lost)
    pairs = [record["state"]["pairs"]["h1>h3"] for record in states(mrc)[1:] if record["state"].get("pairs")]
    assert any("b" in pair[0].lower() for pair in pairs)


def test_rc_has_one_path_and_says_what_it_lost(result: Path) -> None:
    rc = result_recordings(result)[0].records
    pairs = [record["state"]["pairs"]["h1>h3"] for record in states(rc)[1:] if record["state"].get("pairs")]
    assert {pair[0] for pair in pairs} == {""}
    with (result / "rc" / "flows.csv").open() as table:
        assert pairs[-1][3] == sum(int(row["sent"]) for row in csv.DictReader(table))


def test_run_is_the_same_to_the_byte_with_a_recording_and_without(result: Path, tmp_path: Path) -> None:
    file = tmp_path / "cut.yaml"
    file.write_text(CUT)
    CliRunner().invoke(run, [str(file), "--results", str(tmp_path)], standalone_mode=False)
    for table in ("flows.csv", "links.csv", "events.csv", "completions.csv"):
        assert (tmp_path / "cut/latest/mrc" / table).read_bytes() == (result / "mrc" / table).read_bytes()
    assert not (tmp_path / "cut/latest/playback.html").exists()


def test_many_bins_and_links_are_put_together_and_bytes_are_bounded(
    result: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sum(map(len, result_recordings(result)[1].records))
    bins = result_series.read_series(result / "mrc", 16, 0, links_measured=True)
    monkeypatch.setattr(result_series, "MIN_BINS", 2)
    monkeypatch.setattr(result_series, "MAX_VALUES", 16 * 4)
    few = result_series.read_series(result / "mrc", 16, 0, links_measured=True)
    assert len(few) == 4
    assert sum(one.links[LINK].upward_bytes for one in few) == sum(one.links[LINK].upward_bytes for one in bins)
    assert sum(map(len, result_recordings(result)[1].records)) < whole
    monkeypatch.setattr(result_recording, "MAX_BYTES", 500)
    assert "too large" in result_recordings(result)[1].records[-1]


def test_many_variants_share_what_a_page_may_take(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_recording, "MAX_BYTES", 40_000)
    monkeypatch.setattr(result_recording, "MAX_TOGETHER", 1)
    assert all(sum(map(len, one.records)) < 20_000 + 8_000 for one in result_recordings(result))


def test_run_over_an_axis_is_done_all_the_same_and_says_that_there_is_no_page(tmp_path: Path) -> None:
    text = CUT.partition("variants:")[0] + "axis:\n  - {name: small, workload: {message: 16K}}\n"
    file = tmp_path / "cut.yaml"
    file.write_text(text)
    outcome = CliRunner().invoke(run, [str(file), "--results", str(tmp_path), "--web"], standalone_mode=False)
    assert outcome.exception is None, outcome.output
    assert "no page: " in outcome.output
    assert not (tmp_path / "cut/latest/playback.html").exists()


def test_page_plays_both_variants_in_slow_motion_from_disk(result: Path) -> None:
    with chromium((result / "playback.html").as_uri()) as page:
        assert page.text("#left option:checked") == "rc"
        assert page.text("#right option:checked") == "mrc"
        assert page.js("return document.querySelector('#speed').selectedOptions[0].textContent") == "10 µs a second"
        page.press("#next-event")
        assert page.text("#clock").startswith("100.")
        rc, mrc = page.driver.find_elements("css selector", "#frames iframe")
        page.driver.switch_to.frame(mrc)
        until(lambda: "down" in page.classes(f'[data-name="{LINK}"]'), "the link to be down")
        page.driver.switch_to.default_content()
        page.press("#play")
        page.driver.switch_to.frame(mrc)
        until(lambda: page.js("return document.querySelectorAll('.ev-b').length") == 1, "its path to be out of use")
        assert page.text("#fabric-name") == "cut: mrc"
        page.driver.switch_to.default_content()
        page.driver.switch_to.frame(rc)
        page.until_text(".pair-note", lambda text: "one path" in text)
        page.driver.switch_to.default_content()
        for width in (1440, 800, 380):
            page.resize(width, 900)
            assert page.js("return document.documentElement.scrollWidth <= innerWidth")
        assert page.problems() == []


def test_report_of_a_folder_and_comparison_of_two_are_pages_that_play(result: Path, tmp_path: Path) -> None:
    page, both = tmp_path / "one.html", tmp_path / "both.html"
    outcome = CliRunner().invoke(report, [str(result), "--output", str(page)])
    assert (outcome.exit_code, outcome.output) == (0, f"page: {page}\n")
    assert page.read_text() == (result / "playback.html").read_text()
    CliRunner().invoke(compare, [str(result), str(result), "--output", str(both)])
    with chromium(both.as_uri()) as browser:
        assert browser.text("#left option:checked") == "A: rc"
        assert browser.text("#right option:checked") == "B: rc"
        browser.js("document.querySelector('#show-report').click()")
        until(lambda: browser.one("#report").is_displayed(), "the report")


def test_result_folder_and_page_are_compared(result: Path, tmp_path: Path) -> None:
    both = tmp_path / "both.html"
    for pair in ([result, result / "playback.html"], [result / "playback.html", result]):
        outcome = CliRunner().invoke(compare, [*map(str, pair), "--output", str(both)])
        assert (outcome.exit_code, outcome.output) == (0, f"page: {both}\n")
        assert [one.name for one in read_recordings(both)] == [
            f"{file}: {name}" for file in (one.name for one in pair) for name in ("rc", "mrc")
        ]


@pytest.mark.parametrize(
    ("table", "line", "message"),
    [
        ("flows.csv", "100,50,h1>h3,1,1,1,1,1,1,1", "line 2: not a row of flows"),
        ("flows.csv", "0,20000,h1>h3,x,1,1,1,1,1,1", "line 2: not a row of flows"),
        ("links.csv", "7,20000,h1@p0,up,1,1,1", "line 2: not a row of links"),
        ("signals.csv", "0,20000,h1@p0,up,x,1", "line 2: not a row of signals"),
        ("signals.csv", "7,20000,h1@p0,up,1,1", "line 2: not a row of signals: no time bin begins when it does"),
        ("events.csv", "5,path,h1,h1>h3,1,2,0,good,wrong,loss,", "line 2: not a change of a path"),
    ],
)
def test_damaged_tables_are_named_with_their_line(
    result: Path, tmp_path: Path, table: str, line: str, message: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(result.resolve(), folder)
    file = folder / "mrc" / table
    head = file.read_text().splitlines()[0]
    file.write_text(f"{head}\n{line}\n")
    with pytest.raises(ExperimentError, match=message):
        result_recordings(folder)


def test_folder_that_is_no_result_is_refused(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(report, [str(tmp_path)])
    assert isinstance(outcome.exception, ExperimentError)
    assert not list(tmp_path.iterdir())


def test_link_that_flaps_goes_down_and_up_until_the_fault_ends() -> None:
    text = CUT.replace("kind: link_down", "kind: flap, down: 10us, up: 30us")
    case = load_text(text).cases[0]
    found = list(faults_of(case, build_fabric(case.fabric), 2.0, 600_000))
    times = [(time, up) for time, link, up in carrier_changes(found) if link == LINK]
    assert times[:4] == [(200_000, False), (220_000, True), (280_000, False), (300_000, True)]
    assert times[-1] == (380_000, True)


def test_link_is_down_while_any_of_two_faults_takes_it_down() -> None:
    more = f'  - {{kind: link_down, link: "{LINK}", at: 150us, until: 250us}}\nvariants'
    case = load_text(CUT.replace("variants", more)).cases[0]
    found = list(faults_of(case, build_fabric(case.fabric), 1.0, 300_000))
    assert list(carrier_changes(found)) == [(100_000, LINK, False), (250_000, LINK, True)]
