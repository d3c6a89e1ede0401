"""The picture of the live view: in the pages, small, made small, and taken of the right time of a recording."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from PIL import Image

from mrc_lab.fabric.live_view import TrainingState
from mrc_lab.web.feed import Feed
from mrc_lab.web.recording import Recorder
from mrc_lab.web.records import FabricLayout, StateSection
from scripts import live_view_picture
from scripts.live_view_picture import LARGEST, PICTURE, small
from tests.mrc_lab.web.fake_fabric import FakeFabric
from topologies.clos import multi_plane_clos

LINK = "t0-0:t1-1@p0"


def test_picture_in_the_pages_is_small_and_can_be_read() -> None:
    assert PICTURE.stat().st_size <= LARGEST
    assert Image.open(PICTURE).width > 1000


def test_picture_is_made_small_without_another_size() -> None:
    out = io.BytesIO()
    Image.effect_noise((300, 200), 80).convert("RGB").save(out, "PNG")
    made = small(out.getvalue())
    assert len(made) < len(out.getvalue())
    assert Image.open(io.BytesIO(made)).size == (300, 200)


def recorded(file: Path, transports: tuple[str, ...]) -> None:
    """A recording of runs of six steps of a second each, with a link down during the fourth and the fifth."""
    now = [1_000_000]
    fabric = multi_plane_clos("lab", hosts=4, planes=2, t0=2, t1=4, rate_bps=10**9)
    fake = FakeFabric(fabric, (("h1", "h3"),))
    fake.feed = Feed(FabricLayout(fabric), clock=lambda: now[0])
    fake.publish_all()
    recorder = Recorder(fake.feed, file)
    for transport in transports:
        for step in range(1, 7):
            if step in (4, 6):
                fake.set_link(LINK, up=step == 6)
            now[0] += 1000
            fake.feed.put(StateSection.TRAINING, transport, TrainingState(step, 6, 1.0, 1000.0))
            recorder.write()
    recorder.close()


@pytest.mark.skipif(shutil.which("chromedriver") is None, reason="Chromium is not installed")
def test_picture_of_a_recording_is_taken_when_both_transports_had_the_same_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_view_picture, "_SEEN_S", 0.0)
    monkeypatch.setattr(live_view_picture, "PICTURE", tmp_path / "picture.png")
    both, one = tmp_path / "both.html", tmp_path / "one.html"
    recorded(both, ("roce", "mrc"))
    assert live_view_picture.main(str(both)) == 0
    assert Image.open(tmp_path / "picture.png").size == live_view_picture._SIZE
    (tmp_path / "picture.png").unlink()
    recorded(one, ("roce",))
    with pytest.raises(ValueError, match="no link goes down during MRC's run"):
        live_view_picture.main(str(one))
    assert not (tmp_path / "picture.png").exists()
