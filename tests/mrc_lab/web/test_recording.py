"""Recordings: one file with everything in it, which a browser plays from disk."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.live_view import TrainingState
from mrc_lab.web.feed import Feed
from mrc_lab.web.recording import Recorder, in_order, playable, read_recordings
from mrc_lab.web.records import FabricLayout, StateSection
from tests.mrc_lab.web.browser import chromium
from tests.mrc_lab.web.fake_fabric import FakeFabric
from tests.waiting import until, until_async
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=4, planes=2, t0=2, t1=4, rate_bps=10**9)
LINK = "t0-0:t1-1@p0"
DRAWN = f'[data-name="{LINK}"]'


def recorded(file: Path, down: int = 3, start_ms: int = 1_000_000) -> None:
    """A recording of nine seconds: a link goes down in one of them, the third, and comes back in the sixth."""
    now = [start_ms]
    fake = FakeFabric(FABRIC, (("h1", "h3"),))
    fake.feed = Feed(FabricLayout(FABRIC), clock=lambda: now[0])
    fake.publish_all()
    recorder = Recorder(fake.feed, file)
    for second in range(1, 10):
        now[0] += 1000
        if second in (down, 6):
            fake.set_link(LINK, up=second == 6)
        fake.feed.put(StateSection.TRAINING, "mrc", TrainingState(second, 9, 1.0, 100.0 + second))
        recorder.write()


def test_recording_plays_from_disk_forwards_and_backwards(tmp_path: Path) -> None:
    file = tmp_path / "lab.html"
    recorded(file)
    with chromium(file.as_uri()) as page:
        page.one(DRAWN)
        assert page.text("#fabric-name") == "lab"
        until(lambda: "down" in page.classes(DRAWN), "the page to open at the first fault")
        seek = "const t = document.querySelector('#time'); t.value = arguments[0]; t.dispatchEvent(new Event('input'))"
        page.js(seek, 0)
        until(lambda: "down" not in page.classes(DRAWN), "the link to be up at the begin")
        page.press("#next-event")
        until(lambda: "down" in page.classes(DRAWN), "the link to be down after the first event")
        assert page.js("return document.querySelectorAll('.pair .ev-b').length") == 1
        page.js(seek, 8000)
        until(lambda: "down" not in page.classes(DRAWN), "the link to be up at the end")
        assert "step 8 of 9" in page.text("#training")
        page.js(seek, 4000)
        until(lambda: "down" in page.classes(DRAWN), "the link to be down in the middle again")
        page.js(seek, 0)
        until(lambda: "down" not in page.classes(DRAWN), "the link to be up at the begin")
        assert page.text("#events") == ""
        page.press("#play")
        until(lambda: "down" in page.classes(DRAWN), "the link to go down while it plays")
        page.click_drawing(LINK)
        assert not page.one("#take-down").is_displayed()
        assert page.problems() == []


def test_recording_loads_nothing_and_cannot_be_broken_by_what_it_holds() -> None:
    evil = '{"at":1,"event":["crash","x","</script><script>alert(1)</script>"]}'
    page = playable([evil]).decode()
    assert "</script><script>alert(1)" not in page
    held = re.search(r'<script type="application/json" id="recording">(.*?)</script>', page, re.DOTALL)
    assert held is not None
    assert json.loads(held[1]) == [json.loads(evil)]
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    names = re.search(r'<script type="importmap">(.*?)</script>', page, re.DOTALL)
    assert names is not None
    assert all(url.startswith("data:text/javascript;base64,") for url in json.loads(names[1])["imports"].values())


def test_recording_that_is_too_large_ends_and_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        fake = FakeFabric(FABRIC, (("h1", "h3"),))
        recorder = Recorder(fake.feed, tmp_path / "lab.html", max_bytes=1000)
        task = asyncio.create_task(recorder.run())
        await until_async(lambda: fake.feed.viewers == 0, "the end of the recording")
        assert "too large" in fake.feed.join().records(0)[-1]
        task.cancel()

    asyncio.run(work())


def test_event_that_is_known_late_is_played_at_its_time() -> None:
    layout, whole = {"at": 50, "layout": {}}, {"at": 50, "whole": {}}
    earlier, state, event = {"at": 10, "event": []}, {"at": 90, "state": {}}, {"at": 80, "event": []}
    assert in_order([layout, whole, earlier, state, event]) == [layout, whole, earlier, event, state]


@pytest.mark.second_ring
@pytest.mark.parametrize("lost", [0, 7, 300])
def test_recording_that_was_killed_half_way_plays_as_far_as_it_goes(tmp_path: Path, lost: int) -> None:
    file = tmp_path / "lab.html"
    recorded(file)
    content = file.read_bytes()
    assert not content.endswith(b"</html>\n")  # nobody has closed it
    file.write_bytes(content[: len(content) - lost])
    (found,) = read_recordings(file)
    assert len(found.records) >= 8
    with chromium(file.as_uri()) as page:
        page.one(DRAWN)
        until(lambda: "down" in page.classes(DRAWN), "the page to open at the first fault")
        assert page.problems() == []


def test_recording_without_anything_in_it_says_so(tmp_path: Path) -> None:
    file = tmp_path / "lab.html"
    Recorder(FakeFabric(FABRIC, (("h1", "h3"),)).feed, file)
    with pytest.raises(ExperimentError, match="is not a recording"):
        read_recordings(file)
    with chromium(file.as_uri()) as page:
        page.until_text("#status", lambda text: "ended before anything was recorded" in text)


def test_recording_ends_when_the_disk_is_full_and_the_page_goes_on(tmp_path: Path) -> None:
    async def work() -> None:
        fake = FakeFabric(FABRIC, (("h1", "h3"),))
        recorder = Recorder(fake.feed, tmp_path / "lab.html")
        with Path("/dev/full").open("wb", buffering=0) as full:
            recorder._stream = full
            task = asyncio.create_task(recorder.run())
            await until_async(lambda: fake.feed.viewers == 0, "the end of the recording")
        assert "lab.html cannot be written any further: No space left on device." in fake.feed.join().records(0)[-1]
        assert not task.done()
        task.cancel()

    asyncio.run(work())


def test_finished_recording_is_a_whole_page(tmp_path: Path) -> None:
    file = tmp_path / "lab.html"
    fake = FakeFabric(FABRIC, (("h1", "h3"),))
    recorder = Recorder(fake.feed, file)
    fake.feed.event("crash", "x", "</script><b>")
    recorder.close()
    text = file.read_text()
    assert text.endswith("</html>\n")
    (found,) = read_recordings(file)
    assert json.loads(found.records[-1])["event"] == ["crash", "x", "</script><b>"]
    assert text.count("</script><b>") == 0


def test_file_that_cannot_be_written_is_refused_at_the_begin(tmp_path: Path) -> None:
    fake = FakeFabric(FABRIC, (("h1", "h3"),))
    with pytest.raises(ExperimentError, match="cannot be written"):
        Recorder(fake.feed, tmp_path / "none" / "lab.html")
    assert fake.feed.viewers == 0
