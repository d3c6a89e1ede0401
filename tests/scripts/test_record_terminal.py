"""Recordings of the terminal: what the scenes type is what recordings show, and a shell is really recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from scripts import record_terminal
from scripts.record_terminal import FOLDER, ROOT, SCENES, Scene, record, shown, with_poster


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_recording_shows_what_its_scene_types(scene: Scene) -> None:
    cast = (FOLDER / f"{scene.name}.cast").read_text()
    header = json.loads(cast.splitlines()[0])
    assert (header["width"], header["height"], header["title"]) == (scene.columns, scene.rows, scene.title)
    assert shown(cast) == list(scene.lines)
    assert (FOLDER / f"{scene.name}.svg").read_text().startswith("<")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_recording_has_no_error_and_nothing_of_the_machine(scene: Scene) -> None:
    cast = (FOLDER / f"{scene.name}.cast").read_text()
    assert not re.search(r"Traceback|mrc: |not found|/home/|/root\b", cast)
    times = [json.loads(line)[0] for line in cast.splitlines()[1:]]
    assert times == sorted(times)
    assert times[-1] < 60


def test_every_recording_is_shown_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown_on = {name for page in pages for name in re.findall(r"recordings/([\w-]+)\.cast\)", page.read_text())}
    assert shown_on == {scene.name for scene in SCENES} == {file.stem for file in FOLDER.iterdir()}


def test_a_shell_is_recorded_at_its_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_terminal, "_READ_S", 0.0)
    cast = record(Scene("x", "X", ("echo $((40 + 2))", "sudo echo äöü"), longest_pause_s=0.5), tmp_path)
    assert shown(cast) == ["echo $((40 + 2))", "sudo echo äöü"]
    output = "".join(json.loads(line)[2] for line in cast.splitlines()[1:])
    assert "\r\n42\r\n" in output
    assert "\r\näöü\r\n" in output
    assert "ready" not in output


def test_a_shell_that_ends_early_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_terminal, "_READ_S", 0.0)
    with pytest.raises(RuntimeError, match="x: the shell has ended"):
        record(Scene("x", "X", ("exit", "echo more")), tmp_path)


def test_progress_lines_that_are_drawn_over_are_left_out() -> None:
    scene = Scene("x", "X", (), longest_pause_s=1.0)
    pieces = [(0.0, "a"), (0.01, "\r\x1b[2Kone"), (0.02, "\r\x1b[2Ktwo"), (5.0, "b")]
    assert list(record_terminal._timed(scene, pieces)) == [(0.5, "a\r\x1b[2Ktwo"), (1.52, "b"), (4.52, "")]


@pytest.mark.parametrize("picture", sorted(FOLDER.glob("*.svg")), ids=lambda picture: picture.stem)
def test_pictures_begin_with_their_last_screen(picture: Path) -> None:
    text = picture.read_text("utf-8")
    assert with_poster(text) == text
    last = re.findall(r"\d\{transform:translateY\((-\d+)px\)", text) or re.findall(r"translateY\((-\d+)px\)\}", text)
    rule = text[text.index("#screen_view {") :].partition("}")[0]
    assert f"transform: translateY({last[-1]}px);" in rule
    (lasts,) = map(int, re.findall(r"--animation-duration: (\d+)ms", text))
    assert f"animation-delay: {3000 - lasts}ms" in rule


def test_a_picture_of_another_sort_is_refused() -> None:
    with pytest.raises(RuntimeError, match="other pictures"):
        with_poster("<svg/>")
