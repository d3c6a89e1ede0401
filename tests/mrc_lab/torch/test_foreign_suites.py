"""Suites of other projects end as their tables say, and pages have their totals from there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS
from tests.mrc_lab.torch import fault_tolerance_tests, pytorch_tests, torchft_tests
from tests.mrc_lab.torch.foreign_suite import Suite
from tests.outcomes import Outcome

SUITES = {
    "pytorch": pytorch_tests.SUITE,
    "torchft": torchft_tests.SUITE,
    "fault_tolerance": fault_tolerance_tests.SUITE,
}
EACH = pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)


@pytest.fixture
def installed(suite: Suite) -> Suite:
    """One that can be run here."""
    reason = suite.missing()
    if reason is not None:
        pytest.skip(reason)
    return suite


def page(suite: Suite) -> str:
    return re.sub(r"\s+", " ", (DOCS / suite.page).read_text())


@EACH
@pytest.mark.timeout(900)
def test_those_tests_pass_that_the_table_says_pass_and_no_others(installed: Suite, tmp_path: Path) -> None:
    wanted = {name: outcome for name, outcome in installed.expected().items() if outcome.outcome != "skipped"}
    found = {outcome.test: outcome for outcome in installed.run(tmp_path, sorted(wanted))}
    assert found.keys() == wanted.keys()
    other = {
        name: (wanted[name].outcome, is_now) for name, is_now in found.items() if is_now.outcome != wanted[name].outcome
    }
    assert not other


@EACH
def test_the_table_has_every_test_there_is(installed: Suite, tmp_path: Path) -> None:
    assert sorted(installed.names(tmp_path)) == sorted(installed.expected())


@EACH
def test_the_page_gives_the_tables_totals(suite: Suite) -> None:
    table = suite.expected().values()
    totals = Counter(outcome.outcome for outcome in table)
    assert re.search(
        rf"Of the {len(table)} tests [^|]*"
        rf"{totals['passed']} pass, {totals['failed']} fail and {totals['skipped']} (is|are) skipped",
        page(suite),
    )


def test_the_page_says_how_many_of_pytorchs_tests_need_cuda() -> None:
    table = SUITES["pytorch"].expected().values()
    cuda = sum(outcome == Outcome(outcome.test, "skipped", "it needs CUDA") for outcome in table)
    assert f"{cuda} of them for lack of CUDA" in page(SUITES["pytorch"])


def test_the_page_says_why_torchfts_tests_are_skipped() -> None:
    table = SUITES["torchft"].expected().values()
    for reason, number in Counter(outcome.reason for outcome in table if outcome.outcome == "skipped").items():
        assert f"| {reason} | {number} |" in page(SUITES["torchft"])
