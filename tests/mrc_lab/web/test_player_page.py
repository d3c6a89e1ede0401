"""Two recordings in one page: one slider moves both, and nothing of the files but their records gets into it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrc_common import strict_json
from mrc_lab.errors import ExperimentError
from mrc_lab.web.compare_command import compare
from mrc_lab.web.player_page import player_page, side_by_side
from mrc_lab.web.recording import NamedRecording, playable, read_recordings
from tests.mrc_lab.web.browser import Page, chromium
from tests.mrc_lab.web.test_recording import DRAWN, recorded
from tests.waiting import until

START = ('{"at":1,"layout":{}}', '{"at":1,"whole":{}}')


def downs(page: Page) -> list[bool]:
    """Whether the link is down in the first and in the second recording."""
    found = []
    for frame in page.driver.find_elements("css selector", "#frames iframe"):
        page.driver.switch_to.frame(frame)
        found.append("down" in page.classes(DRAWN))
        page.driver.switch_to.default_content()
    return found


def move(page: Page, at_ms: int) -> None:
    """Pull the slider."""
    page.js(
        "const t = document.querySelector('#time'); t.value = arguments[0]; t.dispatchEvent(new Event('input'))", at_ms
    )


def test_one_slider_moves_both_recordings_and_they_can_begin_at_their_fault(tmp_path: Path) -> None:
    first, second, both = (tmp_path / name for name in ("rc.html", "mrc.html", "both.html"))
    recorded(first, down=3)
    recorded(second, down=5, start_ms=77_000_000)
    outcome = CliRunner().invoke(compare, [str(first), str(second), "--output", str(both)])
    assert (outcome.exit_code, outcome.output) == (0, f"page: {both}\n")
    with chromium(both.as_uri()) as page:
        assert downs(page) == [False, False]
        move(page, 4000)
        until(lambda: downs(page) == [True, False], "only the first link to be down after 4 s")
        move(page, 5500)
        until(lambda: downs(page) == [True, True], "both links to be down")
        move(page, 1000)
        until(lambda: downs(page) == [False, False], "both links to be up again")
        page.js("const o = document.querySelector('#origin'); o.value = 'fault'; o.dispatchEvent(new Event('change'))")
        move(page, 1500)
        until(lambda: downs(page) == [True, True], "both links to be down after the same time")
        assert page.text("#clock").startswith("1.500 s")
        for width, height in ((1440, 900), (800, 1000), (380, 800)):
            page.resize(width, height)
            assert page.js("return document.documentElement.scrollWidth <= innerWidth")
        assert page.problems() == []


def test_only_records_are_taken_from_the_files(tmp_path: Path) -> None:
    evil = tmp_path / "<img src=x onerror=alert(1)>.html"
    event = '{"at":2,"event":["crash","x","</iframe></script><script>alert(2)</script>"]}'
    evil.write_bytes(playable([*START, event]) + b"<script>alert(3)</script>")
    page = side_by_side(evil, evil)
    assert "<img src=x" not in page
    assert "</script><script>alert" not in page
    assert "alert(3)" not in html.unescape(page)
    file = tmp_path / "evil.html"
    file.write_text(page)
    with chromium(file.as_uri()) as browser:
        until(lambda: len(browser.driver.find_elements("css selector", "iframe")) == 3, "both recordings")
        assert browser.js(
            "return [...document.querySelectorAll('#frames iframe')].map((one) => one.sandbox.value)"
        ) == [
            "allow-scripts",
            "allow-scripts",
        ]
        assert browser.js("return document.querySelectorAll('img').length") == 0


def test_report_is_shown_without_scripts(tmp_path: Path) -> None:
    recorded(tmp_path / "one.html")
    report = "<p id='here'>a report</p><script>parent.document.title = 'taken'; document.title = 'ran'</script>"
    file = tmp_path / "page.html"
    file.write_text(player_page("<b>Two</b>", read_recordings(tmp_path / "one.html"), report))
    with chromium(file.as_uri()) as page:
        assert page.text("h1") == "<b>Two</b>"
        assert not page.one("#report").is_displayed()
        page.js("document.querySelector('#show-report').click()")
        until(lambda: page.one("#report").is_displayed(), "the report")
        assert not page.one("#frames").is_displayed()
        page.driver.switch_to.frame(page.one("#report"))
        assert page.text("#here") == "a report"
        page.driver.switch_to.default_content()
        assert page.js("return document.title") == "<b>Two</b>"


def test_page_with_several_recordings_can_be_compared_again(tmp_path: Path) -> None:
    recorded(tmp_path / "one.html")
    one = read_recordings(tmp_path / "one.html")[0]
    both = tmp_path / "both.html"
    both.write_text(player_page("both", [NamedRecording("rc", one.records), NamedRecording("mrc", one.records)]))
    assert read_recordings(both) == [NamedRecording("rc", one.records), NamedRecording("mrc", one.records)]
    again = tmp_path / "again.html"
    again.write_text(side_by_side(both, tmp_path / "one.html"))
    assert [found.name for found in read_recordings(again)] == ["both.html: rc", "both.html: mrc", "one.html"]


@pytest.mark.parametrize(
    "records",
    [
        [],
        [START[0]],
        [START[1], START[0]],
        [*START, "3"],
        [*START, '{"at":"now","state":{}}'],
        [*START, '{"at":true,"state":{}}'],
        [*START, '{"at":-1,"state":{}}'],
        [*START, '{"at":9007199254740992,"state":{}}'],
        [*START, '{"at":2,"state":{"x":NaN}}'],
        [*START, "[" * 100_000],
        [*START, '{"at":2'],
    ],
)
def test_files_that_are_no_recordings_are_refused(tmp_path: Path, records: list[str]) -> None:
    file = tmp_path / "some.html"
    file.write_bytes(playable(records))
    with pytest.raises(ExperimentError, match="is not a recording"):
        side_by_side(file, file)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"<p>a report</p>", json.dumps({"at": 1}).encode()])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "some.html"
    file.write_bytes(content)
    with pytest.raises(ExperimentError, match="is not a recording"):
        side_by_side(file, file)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"none.html cannot be read: No such file or directory"):
        side_by_side(tmp_path / "none.html", tmp_path)


_ODD = {
    "infinite value": ', {"at": 1000100, "event": ["a", "b", -1e999]}',
    "NaN": ', {"at": 1000100, "event": ["a", "b", NaN]}',
    "a time alone": ', {"at": 1000100}',
    "a time below 0": ', {"at": -0.0, "event": ["a", "b", ""]}',
    "hardly a time": ', {"at": 1e-400, "event": ["a", "b", ""]}',
    "a time twice": ', {"at": 5, "at": "x", "event": ["a", "b", ""]}',
    "numbers as event": ', {"at": 1000100, "event": [1, 2]}',
    "an event of nothing": ', {"at": 1000100, "event": []}',
    "half characters": ', {"at": 1000100, "event": ["\\ud800", "\\udfff", ""]}',
    "many digits": ', {"at": 1000100, "x": %s}' % ("9" * 4000),
    "too many digits": ', {"at": 1000100, "x": %s}' % ("9" * 5000),
    **{
        f"depth {depth}": f', {{"at": 1000100, "x": {"[" * depth}{"]" * depth}}}'
        for depth in (900, 970, 985, 1000, 9999)
    },
}


@pytest.mark.parametrize("odd", _ODD)
def test_odd_records_make_a_page_that_browsers_read_or_are_refused_in_a_sentence(tmp_path: Path, odd: str) -> None:
    good, bad = tmp_path / "good.html", tmp_path / "bad.html"
    recorded(good)
    text = good.read_text("utf-8")
    bad.write_text(f"{text}{_ODD[odd]}]</script>", "utf-8")
    try:
        page = side_by_side(bad, good)
    except ExperimentError as error:
        assert "is not a recording" in str(error)  # noqa: PT017 - either is right
        return
    scripts = re.findall(r'<script type="application/json" id="\w+">(.*?)</script>', page, re.DOTALL)
    assert len(scripts) >= 2
    for script in scripts:
        value = strict_json.loads(script)
        for inner in value if "recordings" in page and isinstance(value, list) else ():
            if isinstance(inner, str) and inner.startswith("["):
                strict_json.loads(inner)
