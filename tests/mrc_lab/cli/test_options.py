"""Options that several commands share."""

from __future__ import annotations

import pytest

from mrc_lab.cli import options
from topologies.clos import multi_plane_clos


def test_a_rate_beyond_what_the_machine_carries_is_warned_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc_lab.fabric.capacity.carried_rate", lambda hosts, planes: 25_000_000)
    assert options.link_rate(None, 4, 2) == 25_000_000
    assert options.link_rate(20_000_000, 4, 2) == 20_000_000
    assert capsys.readouterr().err == ""
    assert options.link_rate(400_000_000_000, 4, 2) == 400_000_000_000
    assert "Warning: this machine carries about 25 Mb/s a link with 4 hosts" in capsys.readouterr().err


def test_one_of_a_thing_is_not_a_plural() -> None:
    one = multi_plane_clos("lab", planes=1, t0=1, t1=2, hosts=1)
    text = "fabric lab: 1 plane, 3 switches, 1 host, 40 Mb/s a link, up and verified in 1.50 s"
    assert options.came_up(one, 40_000_000, 1.5) == text
    assert ": 2 planes," in options.came_up(multi_plane_clos(planes=2), 1, 1.0)
