"""Distributions of flow sizes: those of the package, and lines of files."""

import math
import random
from itertools import pairwise

import pytest

from mrc_lab.published.flow_sizes import DATA, fixed, load, parse
from tests.docs.blocks import ROOT
from tests.seeds import SEED

# Sums of (size + size before) / 2 * (percent - percent before) / 100 over the points, by hand: HPCC's getAvg.
MEANS = {"web_search": 1_711_250, "data_mining": 12_658_198.6, "hadoop": 120_420.75, "ali_storage": 40_869.8}
NAMES = sorted(MEANS)


def test_there_is_every_distribution_with_its_source():
    assert sorted(load()) == NAMES
    for distribution in load().values():
        assert distribution.paper
        assert distribution.file
        assert distribution.what
        assert distribution.certainty in ("C", "S")


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_is_the_analytical_one(name):
    assert load()[name].mean == pytest.approx(MEANS[name], rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_quantiles_integrate_to_the_mean(name):
    count = 100_000
    total = sum(load()[name].quantile(100 * (number + 0.5) / count) for number in range(count))
    assert total / count == pytest.approx(MEANS[name], rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_drawn_sizes_have_that_mean_within_four_standard_errors(name):
    print("seed", SEED)
    distribution, chance = load()[name], random.Random(SEED)
    drawn = [distribution.draw(chance) for _ in range(40_000)]
    mean = sum(drawn) / len(drawn)
    # second moment of a uniform between a and b: (a*a + a*b + b*b) / 3
    segments = zip(pairwise(distribution.sizes), pairwise(distribution.percents), strict=True)
    square = sum((a * a + a * b + b * b) / 3 * (high - low) / 100 for (a, b), (low, high) in segments)
    error = math.sqrt((square - MEANS[name] ** 2) / len(drawn))
    assert abs(mean - MEANS[name]) < 4 * error


@pytest.mark.parametrize("name", NAMES)
def test_as_many_flows_are_up_to_a_point_as_it_says(name):
    distribution = load()[name]
    for size, percent in zip(distribution.sizes, distribution.percents, strict=True):
        assert distribution.quantile(percent) == pytest.approx(size, rel=1e-9, abs=1e-6)
    assert distribution.draw(random.Random(1)) >= 1


def test_one_size_for_all():
    assert fixed(64 << 10).mean == 64 << 10
    assert {fixed(5000).draw(random.Random(seed)) for seed in range(50)} == {5000}


def test_a_file_has_comments_jumps_and_empty_lines():
    lines = ["# sizes of ours", "0 0", "", "1000 40   # half of a thousand", "1000 60", "9000 100"]
    found = parse("mine", lines)
    assert (found.sizes, found.percents) == ((0, 1000, 1000, 9000), (0, 40, 60, 100))
    assert found.mean == 500 * 0.4 + 1000 * 0.2 + 5000 * 0.4
    assert (found.quantile(40), found.quantile(50), found.quantile(60)) == (1000, 1000, 1000)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1: a distribution needs two points or more"),
        (["0 0"], "line 1: a distribution needs two points or more"),
        (["0 0", "1000"], "line 2: must have a size in bytes and a percentage, but has 1 words"),
        (["0 0", "10K 100"], "line 2: '10K' is not a number"),
        (["0 0", "1000 nan"], "line 2: 'nan' is not a number"),
        (["0 0", "inf 100"], "line 2: 'inf' is not a number"),
        (["0 0", "2000 50", "1000 100"], "line 3: the size 1000 is less than that of the line before, 2000"),
        (["0 0", "1000 60", "2000 50", "3000 100"], "line 3: the percentage 50 is less"),
        (["100 10", "1000 100"], "line 1: the first size has 10 percent, but must have 0"),
        (["0 0", "", "1000 90"], "line 3: the last size has 90 percent, but must have 100"),
        (["0 0", "1000 1"], "must have 100: shares must be multiplied by 100"),
        (["-1 0", "1000 100"], "line 1: the size -1 is not from 0"),
        (["0 0", "1000 101"], "line 2: the percentage 101 is not from 0 to 100"),
        (["0 0", "0.5 100"], "the largest flow must have a byte at least"),
    ],
)
def test_a_wrong_line_is_named(lines, message):
    with pytest.raises(ValueError, match=message):
        parse("mine", lines)


def test_the_file_on_the_page_is_one():
    page = (ROOT / "docs/random-flows.md").read_text("utf-8")
    block = page.partition("# sizes of our storage")[2].partition("```")[0]
    assert parse("page", f"#{block}".splitlines()).mean == pytest.approx(0.1 * 2048 + 0.5 * 4096 + 0.4 * 502_048)


def test_the_page_has_every_distribution_with_its_mean_and_source():
    page = (ROOT / "docs/random-flows.md").read_text("utf-8")
    for name, distribution in load().items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        assert distribution.paper in row
        assert distribution.file in row
        assert f"| {distribution.certainty} |" in row
        assert f"| {distribution.mean:,.0f} |" in row
    assert DATA.name in page
