"""Fabrics drawn as text, and what ``mrc up --show`` does with them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrc_lab.cli.up import up
from mrc_lab.fabric.draw import WIDTH, draw
from tests.topologies.random_fabrics import random_fabric, three_tiers
from topologies import drawing
from topologies.clos import multi_plane_clos
from topologies.link_rules import LinkRule

LAB = """\
fabric lab: 2 planes, 3 tiers, 2 pods, 20 switches, 8 hosts, 40 links
planes 0 1
          t2-0..t2-3
           ║ 4 x 80 Mb/s and 20 us
  pod 0   t1-0 t1-1
           ║ 4 x 40 Mb/s
          t0-0 t0-1  h1..h4  (2 x 40 Mb/s down, 2 x 40 Mb/s up each)
           ║ 4 x 80 Mb/s and 20 us
  pod 1   t1-2 t1-3
           ║ 4 x 40 Mb/s
          t0-2 t0-3  h5..h8  (2 x 40 Mb/s down, 2 x 40 Mb/s up each)
h1 > h2: 2 paths inside a rack
h1 > h8: 8 paths over T2s
"""


def test_identical_planes_and_racks_are_drawn_once() -> None:
    rule = LinkRule("t1-t2", rate_bps=80_000_000, delay_ns=20_000)
    sizes = {"planes": 2, "pods": 2, "t0": 2, "t1": 2, "t2": 4, "hosts": 8, "rate_bps": 40_000_000}
    fabric = multi_plane_clos("lab", links=[rule], **sizes)  # type: ignore[arg-type]
    assert draw(fabric) == LAB.replace("20 switches", "24 switches").replace("40 links", "48 links")


def test_missing_links_and_oversubscription_are_noted() -> None:
    rules = [LinkRule("h4@p1", missing=True), LinkRule("t0-1:t1-0@p0", missing=True)]
    text = draw(multi_plane_clos("lab", planes=2, t1=2, racks=[[1, 3]], rate_bps=40_000_000, links=rules))
    assert "14 links (2 missing)" in text
    assert "missing: t0-1:t1-0@p0 h4@p1" in text
    assert "t0-1  h2..h4  (3 x 40 Mb/s down, 1 x 40 Mb/s up, 3:1)" in text
    assert "t0-1  h2 h3  (2 x 40 Mb/s down, 2 x 40 Mb/s up)" in text


@pytest.mark.parametrize("seed", range(30))
def test_drawings_of_random_fabrics_fit_the_width(seed: int) -> None:
    print(f"seed {seed}")
    assert max(map(len, draw(random_fabric(random.Random(seed))).splitlines())) <= WIDTH


def test_drawings_have_a_row_for_every_tier() -> None:
    picture = drawing.svg(three_tiers(planes=1))
    for name in ("t2-3@p0", "t1-3@p0", "t0-3@p0", "h8", "t1-3:t2-3@p0"):
        assert f"<title>{name}</title>" in picture
    ys = {part.split('"')[0] for part in picture.split('y1="')[1:]}
    assert len(ys) == 3


def test_show_draws_without_bringing_up_the_fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_lab.fabric.link_rate.carried_rate", lambda hosts, planes: 10**9)
    file = tmp_path / "lab.yaml"
    file.write_text("name: lab\nplanes: 1\nt0: 2\nt1: 1\nhosts: 2\n")
    for words in (["--show", str(file)], [str(file), "--show"]):
        result = CliRunner().invoke(up, words)
        assert result.exit_code == 0
        assert result.output.startswith("fabric lab: 1 plane, 2 tiers, 3 switches, 2 hosts, 4 links\n")
    picture = tmp_path / "lab.svg"
    assert "is drawn in" in CliRunner().invoke(up, [str(file), "--show", str(picture)]).output
    assert picture.read_text().startswith("<svg")
    refused = CliRunner().invoke(up, [str(file), "--show", "lab.png"])
    assert (refused.exit_code, "ends in .svg" in refused.output) == (2, True)
