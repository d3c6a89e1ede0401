"""Faults by chance: how many, of what, and that only the seed decides which."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.fault_draws import draw_case, draw_faults
from mrc_lab.experiments.files.model import Case
from topologies.faults import KINDS

UPLINKS = "t0-*:t1-*@p*"  # 2 planes of 2 T0s with 4 T1s: 16 links
FILE = """\
fabric: {{planes: 2, t0: 2, t1: 4, hosts: 4}}
workload: {{kind: permutation, message: 16K}}
duration: 60us
faults:
  - {{{fault}}}
"""


def case_of(fault: str) -> Case:
    (case,) = load_text(FILE.format(fault=fault)).cases
    return case


def drawn(fault: str, seed: int) -> list[str]:
    return [getattr(one.fault, "link", None) or one.fault.switch for one in draw_case(case_of(fault), seed).faults]  # type: ignore[attr-defined]


def test_the_seed_alone_decides_and_seeds_differ():
    fault = f"kind: link_down, at: 0us, link: '{UPLINKS}', count: 3"
    first = drawn(fault, 1)
    assert first == drawn(fault, 1)
    assert len(first) == len(set(first)) == 3
    assert first == drawn(fault.replace("at: 0us", "at: 7us"), 1), "times do not matter"
    assert first == drawn(fault.replace("link_down", "loss") + ", probability: 1%", 1), "nor does the kind"
    assert len({tuple(drawn(fault, seed)) for seed in range(20)}) > 10


def test_every_link_is_drawn_about_as_often():
    """Of 16 links 4 are drawn in 400 seeds: each 100 times, with a deviation of 8.7."""
    fault = f"kind: link_down, at: 0us, link: '{UPLINKS}', count: 4"
    case = case_of(fault)
    counts = Counter(one.fault.link for seed in range(400) for one in draw_case(case, seed).faults)  # type: ignore[attr-defined]
    assert len(counts) == 16
    assert all(abs(count - 100) < 5 * 8.7 for count in counts.values()), counts


def test_more_of_them_include_the_fewer():
    fault = f"kind: link_down, at: 0us, link: '{UPLINKS}', count: "
    sets = [set(drawn(fault + str(count), 5)) for count in (1, 3, 8, 16)]
    assert sets == sorted(sets, key=len)
    assert all(fewer < more for fewer, more in itertools.pairwise(sets))
    assert len(sets[-1]) == 16


@pytest.mark.parametrize(("share", "count"), [("10%", 2), ("1%", 1), ("50%", 8), ("0.09", 1), ("0.1", 2), ("100%", 16)])
def test_a_share_is_rounded_and_one_at_least(share: str, count: int):
    assert len(drawn(f"kind: link_down, at: 0us, link: '{UPLINKS}', share: {share}", 1)) == count


def test_switches_are_drawn_as_links_are():
    found = drawn("kind: blackhole, at: 0us, switch: 't1-*@p*', count: 2", 3)
    fabric = build_fabric(case_of("kind: blackhole, at: 0us, switch: 't1-*@p*'").fabric)
    assert len(found) == 2
    assert set(found) < {switch.name for switch in fabric.find_switches("t1-*@p*")}


def test_only_links_that_lead_there_are_drawn():
    fault = "kind: loss, probability: 1%, at: 0us, link: '*', towards: h3, count: "
    assert sorted(drawn(fault + "2", 1)) == ["h3@p0", "h3@p1"]
    with pytest.raises(FileError, match=r"count: is 3, but only 2 links match '\*'"):
        case_of(fault + "3")


def test_two_faults_draw_apart_and_by_their_names():
    text = FILE.format(fault=f"kind: link_down, at: 0us, link: '{UPLINKS}', count: 3")
    twice = text + text.splitlines()[-1] + "\n"
    (case,) = load_text(twice).cases
    found = [
        [one.fault.link for one in draw_case(case, seed).faults]  # type: ignore[attr-defined]
        for seed in range(10)
    ]
    assert any(set(links[:3]) != set(links[3:]) for links in found)
    named = f"name: cut, kind: link_down, at: 0us, link: '{UPLINKS}', count: 3"
    (other,) = load_text(twice.splitlines(keepends=True)[0] + "".join(
        [*FILE.format(fault="kind: loss, probability: 1%, at: 0us, link: h1@p0").splitlines(keepends=True)[1:],
         f"  - {{{named}}}\n"]
    )).cases  # fmt: skip
    alone, second = draw_case(case_of(named), 4).faults, draw_case(other, 4).faults[1:]
    assert [one.fault for one in alone] == [one.fault for one in second], "its place in the list does not matter"


def test_a_drawn_experiment_has_nothing_of_chance_left():
    experiment = load_text(FILE.format(fault=f"kind: link_down, at: 0us, link: '{UPLINKS}', count: 2"))
    once = draw_faults(experiment, 1)
    assert draw_faults(once, 2) == once
    assert [one.draw.matches for one in once.cases[0].faults if one.draw] == [16, 16]
    plain = load_text(FILE.format(fault="kind: link_down, at: 0us, link: h1@p0"))
    assert draw_faults(plain, 1) is plain


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (f"kind: link_down, at: 0us, link: '{UPLINKS}', count: 17", r"line 5: faults\[0\]\.count: is 17, but only 16"),
        ("kind: link_down, at: 0us, link: h1@p0, count: 2", r"count: is 2, but only 1 link matches 'h1@p0'"),
        ("kind: power_off, at: 0us, switch: 't1-*@p0', count: 5", r"count: is 5, but only 4 switches match"),
        (f"kind: link_down, at: 0us, link: '{UPLINKS}', count: 2, share: 5%", r"share: says the same as count"),
        (f"kind: link_down, at: 0us, link: '{UPLINKS}', count: 0", r"count: is 0, but must be at least 1"),
        (f"kind: link_down, at: 0us, link: '{UPLINKS}', share: 0%", r"share: of 0 draws nothing"),
        (f"kind: link_down, at: 0us, link: '{UPLINKS}', share: 110%", r"share: is 110%, but must be"),
        (f"kind: link_down, at: 0us, link: '{UPLINKS}', counts: 2", r"did you mean count"),
        ("kind: port_down, at: 0us, node: h1, port: 0, count: 1", r"count: is not for port_down"),
        ("kind: controller_down, at: 0us, share: 10%", r"share: is not for controller_down"),
        ("name: 7, kind: link_down, at: 0us, link: h1@p0", r"name: '7' must be letters"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_by_line_and_key(fault: str, message: str):
    with pytest.raises(FileError, match=message):
        case_of(fault)


def test_two_faults_of_one_name_are_refused():
    text = FILE.format(fault="name: cut, kind: link_down, at: 0us, link: h1@p0")
    with pytest.raises(FileError, match=r"line 6: .*name: there are two faults cut"):
        load_text(text + text.splitlines()[-1] + "\n")


def test_a_variant_changes_a_fault_by_its_name():
    text = FILE.format(fault="name: cut, kind: link_down, at: 0us, link: h1@p0")
    text += "variants:\n  - {name: early}\n  - {name: late, faults: [{name: cut, at: 30us}]}\n"
    assert [(case.name, case.faults[0].at) for case in load_text(text).cases] == [("early", 0), ("late", 30_000)]


def test_every_kind_on_links_or_switches_can_be_drawn():
    """Where the links or switches are named by a pattern, and nowhere else."""
    assert {name for name, kind in KINDS.items() if not kind.drawable} == {"port_down", "path_loss", "controller_down"}


def test_cases_without_chance_are_not_copied():
    case = case_of("kind: link_down, at: 0us, link: h1@p0")
    assert draw_case(case, 1) is case
    assert draw_case(replace(case, faults=()), 1).faults == ()
