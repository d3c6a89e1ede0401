"""Patterns of names: what each means, compared with an expansion by hand, and what is refused with what to write."""

import random

import pytest

from tests.seeds import SEED
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.name_patterns import check_pattern, is_pattern, matches, select

HOSTS = [f"h{number}" for number in range(1, 121)]
LINKS = [f"t0-{a}:t1-{b}@p{plane}" for a in range(3) for b in range(12) for plane in range(2)]


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("h[1-16]", [f"h{number}" for number in range(1, 17)]),
        ("h[8-12]", ["h8", "h9", "h10", "h11", "h12"]),
        ("h[1,3]", ["h1", "h3"]),
        ("h[99-101, 7]", ["h7", "h99", "h100", "h101"]),
        ("h[3]", ["h3"]),
        ("h[1-3]*", ["h1", "h2", "h3"]),
        ("*[119-120]", ["h119", "h120"]),
        ("h12?", ["h120"]),
        ("h7", ["h7"]),
        ("x*", []),
    ],
)
def test_numbers_in_brackets_are_whole_numbers(pattern, meant):
    assert select(HOSTS, pattern) == meant
    assert [name for name in HOSTS if matches(name, pattern)] == meant


def test_several_brackets_are_combined():
    assert select(LINKS, "t0-[0,2]:t1-[9-11]@p[1]") == [f"t0-{a}:t1-{b}@p1" for a in (0, 2) for b in (9, 10, 11)]


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        ("h[12]", r"ambiguous: write \[1,2\] for 2 numbers, or 12 without brackets"),
        ("h[02]", r"no leading zeros: write \[0,2\]"),
        ("h[01-16]", r"no leading zeros: write \[1-16\]"),
        ("h1[0-9]", r"for h10 to h19 write h\[10-19\]"),
        ("h[1][2]", "whole numbers"),
        ("h[a-c]", r"numbers and ranges of numbers.*as in h\[1-4,7\]"),
        ("h[!3]", "numbers and ranges of numbers"),
        ("h[^3]", "numbers and ranges of numbers"),
        ("h[]", "numbers and ranges of numbers"),
        ("h[3-1]", r"empty: write \[1-3\]"),
        ("h[1-", "not closed"),
        ("h1-3]", "not opened"),
        ("h{1,3}", r"write 'h\[1,3\]'"),
        ("h{1..16}", r"write 'h\[1-16\]'"),
        ("{h1,h3}", "no braces"),
        ("h[1-9999999]", "at most six digits"),
        ("h*" * 1000, "too long"),
    ],
)
def test_what_would_mean_something_else_elsewhere_is_refused_with_what_to_write(pattern, instead):
    assert is_pattern(pattern)
    for use in (check_pattern, lambda pattern: select(HOSTS, pattern), lambda pattern: matches("h1", pattern)):
        with pytest.raises(FabricError, match=instead):
            use(pattern)


def test_numbers_that_are_not_there_are_an_error():
    with pytest.raises(FabricError, match=r"'h\[1-150\]' means 150 numbers, but no name has 121-150: write \[1-120\]"):
        select(HOSTS, "h[1-150]")
    with pytest.raises(FabricError, match=r"no name has 4-7: write \[0-2\]|no name has 3-7"):
        select(LINKS, "t0-[0-7]:t1-1@p0")


def test_random_ranges_and_lists_mean_what_their_numbers_say():
    seed = SEED
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        wanted: set[int] = set()
        parts = []
        for _ in range(chance.randint(1, 4)):
            low = chance.randint(1, 120)
            high = chance.randint(low, 120)
            wanted |= set(range(low, high + 1))
            parts.append(f"{low}-{high}" if high > low else str(low))
        text = ",".join(parts)
        if text.isdigit() and len(text) > 1:
            continue  # refused as ambiguous
        assert select(HOSTS, f"h[{text}]") == [f"h{number}" for number in sorted(wanted)], text


def test_stars_take_no_time():
    assert not matches("a" * 200, "a*" * 100 + "b")


@pytest.mark.parametrize(
    ("find", "message"),
    [
        (lambda fabric: fabric.find_nics("h1-4"), r"for h1 to h4 write h\[1-4\]"),
        (lambda fabric: fabric.find_nics("h1..4"), r"for h1 to h4 write h\[1-4\]"),
        (lambda fabric: fabric.find_nics("h1-h4"), r"for h1 to h4 write h\[1-4\]"),
        (lambda fabric: fabric.find_nics("h1,h4"), r"write a list, as in \[h1, h4\]"),
        (lambda fabric: fabric.find_nics("h9*"), r"has no NIC that matches 'h9\*': names are as in h1"),
        (lambda fabric: fabric.find_links("t0-[0-9]:t1-0@p0"), "no name has 2-9"),
    ],
)
def test_a_fabric_says_what_to_write_for_what_matches_nothing(find, message):
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4)
    with pytest.raises(FabricError, match=message):
        find(fabric)
