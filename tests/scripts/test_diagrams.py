"""The diagrams of the pages are what the fabrics, paths and layers of today give."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from scripts.diagrams.drawn import DIAGRAMS, FOLDER, ROOT, address, rooms


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_is_current(name: str) -> None:
    drawn = DIAGRAMS[name]() + "\n"
    assert (FOLDER / f"{name}.svg").read_text() == drawn, "python -m scripts.diagrams draws them again"
    ElementTree.fromstring(drawn)


def test_every_diagram_is_on_a_page_and_there_is_no_other() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"diagrams/([\w-]+)\.svg\)", page.read_text())}
    assert shown == set(DIAGRAMS) == {file.stem for file in FOLDER.iterdir()}


def test_the_address_has_the_usids_of_the_page() -> None:
    """docs/how-mrc-works-here.md has the same address in its program."""
    texts = re.findall(r">([^<]+)</text>", address())
    assert texts[1:] == [
        "fc00", "block", "0000", "block", "2400", "t0-0@p1", "4402", "t1-2@p1", "2401", "t0-1@p1", "6400", "h3",
        "0000", "empty", "0000", "empty",
    ]  # fmt: skip


def test_the_house_has_every_room() -> None:
    for room in (
        "mrc_lab",
        "controller",
        "simulation",
        "topologies",
        "mrc_host",
        "p4runtime_shim",
        "mrc_common",
        "p4src",
    ):
        assert f">{room}</text>" in rooms()
