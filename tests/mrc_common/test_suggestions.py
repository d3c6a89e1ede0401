"""Which names are suggested for one that does not exist."""

from __future__ import annotations

import time

import pytest

from mrc_common.suggestions import did_you_mean, nearest
from mrc_lab.cli.main import run
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError

FABRIC = multi_plane_clos(planes=2, t0=2, t1=4, hosts=12)


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("wirte", ["write", "paths"], "did you mean write?"),
        ("wri", ["qps", "write", "write_bw"], "did you mean write or write_bw?"),
        ("h1", ["h11", "h12", "t0"], "did you mean h11 or h12?"),
        ("h1", ["h10@p0", "h1@p0", "h1@p1"], "did you mean h1@p0 or h1@p1?"),
        ("H1", ["h2@p0", "h1@p0"], "did you mean h1@p0?"),
        ("zzz", ["write"], ""),
        ("", ["write"], ""),
        ("x", [], ""),
    ],
)
def test_the_closest_names_are_suggested(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known) == hint


@pytest.mark.parametrize(
    ("find", "name", "hint"),
    [
        (FABRIC.find_links, "h1", "did you mean h1@p0 or h1@p1?"),
        (FABRIC.find_links, "t0-0:t1-3", "did you mean t0-0:t1-3@p0 or t0-0:t1-3@p1?"),
        (FABRIC.find_switches, "t1-0", "did you mean t1-0@p0 or t1-0@p1?"),
        (FABRIC.switch, "t0-0", "did you mean t0-0@p0 or t0-0@p1?"),
        (FABRIC.nic, "*", "is a pattern, and here one NIC is meant: write its name, as in h1"),
        (FABRIC.switch, "t0-*@p0", "is a pattern, and here one switch is meant"),
        (FABRIC.nic, "zzzz", "has no NIC that matches 'zzzz': names are as in h1"),
    ],
)
def test_names_missing_only_their_plane_are_suggested_first(find, name: str, hint: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FabricError) as error:
        find(name)
    assert hint in str(error.value)


def test_a_very_long_name_is_handled_fast() -> None:
    start = time.process_time()
    nearest("ab" * 500_000, (f"t0-{i}:t1-{j}@p0" for i in range(30) for j in range(30)))
    assert time.process_time() - start < 2


def test_command_line_options_get_suggestions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--port", "800G"]) == 2
    assert "--port-speed" in capsys.readouterr().err
    assert run(["plan", "--plans", "4"]) == 2
    assert "--planes" in capsys.readouterr().err
    assert run(["plan", "--hosts", "64", "--planes", "1", "--tiers", "2"]) == 0
